#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares sconce with llama.cpp, and with ik_llama.cpp, on the shapes of several families of models,
in one run.

With each model of random weights, the programs take turns: each reads a prompt and then decodes.
Speeds are medians over the rounds, ratios are medians of the ratios of single rounds. The bandwidth bound
is the speed at which decoding would run if it only read the bytes that a token touches: for a model
with experts, only those of the experts that the token uses. Each model has an equal part of the time
--seconds; a round begins only if it will probably end within this time. The time to make the models
does not count.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from engine import ratio, run_json, sconce_bench  # noqa: E402
from figures import Figures, median  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
# Shape, format, layers (0: all). Models with experts get as many layers as memory allows.
CASES = (("qwen3.5-0.8b", "Q4_K_M", 0), ("qwen3.5-0.8b", "Q8_0", 0),
         ("qwen3.5-4b", "Q4_K_M", 0), ("qwen3.5-4b", "Q8_0", 0),
         ("qwen3.5-35b-a3b", "Q4_K_M", 6), ("qwen3-30b-a3b", "Q4_K_M", 6),
         ("gemma4-e2b", "Q4_K_M", 0), ("gemma4-26b-a4b", "Q4_K_M", 6),
         ("gpt-oss-20b", "MXFP4_MOE", 6), ("qwen3-8b", "TQ2_0", 0), ("bitnet-2b", "TQ2_0", 0))


def case(text):
    """Parses SHAPE:TYPE[:LAYERS]."""
    name, kind, layers = (text.split(":") + ["0"])[:3]
    return name, kind, int(layers)


def model(options, name, kind, layers):
    """Returns the file of a model of random weights; makes it if needed."""
    size = "%s%s" % ("-%dl" % layers if layers else "",
                     "-%dv" % options.vocab if options.vocab else "")
    path = options.models / ("%s%s-%s.gguf" % (name, size, kind))
    if not path.exists():
        print("making %s" % path, file=sys.stderr, flush=True)
        options.models.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        subprocess.run([sys.executable, HERE / "make_model.py", "--shape", name, "--type", kind,
                        *(["--layers", str(layers)] if layers else []),
                        *(["--vocab", str(options.vocab)] if options.vocab else []), part],
                       check=True)
        part.rename(path)
    return path


def ours(options, path):
    r = sconce_bench(options.sconce, path, options.threads, "-p", options.prompt, "-n",
                     options.generate, "-r", 1, "--membw")
    found = {"pp": r["pp"]["tok_s"], "tg": r["tg"]["tok_s"], "bound": 100 * r["tg"]["of_membw"],
             "bytes": r["bytes_per_token"]}
    if options.streams:
        r = sconce_bench(options.sconce, path, options.threads, "-p", 0, "-n", options.generate,
                         "-r", 1, "--streams", options.streams)
        found["many"] = r["tg"]["tok_s"]
    return found


def llama_bench(options, program, path, *more):
    rows = run_json([program, "-m", path, "-t", options.threads, "-ngl", 0, "-o", "json", "-p",
                     options.prompt, "-n", options.generate, "-r", 1, *more])
    return {("tg" if row["n_gen"] else "pp"): row["avg_ts"] for row in rows}


def peer(options, path):
    found = llama_bench(options, options.llama_bench, path)
    if options.streams and options.batched_bench:
        found["many"] = batched(options, path)
    return found


def ik(options, path):
    """Returns the speeds of ik_llama.cpp, or nothing if it cannot run the model."""
    if not options.ik_bench:
        return {}
    try:
        return llama_bench(options, options.ik_bench, path, "-rtr", 1)
    except RuntimeError:
        return {}


def batched(options, path):
    """Returns the tokens per second of all clients together, from llama-batched-bench."""
    n = options.streams
    argv = [options.batched_bench, "-m", path, "-t", options.threads, "-ngl", 0, "-npp", 8, "-ntg",
            options.generate, "-npl", n, "-c", n * (options.generate + 64), "--output-format",
            "jsonl"]
    result = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=True)
    lines = [x for x in result.stdout.splitlines() if x.startswith("{")]
    return json.loads(lines[-1])["speed_tg"]


