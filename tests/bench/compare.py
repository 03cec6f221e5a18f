# SPDX-License-Identifier: Apache-2.0
"""Prints each figure by which the CPU engine is judged, its target, and whether the target is
reached.

Programs are only compared within one run, in which they take turns, because other users may halve
the speed of a machine's memory a minute later. Figures are medians over rounds; ratios are medians
of ratios. Exit status: 0 when all targets are reached, 1 when a target is missed, 2 when something
could not be run.
"""
import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import coldstart  # noqa: E402
import engine  # noqa: E402
import formats  # noqa: E402
import growth  # noqa: E402
import machines  # noqa: E402
import rows  # noqa: E402
import serving  # noqa: E402
from figures import run  # noqa: E402
from programs import Lock  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
PARTS = {"rows": rows.rows, "decode": engine.decode, "prefill": engine.prefill, "clients": serving.clients,
         "cold": coldstart.cold_starts, "growth": growth.growth, "formats": formats.formats}
# The parts that run only if they are named, because they take long.
NAMED = ("formats",)
# The options of a quick run, which takes less than 10 minutes with two threads.
QUICK = {"parts": ["rows", "decode", "prefill"], "formats": ["Q4_K_M", "Q8_0", "Q4_0", "F16"],
         "rounds": 2, "repeat": 1, "prompt": 256, "generate": 32}


class Options(argparse.Namespace):
    """Holds the command line, and the values derived from it."""

    forgotten = set()

    def model_path(self, preset, shape=None, layers=0, vocab=0):
        """Returns the name of the file that model() makes."""
        size = "".join("-%d%s" % (n, mark) for n, mark in ((layers, "l"), (vocab, "v")) if n)
        return self.models / ("%s%s-%s.gguf" % (shape or self.shape, size, preset))

    def model(self, preset, shape=None, layers=0, vocab=0):
        """Returns the file of the model of random weights stored as @preset; makes it if needed.
        A number of 0 stands for the shape's own."""
        shape = shape or self.shape
        path = self.model_path(preset, shape, layers, vocab)
        if not path.exists():
            print("making %s" % path, file=sys.stderr, flush=True)
            self.models.mkdir(parents=True, exist_ok=True)
            made = path.with_suffix(".part")
            subprocess.run([sys.executable, HERE / "make_model.py", "--shape", shape, "--type",
                            preset, *(["--layers", str(layers)] if layers else []),
                            *(["--vocab", str(vocab)] if vocab else []), made], check=True)
            made.rename(path)
        self.forget(path)
        return path

    def forget(self, path):
        """Drops a model from the page cache before its first use, so that all programs read pages
        of the same size. A file that was just written has small pages in the cache. A file that is
        read through a mapping has huge pages if the file system supports them."""
        if path not in self.forgotten:
            self.forgotten.add(path)
            with open(path, "rb") as f:
                os.fsync(f.fileno())
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            subprocess.run([self.sconce, "bench", "-m", path, "-p", "8", "-n", "1", "-r", "1"],
                           check=True, stdout=subprocess.DEVNULL)


