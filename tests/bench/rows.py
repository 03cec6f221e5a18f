# SPDX-License-Identifier: Apache-2.0
"""Measures products of a single row with weights in the second-level cache: bytes of weights per
cycle and core, which do not depend on the memory of the machine."""
import subprocess

# At this number of bytes per cycle or more, the memory limits decoding, and not the CPU.
BARS = {**dict.fromkeys(("F32", "F16", "BF16", "Q8_0"), 8),
        **dict.fromkeys(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "GPTQ2", "GPTQ3",
                         "GPTQ4", "GPTQ8", "AWQ4", "CT4", "CT8", "INT8", "CTFP4", "FP8", "FP8_128",
                         "MXFP8", "NF4"), 5)}


def rates(text):
    """Returns {(format, rung): bytes per cycle} from the output of checkkern --bench --in-cache. A
    rung is an instruction set level."""
    rungs, *lines = [line.split() for line in text.splitlines()[2:]]
    return {(weights, rung): float(value) for weights, *values in lines
            for rung, value in zip(rungs, values) if value != "-"}


def rows(options, figures):
    """Reports the fastest rung of each format."""
    figures.title("One row, weights in the second-level cache, one thread")
    program = options.build / "tests/checkkern/checkkern"
    if not program.exists():
        figures.skipped("one row", "the build directory has no tests (meson setup -Dtests=enabled)")
        return
    with options.lock:
        text = subprocess.run([program, "--bench", "--in-cache"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
    found = rates(text)
    for weights in dict.fromkeys(weights for weights, _ in found):
        best = max((rate, rung) for (w, rung), rate in found.items() if w == weights)
        figures.figure("one row %s, %s" % (weights, best[1]), best[0], "B/cycle",
                       least=BARS.get(weights))
