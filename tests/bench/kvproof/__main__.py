# SPDX-License-Identifier: Apache-2.0
"""Compares the texts of a server with those of a cold run, in which all caches are off, and counts
the texts that differ.

    python3 tests/bench/kvproof --server sconce --bin build --model DIR_OR_GGUF...
    python3 tests/bench/kvproof --server llama --bin PATH/llama-server --model GGUF...
    python3 tests/bench/kvproof --server other --bin PATH --model PATH --arg=WORD... --cold-arg=WORD...

The texts are asked for in all combinations of: one or several clients; roomy caches, or caches that
evict all the time; no restart, an orderly restart, or a kill of all processes; bits flipped in
stored files or not; other requests cancelled or not. Exit status: 0; 1 when a server that promises
equal texts (sconce) answered with another text or other log probabilities, or when a request
failed; 2 when something could not be run.
"""
import argparse
import datetime
import json
import os
import pathlib
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from compare import machine  # noqa: E402
from figures import run  # noqa: E402
from proof import Counts, Proof  # noqa: E402
from servers import SERVERS  # noqa: E402
from twins import make_twin  # noqa: E402

MODELS = HERE.parents[1] / "golden/models"


def parse(argv):
    p = argparse.ArgumentParser(prog="kvproof", description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("--server", choices=list(SERVERS), default="sconce")
    add("--bin", type=pathlib.Path, default=HERE.parents[2] / "build",
        help="sconce: the build directory; else the program of the server (default: build)")
    add("--model", type=pathlib.Path, nargs="+", action="extend", dest="models", metavar="PATH",
        help="GGUF files, and directories in Hugging Face layout (default: tests/golden/models/*)")
    add("--texts", type=int, default=20000, metavar="N", help="texts to compare (default: 20000)")
    add("--concurrency", type=int, default=4, metavar="N",
        help="clients at the same time in half of the cells (default: 4)")
    add("--seed", type=int, default=1, metavar="N")
    add("--context", type=int, default=1024, metavar="N",
        help="tokens of the longest conversation (default: 1024)")
    add("--max-n", type=int, default=3, metavar="N",
        help="the largest number of answers of one request (default: 3)")
    add("--twins", type=int, default=1, metavar="N",
        help="for so many of the models that are directories, sconce also gets a model with the same\n"
             "configuration and other weights (default: 1)")
    add("--controls", type=int, default=40, metavar="N",
        help="texts of each family that are asked for with another block (default: 40)")
    add("-t", "--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    add("--chat", action="append", default=[], metavar="LINE",
        help="a line for the section chat of sconce's configuration, such as \"kv_type: f16\"")
    add("--arg", action="append", default=[], metavar="WORD",
        help="a word of the command line of llama-server or of another server; for another server,\n"
             "{port}, {model}, {name} and {directory} are replaced (write --arg=--port)")
    add("--cold-arg", action="append", default=[], metavar="WORD",
        help="a word more for another server without caches")
    add("--directory", type=pathlib.Path, metavar="DIR", default=tempfile.gettempdir(),
        help="directory for what the servers store (default: the directory for temporary files)")
    add("--examples", type=int, default=10, metavar="N",
        help="number of differing texts to print (default: 10)")
    add("--json", metavar="FILE", help="write all counts to this file")
    add("--docs", metavar="FILE", help="put tables between the marks of this Markdown file")
    o = p.parse_args(argv)
    o.bin = o.bin.resolve()
    program = o.bin / "services/cli/sconce" if o.server == "sconce" else o.bin
    if not os.access(program, os.X_OK) or program.is_dir():
        p.error("%s: not an executable" % program)
    o.models = named([path.resolve() for path in o.models or sorted(MODELS.iterdir())])
    for path in o.models.values():
        if not path.exists():
            p.error("%s: no such file" % path)
    return o


def named(paths):
    """Returns the models by different names. A name is that of the file or directory or, if several
    models share it, that of the directory above."""
    own = [path.name if path.is_dir() else path.stem for path in paths]
    names = {}
    for path, name in zip(paths, own):
        if name == "model" or own.count(name) > 1:
            name = path.parent.name
        if name in names:
            raise RuntimeError("two models are named %s" % name)
        names[name] = path
    return names


def with_twins(models, directory, n):
    """Returns @models, and twins of the first @n models that can have a twin."""
    twins = {}
    for name, path in models.items():
        twin = directory / (name + "-twin")
        if len(twins) < n and make_twin(path, twin):
            twins[twin.name] = twin
    return {**models, **twins}


def tell(text):
    print("  %s" % text, file=sys.stderr, flush=True)


def tell_examples(proof, n):
    for text, cell, expected, answer in proof.examples[:n]:
        tell("differs (%s; %d of %d prompt tokens cached): %s" % (
            cell, answer.n_cached, answer.n_prompt, json.dumps(text.body())))
        tell("  expected %r" % (expected.texts,))
        tell("  answered %r" % (answer.texts,))


def percent(part, whole):
    return "%.0f %%" % (100 * part / whole) if whole else "–"


def row(name, c):
    return [name, "{:,}".format(c.compared), c.differing, c.noisy,
            "%d of %s" % (c.other_numbers, "{:,}".format(c.numbers)), c.far, c.errors, c.crashes,
            percent(c.n_cached, c.n_prompt),
            "%s of %s" % ("{:,}".format(c.restored), "{:,}".format(c.restored + c.recomputed)),
            percent(c.other_controls, c.controls)]


HEADER = ["family", "texts", "differ", "also in a second cold run", "other log probabilities",
          "of these far", "errors", "crashes", "prompt tokens from a cache", "restored after a restart",
          "a wrong block would show"]


def measure(figures):
    options = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sconce-kvproof-", dir=options.directory) as directory:
        options.directory = pathlib.Path(directory)
        measure_in(options, figures)


def measure_in(options, figures):
    server_type = SERVERS[options.server]
    if server_type.all_at_once:
        options.models = with_twins(options.models, options.directory, options.twins)
    groups = ([options.models] if server_type.all_at_once else
              [{name: path} for name, path in options.models.items()])
    families, levels, blocks = {}, {}, {}
    began = time.monotonic()
    figures.title("%s: %d texts of %s" % (server_type.name, options.texts, ", ".join(options.models)))
    for models in groups:
        with server_type(options, models) as server:
            proof = Proof(server, options, tell)
            proof.run(options.texts // len(groups))
        for name, why in proof.refused.items():
            figures.skipped(name, why)
        tell_examples(proof, options.examples)
        families.update(proof.families)
        blocks.update(server.blocks)
        for level, counts in proof.levels.items():
            levels.setdefault(level, Counts()).add(counts)
    report(figures, options, server_type, families, levels, blocks, time.monotonic() - began)


def report(figures, options, server_type, families, levels, blocks, seconds):
    total = Counts()
    for counts in families.values():
        total.add(counts)
    rows = [row(name, counts) for name, counts in families.items()] + [row("all", total)]
    for cells in [HEADER, *rows]:
        figures.note(" | ".join(map(str, cells)))
    faults = [[level, "{:,}".format(c.compared), c.differing, c.far, c.errors]
              for level, c in sorted(levels.items())]
    for cells in faults:
        figures.note("%-28s %10s texts, %d differ, %d far, %d errors" % tuple(cells))
    figures.figure("texts", total.compared, least=1)
    most = 0 if server_type.exact else None
    figures.figure("texts that differ", total.differing, most=most)
    figures.figure("texts with other log probabilities", total.other_numbers, most=most)
    figures.figure("requests without an answer", total.errors, most=most)
    figures.note("%d requests were cancelled, %d were interrupted by a kill; %.0f s"
                 % (total.cancelled, total.interrupted, seconds))
    for what, n in blocks.items():
        figures.figure("blocks of the cache service: %s" % what, n)
    section = "kvproof-" + server_type.name.replace("-server", "")
    lines = ["%s, %s, %.0f s." % (machine(options.threads), datetime.date.today().isoformat(), seconds),
             "{:,} requests were cancelled, and {:,} were interrupted by a kill.".format(
                 total.cancelled, total.interrupted)]
    if blocks:
        lines.append("The cache service counted blocks: %s." % ", ".join(
            "{:,} {}".format(n, what) for what, n in blocks.items()))
    figures.tables[section + "-machine"] = "\n".join(lines)
    figures.table(section, HEADER, rows)
    figures.table(section + "-faults", ["circumstance", "texts", "differ", "far log probabilities",
                                        "errors"], faults)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"families": {n: vars(c) for n, c in families.items()},
                       "levels": {n: vars(c) for n, c in levels.items()}, "all": vars(total),
                       "blocks": blocks, "seconds": seconds}, f, indent=1)
    figures.save(options.docs)


if __name__ == "__main__":
    run("kvproof", measure)
