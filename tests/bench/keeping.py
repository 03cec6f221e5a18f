# SPDX-License-Identifier: Apache-2.0
"""What the cache service is judged by without a model: faults, hit rates, its index at size."""
import re
import shutil
import subprocess

HIT_GAIN = 8  # %, over plain LRU
INDEX_BYTES = 2500  # MB
LOOKUP = {100000: 1, 10000000: 3}  # ms, 512 blocks among so many


def run(argv, seconds):
    """(exit status, what it said)."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, timeout=seconds,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def faults(options, figures):
    figures.title("Faults: ends of the process, torn writes, flipped bits, ENOSPC, EIO")
    program = options.build / "tests/unit/cache/test-cache-faults"
    if not program.exists():
        figures.failed("injected faults", "%s is not built" % program)
        return
    status, said = run([program, options.faults], 7200)
    figures.figure("faults injected", options.faults)
    figures.figure("runs that ended wrongly", float(status != 0), most=0)
    for line in said.strip().splitlines()[-3:]:
        figures.note(line)


def traces(options, figures):
    figures.title("Hit rates of the service's policy, in traces of requests")
    if not options.traces:
        figures.skipped("traces", "none was given with --trace")
        return
    rows = []
    for path in options.traces:
        _, said = run([options.build / "tests/bench/cache-sim", "--halves", path], 3600)
        parts = re.split(r"^(?=\S)", said, flags=re.M)
        for part in filter(None, parts):
            mean = re.search(r"mean gain over LRU: ([-+.\d]+)", part)
            if not mean:
                raise RuntimeError(said.strip())
            name = part.split(": ")[0].replace(str(path), path.stem)
            figures.figure("%s: mean gain over LRU" % name, float(mean[1]), "%", least=HIT_GAIN)
            if ", " not in name:
                for line in part.splitlines()[2:-1]:
                    row = re.match(r"\s*(\S+ %)((?:\s+[\d.]+)+)\s+([-+.\d]+ %)", line)
                    if row:
                        lru, ours, _, _, best = row[2].split()
                        rows.append([name, row[1], lru, ours, row[3], best])
    figures.table("prefix-traces", ["trace", "room, of its blocks", "LRU", "sconce", "gain",
                                    "optimum"], rows)


def index_of(options, n_blocks):
    """MB of index on disk, MB of memory at most, worst median of looking up a chain in ms."""
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
