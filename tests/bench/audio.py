# SPDX-License-Identifier: Apache-2.0
"""Prints each figure by which transcription is judged, its target, and whether the target is
reached.

Programs take turns within one run. Figures are medians over rounds; ratios are medians of ratios.
Exit status: 0 when all targets are reached, 1 when a target is missed, 2 when something could not
be run.
"""
import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import hearing  # noqa: E402
import speech  # noqa: E402
from compare import machine  # noqa: E402
from figures import run  # noqa: E402
from programs import Lock  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
PARTS = {"front": hearing.front, "parity": hearing.parity, "words": hearing.words,
         "speed": speech.speed, "clients": speech.clients, "memory": speech.memory}
SHAPES = ["tiny", "base", "small"]
FORMATS = ["F16", "Q8_0", "Q5_0"]


class Options(argparse.Namespace):
    """Holds the command line, and the values derived from it."""

    tree = TREE

    def model(self, shape, kind):
        """Returns the file of a model of random weights that writes 100 tokens per window; makes it
        if needed."""
        path = self.models / ("whisper-%s-%s.bin" % (shape, kind))
        if not path.exists():
            print("making %s" % path, file=sys.stderr, flush=True)
            self.models.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            subprocess.run([self.python or sys.executable, HERE / "make_whisper.py", shape, part,
                            kind, "--text"], check=True)
            part.rename(path)
        return path

    def peer(self, name):
        """Returns the path of a program of whisper.cpp, or None if it was not given."""
        path = self.whisper and self.whisper / name
        return path if path and os.access(path, os.X_OK) else None


def parse(argv):
    p = argparse.ArgumentParser(
        prog="audio.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("--build", type=pathlib.Path, default=TREE / "build",
        help="build directory (default: build)")
    add("--whisper", type=pathlib.Path, metavar="DIR",
        help="directory of whisper.cpp's programs, built for this CPU")
    add("--python", metavar="PATH",
        help="a Python with numpy, openai-whisper, torch and transformers")
    add("--pytest", metavar="PATH", default=sys.executable,
        help="the Python of the tests, with pytest (default: the one that runs this script)")
    add("--part", action="append", dest="parts", choices=list(PARTS),
        help="run only this part")
    add("--shape", action="append", dest="shapes", choices=SHAPES,
        help="measure the speed of this shape (default: all)")
    add("--format", action="append", dest="formats", choices=FORMATS,
        help="measure the speed of this format (default: all)")
    add("--isa", metavar="NAME", help="instruction set for the part speed (default: the best)")
    add("--models", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("BENCH_DIR", tempfile.gettempdir() + "/sconce-bench"),
        help="directory in which models are made (default: $BENCH_DIR, else /tmp/sconce-bench)")
    add("--data", type=pathlib.Path, metavar="DIR",
        default=os.environ.get("SCONCE_DATA", TREE.parent / "shared/data"),
        help="directory with recordings (default: $SCONCE_DATA, else ../shared/data)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--rounds", type=int, default=3, metavar="N",
        help="number of turns of each program (default: 3)")
    add("--clients", type=int, default=4, metavar="N",
        help="number of clients at once (default: 4)")
    add("--client-shape", default="base", choices=SHAPES,
        help="shape of the model in F16 for the part clients (default: base)")
    add("--hours", type=float, default=3, metavar="N",
        help="length in hours of the file in the part memory (default: 3)")
    add("--large", action="store_true",
        help="also check large-v3 in the part parity: 14 GB, half an hour")
    add("--sentences", type=int, default=100, metavar="N",
        help="number of sentences in the part words (default: 100)")
    add("--lock", metavar="FILE", help="lock this file (flock) during measurements")
    add("--docs", metavar="FILE", help="put tables between the marks of this Markdown file")
    o = p.parse_args(argv, Options())
    o.models, o.data = pathlib.Path(o.models), pathlib.Path(o.data)
    o.build = o.build.resolve()
    o.shapes, o.formats = o.shapes or SHAPES, o.formats or FORMATS
    o.sconce = o.build / "services/cli/sconce"
    o.bench = o.build / "tests/bench"
    for program in (o.sconce, o.bench / "bench-whisper"):
        if not os.access(program, os.X_OK):
            p.error("%s: not an executable" % program)
    o.lock = Lock(o.lock)
    return o


def measure(figures):
    options = parse(sys.argv[1:])
    figures.tables["audio-machine"] = "%s, %d rounds, %s:" % (
        machine(options.threads), options.rounds, datetime.date.today().isoformat())
    for name, part in PARTS.items():
        if not options.parts or name in options.parts:
            part(options, figures)
            figures.tell_machine()
            figures.save(options.docs)


if __name__ == "__main__":
    run("audio.sh", measure)