def rounds(options, path, seconds):
    """Returns the results of the programs in all rounds with one model. The rounds of a model follow one
    another, because its file must be in memory."""
    results = ([], [], [])
    begin = time.monotonic()
    for i in range(options.rounds):
        spent = time.monotonic() - begin
        if i > 0 and spent + spent / i > seconds:
            print("%s: %d of %d rounds fit into %.0f seconds" % (path.name, i, options.rounds, seconds))
            break
        turns = [(ours, 0), (peer, 1), (ik, 2)]
        for measure, at in turns[::-1 if i % 2 else 1]:
            results[at].append(measure(options, path))
    return results


def column(results, key):
    return [r[key] for r in results if key in r]


def row(options, title, results):
    mine, theirs, iks = results
    bound = median(column(mine, "bound"))
    decode = ratio(column(mine, "tg"), column(theirs, "tg"))
    cells = [title, "%.0f" % (mine[0]["bytes"] / 1e6)]
    for key in ("pp", "tg"):
        a, b = column(mine, key), column(theirs, key)
        cells += ["%.4g" % median(a), "%.4g" % median(b), "%.2f" % ratio(a, b)]
        if options.ik_bench:
            cells.append("%.2f" % ratio(a, column(iks, key)) if column(iks, key) else "–")
    cells += ["%.0f %%" % bound, "%.0f %%" % (bound / decode)]
    if options.streams:
        a, b = column(mine, "many"), column(theirs, "many")
        cells += ["%.4g" % median(a), "%.4g" % median(b) if b else "–",
                  "%.2f" % ratio(a, b) if b else "–"]
    return cells


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    add = p.add_argument
    add("--sconce", type=pathlib.Path, default=TREE / "build/services/cli/sconce")
    add("--llama-bench", type=pathlib.Path, required=True, metavar="PATH",
        help="llama-bench of llama.cpp, built for this CPU")
    add("--ik-bench", type=pathlib.Path, metavar="PATH",
        help="llama-bench of ik_llama.cpp, built for this CPU; it repacks the weights when it loads them")
    add("--batched-bench", type=pathlib.Path, metavar="PATH",
        help="llama-batched-bench, for --streams")
    add("--models", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("BENCH_DIR", tempfile.gettempdir() + "/sconce-bench"),
        help="directory in which models are made")
    add("--case", type=case, action="append", dest="cases", metavar="SHAPE:TYPE[:LAYERS]",
        help="measure only this model (may be given several times)")
    add("--vocab", type=int, default=0, metavar="N", help="use a smaller vocabulary")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("-p", "--prompt", type=int, default=512, metavar="N")
    add("-n", "--generate", type=int, default=64, metavar="N")
    add("--streams", type=int, default=0, metavar="N", help="also decode N answers at once")
    add("--rounds", type=int, default=3, metavar="N")
    add("--seconds", type=float, default=900, metavar="S",
        help="time for all models together (default: 900)")
    add("--docs", metavar="FILE", help="put the table between the marks of this Markdown file")
    add("--json", metavar="FILE", help="write all results")
    o = p.parse_args(argv)
    o.models = pathlib.Path(o.models)
    return o


def main():
    options = parse(sys.argv[1:])
    figures = Figures()
    files = {model(options, *c): "%s %s%s" % (c[0], c[1], ", %d layers" % c[2] if c[2] else "")
             for c in options.cases or CASES}
    figures.title("A prompt of %d tokens, then %d tokens decoded, %d threads"
                  % (options.prompt, options.generate, options.threads))
    results = {path: rounds(options, path, options.seconds / len(files)) for path in files}
    over_ik = ["ratio to ik_llama.cpp"] if options.ik_bench else []
    header = ["model", "MB per token", "prompt tok/s", "llama.cpp", "ratio", *over_ik,
              "decoding tok/s", "llama.cpp", "ratio", *over_ik, "of the bandwidth bound",
              "llama.cpp's share"]
    if options.streams:
        header += ["%d answers tok/s" % options.streams, "llama.cpp", "ratio"]
    figures.table("families", header,
                  [row(options, title, results[path]) for path, title in files.items()])
    print("\n" + figures.tables["families"])
    figures.tell_machine()
    if options.docs:
        figures.write_docs(options.docs)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({title: results[path] for path, title in files.items()}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
