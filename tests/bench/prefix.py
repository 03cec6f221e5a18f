# SPDX-License-Identifier: Apache-2.0
"""Prints each figure by which the two tiers of the KV cache (the memory of the engine, and the
cache service) are judged, its target, and whether the target is reached. Programs take turns within
one run. Exit status: 0 when all targets are reached, 1 when a target is missed, 2 when something
could not be run.
"""
import argparse
import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

import keeping  # noqa: E402
import restored  # noqa: E402
import tiers  # noqa: E402
from compare import machine  # noqa: E402
from figures import run  # noqa: E402
from programs import Lock  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
PARTS = {"restart": tiers.restart, "restored": restored.restored, "turns": restored.turns,
         "fresh": tiers.fresh, "faults": keeping.faults, "traces": keeping.traces,
         "index": keeping.index, "models": keeping.models, "texts": tiers.texts}
NEED_MODEL = ("restart", "restored", "turns", "fresh", "texts")


def parse(argv):
    p = argparse.ArgumentParser(prog="prefix.sh", description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    add = p.add_argument
    add("models", nargs="*", type=pathlib.Path, metavar="MODEL",
        help="GGUF files; the parts restored and turns use all of them, the others the first;\n"
             "without one, a model is made")
    add("--build", type=pathlib.Path, default=TREE / "build",
        help="build directory (default: build)")
    add("--part", action="append", dest="parts", choices=list(PARTS),
        help="run only this part")
    add("--directory", type=pathlib.Path, metavar="DIR", default=pathlib.Path.cwd(),
        help="directory for the blocks, on the disk that is measured (default: .)")
    add("--models", type=pathlib.Path, metavar="DIR", dest="models_dir",
        default=os.environ.get("BENCH_DIR", tempfile.gettempdir() + "/sconce-bench"),
        help="directory in which a model is made (default: $BENCH_DIR, else /tmp/sconce-bench)")
    add("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("-p", "--prompt", type=int, default=8192, metavar="N",
        help="number of tokens of the prefix (default: 8192)")
    add("--rounds", type=int, default=5, metavar="N",
        help="number of restarts of each kind (default: 5)")
    add("--fresh-rounds", type=int, default=6, metavar="N",
        help="number of turns in the part fresh (default: 6)")
    add("--fresh-prompt", type=int, default=512, metavar="N",
        help="number of tokens of each prompt in the part fresh (default: 512)")
    add("--faults", type=int, default=100000, metavar="N",
        help="number of faults to inject (default: 100000)")
    add("--blocks", type=int, default=10000000, metavar="N",
        help="number of blocks in a large index (default: 10000000)")
    add("--trace", action="append", dest="traces", type=pathlib.Path, default=[], metavar="FILE",
        help="a trace of requests, in Mooncake's or Qwen-Bailian's format (without this option,\n"
             "traces are made, in which the store must only be as good as LRU)")
    add("--lock", metavar="FILE", help="lock this file (flock) during measurements")
    add("--docs", metavar="FILE", help="put tables between the marks of this Markdown file")
    o = p.parse_args(argv)
    o.build = o.build.resolve()
    o.sconce = o.build / "services/cli/sconce"
    if not os.access(o.sconce, os.X_OK):
        p.error("%s: not an executable" % o.sconce)
    o.lock = Lock(o.lock)
    for model in o.models:
        if not model.is_file():
            p.error("%s: no such file" % model)
    return o


def made_model(options):
    path = options.models_dir / "qwen3-0.6b-Q4_K_M.gguf"
    if not path.exists():
        print("making %s" % path, file=sys.stderr, flush=True)
        options.models_dir.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, HERE / "make_model.py", "--shape", "qwen3-0.6b", "--type",
                        "Q4_K_M", path.with_suffix(".part")], check=True)
        path.with_suffix(".part").rename(path)
    return path


def measure(figures):
    options = parse(sys.argv[1:])
    parts = options.parts or list(PARTS)
    if any(name in NEED_MODEL for name in parts):
        options.models = [m.resolve() for m in options.models or [made_model(options)]]
        options.model = options.models[0]
    options.directory = pathlib.Path(tempfile.mkdtemp(prefix="sconce-prefix-",
                                                      dir=options.directory))
    figures.tables["prefix-machine"] = "%s, %s:" % (machine(options.threads),
                                                    datetime.date.today().isoformat())
    try:
        for name, part in PARTS.items():
            if name in parts:
                part(options, figures)
                figures.save(options.docs)
    finally:
        shutil.rmtree(options.directory, ignore_errors=True)


if __name__ == "__main__":
    run("prefix.sh", measure)
