# SPDX-License-Identifier: Apache-2.0
"""Measures figures of the cache service that need no server: faults, hit rates, the size and speed
of its index, and texts of all kinds of models."""
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
HIT_GAIN = 8  # %, over plain LRU
MADE_GAIN = 0  # %, over plain LRU in generated traces, where LRU is near the optimum
AT_ONCE = 8  # blocks in a PUT
MADE_REQUESTS = 4000
INDEX_BYTES = 2500  # MB
LOOKUP = {100000: 1, 10000000: 3}  # number of blocks → ms to look up 512 of them


def run(argv, seconds):
    """Returns (exit status, standard output and standard error)"""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, timeout=seconds,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def faults(options, figures):
    figures.title("Faults: ends of the process, torn writes, flipped bits, ENOSPC, EIO")
    program = options.build / "tests/unit/cache/test-cache-faults"
    if not program.exists():
        figures.failed("injected faults", "%s is not built" % program)
        return
    seed, begin = random.getrandbits(32), time.monotonic()
    status, said = run([program, options.faults, seed], 7200)
    figures.figure("faults injected", options.faults)
    figures.figure("runs that ended wrongly", float(status != 0), most=0)
    for line in said.strip().splitlines()[-4 if status else 2:]:
        figures.note(line)
    figures.note("%s %d %d: %.0f s" % (program.name, options.faults, seed, time.monotonic() - begin))


def models(options, figures):
    figures.title("Answers with blocks that were read back, of every kind of model (meson test)")
    for name in ("api-tier-models", "sched-tier"):
        status, said = run(["meson", "test", "-C", options.build, "--no-rebuild",
                            "--timeout-multiplier", 10, name], 3600)
        figures.figure("%s: failures" % name, float(status != 0), most=0)
        if status:
            figures.note(said.strip()[-300:])


def made_traces(options):
    """Generates the traces of a consumer and of a business service, for runs without real
    traces."""
    for kind in ("consumer", "business"):
        path = options.directory / ("made-%s.jsonl" % kind)
        with open(path, "wb") as f:
            subprocess.run([sys.executable, HERE / "make_trace.py", "--kind", kind, "--requests",
                            str(MADE_REQUESTS)], stdout=f, stderr=subprocess.DEVNULL, check=True)
        yield path


def trace_of(options, figures, path, least):
    """Prints the gain in one trace and in its halves. Returns rows of a table for the
    documentation."""
    _, said = run([options.build / "tests/bench/cache-sim", "--store", AT_ONCE, "--halves", path],
                  3600)
    rows = []
    for part in filter(None, re.split(r"^(?=\S)", said, flags=re.M)):
        mean = re.search(r"mean gain over LRU: ([-+.\d]+)", part)
        if not mean:
            raise RuntimeError(said.strip())
        name = part.split(": ")[0].replace(str(path), path.stem)
        figures.figure("%s: mean gain over LRU" % name, float(mean[1]), "%", least=least)
        if ", " not in name:
            for line in part.splitlines()[2:]:
                row = re.match(r"\s*(\S+ %)((?:\s+[\d.]+){6})\s+(\S+ %)\s+\S+ %\s+(\S+ %)", line)
                if row:
                    lru, _, _, _, best, ours = row[2].split()
                    rows.append([name, row[1], lru, ours, row[3], best, row[4]])
    return rows


def traces(options, figures):
    figures.title("Hit rates of the service's store, in traces of requests")
    rows = []
    for path in options.traces or made_traces(options):
        rows += trace_of(options, figures, path, HIT_GAIN if options.traces else MADE_GAIN)
    figures.table("prefix-traces", ["trace", "cache size relative to all blocks", "LRU", "sconce", "gain",
                                    "optimum", "bytes written relative to LRU"], rows)


def index_of(options, n_blocks):
    """Returns the size of the index on disk in MB, peak memory in MB, and the worst median time of
    looking up a chain in ms."""
    directory = options.directory / "index"
    try:
        status, said = run([options.build / "tests/bench/bench-cache-index", n_blocks, directory],
                           7200)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if status != 0:
        raise RuntimeError(said.strip())
    return (max(float(x) for x in re.findall(r"^index\s+([\d.]+) MB", said, re.M)),
            max(float(x) for x in re.findall(r"at most ([\d.]+) MB", said)),
            max(float(x) for x in re.findall(r"([\d.]+) ms median", said)))


def index(options, figures):
    figures.title("The index, at size")
    rows = []
    for n in sorted({100000, options.blocks}):
        disk, memory, lookup = index_of(options, n)
        figures.figure("%d blocks: looking up a chain of 512" % n, lookup, "ms",
                       most=LOOKUP.get(n, max(LOOKUP.values())))
        figures.figure("%d blocks: index on disk" % n, disk, "MB", most=INDEX_BYTES)
        figures.figure("%d blocks: memory, at most" % n, memory, "MB", most=INDEX_BYTES)
        rows.append([n, "%.2f ms" % lookup, "%.0f MB" % disk, "%.0f MB" % memory])
    figures.table("prefix-index", ["blocks", "chain of 512 found in", "on disk", "memory"], rows)
