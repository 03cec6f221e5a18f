# SPDX-License-Identifier: Apache-2.0
"""Decodes Q1_0 and Q2_0 as ggml-quants.c does; the gguf package does not know these formats."""
import numpy as np

# name → (elements and bytes of a block, bits of a code, the integer for which each code stands)
FORMATS = {"q1_0": (128, 18, 1, [-1, 1]), "q2_0": (64, 18, 2, [-1, 0, 1, 2])}


def decode(name, raw):
    """Returns the numbers of the blocks @raw, a matrix of bytes with a row for each block."""
    _, _, bits, values = FORMATS[name]
    scale = raw[:, :2].copy().view(np.float16).astype(np.float32)
    codes = raw[:, 2:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1
    return np.array(values, np.float32)[codes.reshape(len(raw), -1)] * scale
