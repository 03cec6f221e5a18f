#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a .bin file of Whisper of a well-known shape with random F16 weights, to measure speed with.
Other programs that read such files can be measured on the same one.

    make_whisper.py tiny|base|small|large-v3 OUT.bin

Needs numpy.
"""
import struct
import sys

import numpy as np

# width, heads, layers of both parts, mel bins, vocabulary
SHAPES = {
    "tiny": (384, 6, 4, 4, 80, 51865),
    "base": (512, 8, 6, 6, 80, 51865),
    "small": (768, 12, 12, 12, 80, 51865),
    "large-v3": (1280, 20, 32, 32, 128, 51866),
    "turbo": (1280, 20, 32, 4, 128, 51866),
}
N_TEXT = 50257


def vocabulary():
    """Bytes, then pairs of them, in order: unlike words, but all different."""
    return [bytes([i]) if i < 256 else bytes([i >> 8, i & 255]) for i in range(N_TEXT)]


def main():
    width, heads, audio_layers, text_layers, mels, n_vocab = SHAPES[sys.argv[1]]
    rng = np.random.default_rng(3)
    f = open(sys.argv[2], "wb")

    def tensor(name, *shape, std=None, half=True):
        value = rng.standard_normal(shape, np.float32) * (std or 1 / shape[-1] ** 0.5)
        f.write(struct.pack("<3i", len(shape), len(name), half))
        f.write(struct.pack(f"<{len(shape)}i", *reversed(shape)) + name.encode())
        f.write(value.astype("<f2" if half else "<f4").tobytes())

    def norm(name):
        tensor(name + ".weight", width, std=1, half=False)
        tensor(name + ".bias", width, std=0.1, half=False)

    def attention(name):
        for part in ("query", "key", "value", "out"):
            tensor(f"{name}.{part}.weight", width, width)
            if part != "key":
                tensor(f"{name}.{part}.bias", width, std=0.1, half=False)

    def blocks(name, n, cross):
        for i in range(n):
            attention(f"{name}.{i}.attn")
            norm(f"{name}.{i}.attn_ln")
            if cross:
                attention(f"{name}.{i}.cross_attn")
                norm(f"{name}.{i}.cross_attn_ln")
            tensor(f"{name}.{i}.mlp.0.weight", 4 * width, width)
            tensor(f"{name}.{i}.mlp.0.bias", 4 * width, std=0.1, half=False)
            tensor(f"{name}.{i}.mlp.2.weight", width, 4 * width)
            tensor(f"{name}.{i}.mlp.2.bias", width, std=0.1, half=False)
            norm(f"{name}.{i}.mlp_ln")

    f.write(struct.pack("<12i", 0x67676d6c, n_vocab, 1500, width, heads, audio_layers, 448, width,
                        heads, text_layers, mels, 1))
    f.write(struct.pack("<2i", mels, 201) + np.zeros((mels, 201), "<f4").tobytes())
    f.write(struct.pack("<i", N_TEXT))
    for token in vocabulary():
        f.write(struct.pack("<i", len(token)) + token)
    tensor("encoder.positional_embedding", 1500, width, std=1, half=False)
    tensor("encoder.conv1.weight", width, mels, 3)
    tensor("encoder.conv1.bias", width, 1, std=0.1, half=False)
    tensor("encoder.conv2.weight", width, width, 3)
    tensor("encoder.conv2.bias", width, 1, std=0.1, half=False)
    blocks("encoder.blocks", audio_layers, False)
    norm("encoder.ln_post")
    tensor("decoder.positional_embedding", 448, width, std=1, half=False)
    tensor("decoder.token_embedding.weight", n_vocab, width)
    blocks("decoder.blocks", text_layers, True)
    norm("decoder.ln")


if __name__ == "__main__":
    main()