def parse(argv):
    p = argparse.ArgumentParser(
        prog="compare.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("--build", type=pathlib.Path, default=TREE / "build",
        help="build directory (default: build)")
    add("--sconce", type=pathlib.Path,
        help="path of the command sconce (default: the one in --build)")
    add("--llama-bench", type=pathlib.Path, metavar="PATH",
        help="llama-bench of llama.cpp, built for this CPU")
    add("--ik-bench", type=pathlib.Path, metavar="PATH", help="llama-bench of ik_llama.cpp")
    add("--llama-server", type=pathlib.Path, metavar="PATH", help="llama-server of llama.cpp")
    add("--mistralrs", metavar="PYTHON",
        help="Python that has the module mistralrs, which is compared, too")
    add("--quick", action="store_true",
        help="compare only single rows, decoding and prefill of four formats, in less than\n"
             "10 minutes, for work on kernels; other options change the choice")
    add("--part", action="append", dest="parts", choices=list(PARTS),
        help="run only this part; formats, a table of all formats of GGUF files, runs only if\n"
             "it is named")
    add("--format", action="append", dest="formats", metavar="TYPE",
        choices=list(dict.fromkeys(engine.TARGETED + engine.INFORMATION + formats.FORMATS)),
        help="measure only this format: in the parts decode and prefill %s,\n"
             "in the part formats any format of GGUF files except floats"
        % ", ".join(engine.TARGETED + engine.INFORMATION))
    add("--models", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("BENCH_DIR", tempfile.gettempdir() + "/sconce-bench"),
        help="directory in which models are made (default: $BENCH_DIR, else /tmp/sconce-bench)")
    add("--shape", default="qwen3-0.6b", help="shape of the models (default: qwen3-0.6b)")
    add("--client-shape", action="append", dest="client_shapes", metavar="SHAPE[:LAYERS[:VOCAB]]",
        help="part clients: also measure this shape, with fewer layers or a smaller vocabulary\n"
             "if its model does not fit, for example llama3.1-8b:8:32000")
    add("--clients", action="append", type=int, metavar="N",
        help="part clients: measure N clients at once (default: 1, 4, 8, 16, 32 and 64)")
    add("--preset", default="Q4_K_M",
        help="format for the parts clients, cold and growth (default: Q4_K_M)")
    add("--data", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("SCONCE_DATA", TREE.parent / "shared/data"),
        help="directory with real models (default: $SCONCE_DATA, else ../shared/data)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("-p", "--prompt", type=int, default=512, metavar="N",
        help="number of tokens of a prompt (default: 512)")
    add("-n", "--generate", type=int, default=64, metavar="N",
        help="number of tokens to decode (default: 64)")
    add("-r", "--repeat", type=int, default=3, metavar="N",
        help="number of runs of each bench (default: 3)")
    add("--rounds", type=int, default=5, metavar="N",
        help="number of turns of each program (default: 5)")
    add("--cold-rounds", type=int, default=10, metavar="N",
        help="cold starts of each program (default: 10)")
    add("--growth-rounds", type=int, default=2, metavar="N",
        help="number of waves of clients (default: 2)")
    add("--words", type=int, default=64, metavar="N",
        help="number of words of a client's prompt (default: 64)")
    add("--tokens", type=int, default=64, metavar="N",
        help="number of tokens of an answer (default: 64)")
    add("--gap-seconds", type=float, default=20, metavar="S",
        help="seconds in which other prompts are read beside a stream (default: 20)")
    add("--max-context", type=int, default=32768, metavar="N",
        help="longest context in the part growth (default: 32768)")
    add("--peer-context", type=int, default=4096, metavar="N",
        help="longest context of llama-bench in the part growth (default: 4096);\n"
             "more takes minutes")
    add("--lock", metavar="FILE", help="lock this file (flock) during measurements")
    add("--plot", metavar="FILE", help="write the plot of the part growth as SVG")
    add("--docs", type=pathlib.Path, metavar="FILE",
        help="keep the results of this machine in a folder beside this Markdown file, and put\n"
             "the tables of all machines between its marks")
    add("--readme", type=pathlib.Path, metavar="FILE",
        help="with --docs: put the worst ratios of all machines between the marks of this file")
    add("--json", metavar="FILE", help="write all figures")
    o = p.parse_args(argv, Options())
    if o.quick and o.docs:
        p.error("--docs needs the results of a whole run, without --quick")
    if o.quick:
        for name, value in QUICK.items():
            if getattr(o, name) == p.get_default(name):
                setattr(o, name, value)
    o.models = pathlib.Path(o.models)
    o.data = pathlib.Path(o.data)
    o.build = o.build.resolve()
    o.sconce = o.sconce or o.build / "services/cli/sconce"
    programs = [o.sconce, o.llama_bench, o.ik_bench, o.llama_server]
    if not o.parts or "cold" in o.parts:
        programs += [o.build / "services" / name / ("sconce-" + name) for name in ("gateway", "chat")]
    for program in programs:
        if program and not os.access(program, os.X_OK):
            p.error("%s: not an executable; --build names the build directory" % program)
    o.lock = Lock(o.lock)
    return o


def machine(threads):
    name = "unknown CPU"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return "%s, %d threads" % (name, threads)


def measure(figures):
    options = parse(sys.argv[1:])
    isa = engine.run_json([options.sconce, "bench", "--peak", "-r", 1, "--json"])["isa"]
    print("%s, %s, %d rounds, %s:" % (machine(options.threads), isa, options.rounds,
                                      datetime.date.today().isoformat()), flush=True)
    for name, part in PARTS.items():
        if name in (options.parts or [n for n in PARTS if n not in NAMED]):
            part(options, figures)
            figures.tell_machine()
            figures.save(None, options.json)
            if options.docs:
                machines.keep(options, figures, isa)


if __name__ == "__main__":
    run("compare.sh", measure)
