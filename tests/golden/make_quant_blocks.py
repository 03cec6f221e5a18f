#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes quant-blocks.bin: random blocks of each number format and the numbers that they decode to.

Needs the packages gguf and numpy. For each format the file has the name in 8 bytes, the number of
bytes and the number of elements as two little-endian 32-bit words, the bytes, and the elements as
float32.

Also writes quant-encoded.bin, for the formats that libinfer encodes to the same bits as the package:
this file has the same kind of records, but with floats and the bytes to which they are encoded.
"""

import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

import quant_bits

FORMATS = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k",
           "mxfp4", "tq2_0", "tq1_0", "q2_k", "q3_k", "iq4_nl", "iq4_xs", "nvfp4", "q1_0", "q2_0",
           "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m"]
BLOCK = {  # elements, bytes, offsets of binary16 fields
    "f32": (1, 4, []), "f16": (1, 2, []), "bf16": (1, 2, []),
    "q8_0": (32, 34, [0]), "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]),
    "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]),
    "q4_k": (256, 144, [0, 2]), "q5_k": (256, 176, [0, 2]), "q6_k": (256, 210, [208]),
    "mxfp4": (32, 17, []), "tq2_0": (256, 66, [64]), "tq1_0": (256, 54, [52]),
    "iq2_xxs": (256, 66, [0]), "iq2_xs": (256, 74, [0]), "iq2_s": (256, 82, [0]),
    "iq3_xxs": (256, 98, [0]), "iq3_s": (256, 110, [0]), "iq1_s": (256, 50, [0]),
    "iq1_m": (256, 56, []),
    "q2_k": (256, 84, [80, 82]), "q3_k": (256, 110, [108]), "iq4_nl": (32, 18, [0]),
    "iq4_xs": (256, 136, [0]), "nvfp4": (64, 36, []), "q1_0": (128, 18, [0]), "q2_0": (64, 18, [0]),
}

rng = np.random.default_rng(7266)
out = b""
for name in FORMATS:
    elems, size, halves = BLOCK[name]
    n = {1: 512, 32: 12, 64: 6, 128: 4, 256: 3}[elems]
    if name == "f32":
        raw = rng.standard_normal(n).astype(np.float32).view(np.uint8).reshape(n, size)
    else:
        raw = rng.integers(0, 256, (n, size), dtype=np.uint8)
    # F16 blocks have all classes of numbers except infinities and NaN, so the largest exponent is
    # replaced.
    if name == "f16":
        words = raw.view(np.uint16)
        words[(words & 0x7C00) == 0x7C00] ^= 0x0400
    if name == "bf16":
        words = raw.view(np.uint16)
        words[(words & 0x7F80) == 0x7F80] ^= 0x0080
    for at in halves:  # ordinary, negative and subnormal scales
        value = rng.standard_normal(n) * np.exp2(rng.integers(-22, 3, n))
        raw[:, at:at + 2] = value.astype(np.float16).view(np.uint8).reshape(n, 2)
    if name == "iq1_m":  # the top 4 bits of 4 words are the scale
        value = rng.standard_normal(n) * np.exp2(rng.integers(-22, 3, n))
        bits = value.astype(np.float16).view(np.uint16)
        for i in range(4):
            raw[:, 49 + 2 * i] = (raw[:, 49 + 2 * i] & 15) | ((bits >> (4 * i) & 15) << 4)
    if name == "nvfp4":  # all kinds of scales: zero, subnormal, the largest, 127, with the high bit
        raw[:5, :4] = np.frombuffer(bytes([0, 1, 7, 8, 126, 127, 128, 255, 254, 129]) * 2, np.uint8).reshape(5, 4)
    if name == "f32":
        values = raw.view(np.float32)
    elif name == "f16":
        values = raw.view(np.float16).astype(np.float32)
    elif name in quant_bits.FORMATS:
        values = quant_bits.decode(name, raw)
    else:
        values = dequantize(raw.reshape(1, -1), T[name.upper()]).astype(np.float32)
    data = raw.tobytes()
    values = np.ascontiguousarray(values, dtype="<f4").reshape(-1)
    assert values.size == n * elems
    out += struct.pack("<8sII", name.encode(), len(data), values.size) + data + values.tobytes()

rng = np.random.default_rng(7267)
encoded = b""
for name in ["mxfp4", "tq2_0", "tq1_0"]:
    elems, size, _ = BLOCK[name]
    n = 3 * 256 // elems
    values = rng.standard_normal((n, elems)).astype(np.float32) * np.exp2(rng.integers(-9, 4, (n, 1)))
    values[1] = 0
    values = values.astype(np.float32)
    data = quantize(values.reshape(1, -1), T[name.upper()]).tobytes()
    assert len(data) == n * size
    encoded += struct.pack("<8sII", name.encode(), len(data), values.size) + data + values.tobytes()

pathlib.Path(__file__).with_name("quant-blocks.bin").write_bytes(out)
pathlib.Path(__file__).with_name("quant-encoded.bin").write_bytes(encoded)
