#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decodes random matrices in the formats of MLX with libinfer and with mlx, and compares the numbers
bit for bit.

    check_mlx_planes.py DECODE_PLANES

DECODE_PLANES is the program tests/golden/decode-planes. Each format, group and type of scales gets
at least a MiB of random codes. Scales are random bits in one half of the rows, so some of them are
NaN, infinite or subnormal. A NaN is equal to every NaN. mlx gets the scales as float32: it computes
in the type of the scales, and libinfer in float32. MXFP4 is not compared with a scale of 255, which
is NaN in the standard; libinfer decodes it as GGUF does, to finite numbers. Exit status: 0 when all
numbers are equal, 1 when some differ, 77 (skipped) without mlx.
"""
import subprocess
import sys

sys.dont_write_bytecode = True

try:
    import mlx.core as mx
    import numpy as np
except ImportError as e:
    print("skipped: %s" % e)
    sys.exit(77)

COLS = 1152  # a multiple of all groups
F32, F16, BF16, E8M0, E4M3 = range(5)  # enum plane_type
TYPES = {"f32": F32, "f16": F16, "bf16": BF16}


def draw_floats(rng, rows, n, kind):
    """Returns numbers of a type as bytes and as float32."""
    bits = rng.integers(0, 2 ** 32, (rows, n), dtype=np.uint32)
    usual = (0.05 * rng.normal(size=(rows, n))).astype(np.float32)
    usual[: rows // 2] = bits[: rows // 2].view(np.float32)
    if kind == "f32":
        return usual.tobytes(), usual
    if kind == "f16":
        half = bits.astype(np.uint16)
        half[rows // 2:] = usual[rows // 2:].astype(np.float16).view(np.uint16)
        return half.tobytes(), half.view(np.float16).astype(np.float32)
    half = usual.view(np.uint32) >> 16
    return half.astype(np.uint16).tobytes(), (half << 16).view(np.float32)


def libinfer(program, name, kind, group, rows, planes):
    data = subprocess.run([program, name, str(kind), str(group), str(rows), str(COLS)],
                          input=b"".join(planes), stdout=subprocess.PIPE, check=True).stdout
    return np.frombuffer(data, np.uint32)


def compare(what, got, want):
    want = np.ascontiguousarray(want, np.float32).reshape(-1)
    equal = (got == want.view(np.uint32)) | (np.isnan(got.view(np.float32)) & np.isnan(want))
    n_bad = int((~equal).sum())
    print("%-24s %9d numbers, %d differ" % (what, len(want), n_bad))
    return n_bad


def check_affine(program, rng, bits, group, kind):
    rows = (1 << 20) * 8 // (COLS * bits) // 2 * 2 + 2
    codes = rng.integers(0, 2 ** 32, (rows, COLS * bits // 32), dtype=np.uint32)
    scales, scales_f32 = draw_floats(rng, rows, COLS // group, kind)
    offsets, offsets_f32 = draw_floats(rng, rows, COLS // group, kind)
    got = libinfer(program, "mlx%d" % bits, TYPES[kind], group, rows,
                   (codes.tobytes(), scales, offsets))
    want = mx.dequantize(mx.array(codes), mx.array(scales_f32), mx.array(offsets_f32), group, bits)
    return compare("%d bits, groups of %d, %s" % (bits, group, kind), got, np.array(want))


def check_fp(program, rng, mode, name, bits, group, kind):
    rows = (1 << 20) * 8 // (COLS * bits) + 2
    codes = rng.integers(0, 2 ** 32, (rows, COLS * bits // 32), dtype=np.uint32)
    scales = rng.integers(0, 255 if mode == "mxfp4" else 256, (rows, COLS // group),
                          dtype=np.uint8)
    got = libinfer(program, name, kind, group, rows, (codes.tobytes(), scales.tobytes()))
    want = mx.dequantize(mx.array(codes), mx.array(scales), None, group, bits, mode,
                         dtype=mx.float32)
    return compare(mode, got, np.array(want))


def main():
    program = sys.argv[1]
    rng = np.random.default_rng(7)
    mx.set_default_device(mx.cpu)
    bad = 0
    with np.errstate(all="ignore"):
        for bits in (2, 3, 4, 5, 6, 8):
            for group in (32, 64, 128):
                for kind in TYPES:
                    bad += check_affine(program, rng, bits, group, kind)
        bad += check_fp(program, rng, "mxfp4", "fp4_planes", 4, 32, E8M0)
        bad += check_fp(program, rng, "mxfp8", "mxfp8", 8, 32, E8M0)
        bad += check_fp(program, rng, "nvfp4", "nvfp4_planes", 4, 16, E4M3)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
