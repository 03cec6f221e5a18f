#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes random blocks of each format of GGUF with libinfer and with the gguf package, and compares
the numbers bit for bit.

    check_gguf_blocks.py DECODE_BLOCKS

DECODE_BLOCKS is the program tests/golden/decode-blocks. Each format gets a MiB of random bytes, so
that some scales are NaN, infinite or subnormal. It also gets blocks in which all bits are 0, and
blocks in which all bits are 1. A NaN is equal to every NaN. Exit status: 0 when all numbers are
equal, 1 when some differ, 77 (skipped) without the package.
"""
import subprocess
import sys

sys.dont_write_bytecode = True

try:
    import numpy as np
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

import quant_bits  # noqa: E402

N_BYTES = 1 << 20


def sizes(name):
    """Returns the elements and bytes of a block, or None if there is no oracle for the format."""
    if name in quant_bits.FORMATS:
        return quant_bits.FORMATS[name][:2]
    if name.upper() in GGMLQuantizationType.__members__:
        return GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
    return None


def oracle(name, raw):
    if name in quant_bits.FORMATS:
        return quant_bits.decode(name, raw)
    if name in ("f32", "f16"):
        return raw.view({"f32": np.float32, "f16": np.float16}[name]).astype(np.float32)
    return dequantize(raw, GGMLQuantizationType[name.upper()])


def check(program, name, rng):
    """Returns how many numbers differ."""
    _, size = sizes(name)
    raw = rng.integers(0, 256, (N_BYTES // size + 2, size), dtype=np.uint8)
    raw[0] = 0
    raw[1] = 255
    data = subprocess.run([program, name], input=raw.tobytes(), stdout=subprocess.PIPE,
                          check=True).stdout
    got = np.frombuffer(data, np.uint32)
    with np.errstate(all="ignore"):
        want = np.ascontiguousarray(oracle(name, raw), np.float32).reshape(-1)
        equal = (got == want.view(np.uint32)) | (np.isnan(got.view(np.float32)) & np.isnan(want))
    n_bad = int((~equal).sum())
    print("%-8s %9d numbers, %d differ" % (name, len(want), n_bad))
    return n_bad


def main():
    program = sys.argv[1]
    names = subprocess.run([program], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    rng = np.random.default_rng(5)
    bad = sum(check(program, name, rng) for name in names if sizes(name))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
