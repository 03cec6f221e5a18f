#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a Whisper .bin file of a well-known shape with random weights, for measurements of speed.
Other programs that read this format can be measured on the same file.

    make_whisper.py tiny|base|small|large-v3|turbo OUT.bin [F16|Q8_0|Q5_0] [--text]

With --text the position alone decides the next token: for any sound the model writes 100 tokens for
the first window, and 219 for the second one. All other weights are random and cost as much time.

Needs numpy.
"""
import struct
import sys

import need

np = need.module("numpy", "python3-numpy", "numpy")

# width, heads, layers of both parts, mel bins, vocabulary
SHAPES = {
    "tiny": (384, 6, 4, 4, 80, 51865),
    "base": (512, 8, 6, 6, 80, 51865),
    "small": (768, 12, 12, 12, 80, 51865),
    "large-v3": (1280, 20, 32, 32, 128, 51866),
    "turbo": (1280, 20, 32, 4, 128, 51866),
}
# the number of the format in the head of a tensor, and in the head of the file
FORMATS = {"F32": (0, 0), "F16": (1, 1), "Q5_0": (6, 2008), "Q8_0": (8, 2007)}
N_TEXT = 50257
N_POSITIONS = 448
END = 50257  # the token that ends a text; multilingual vocabularies end with 1501 times
SAID = 100  # tokens of the first window
LOUD = 30  # the factor by which the weights of positions exceed all others


def vocabulary():
    """Returns the single bytes, and then pairs of bytes. The pairs are not words, but all are
    different."""
    return [bytes([i]) if i < 256 else bytes([i >> 8, i & 255]) for i in range(N_TEXT)]


def blocks_of(x, kind):
    """Encodes rows as blocks of 32: a scale, the fifth bits for Q5_0, and the numbers."""
    x = x.reshape(-1, 32)
    top = np.take_along_axis(x, np.abs(x).argmax(1)[:, None], 1)
    scale = np.abs(top) / 127 if kind == "Q8_0" else top / -16
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    head = scale.astype("<f2").view(np.uint8)
    if kind == "Q8_0":
        return np.hstack((head, np.rint(x * inverse).astype(np.int8).view(np.uint8))).tobytes()
    q = np.clip(np.floor(x * inverse + 16.5), 0, 31).astype(np.uint8)
    low = (q[:, :16] & 15) | (q[:, 16:] & 15) << 4
    return np.hstack((head, np.packbits(q >> 4, axis=1, bitorder="little"), low)).tobytes()


def encoded(x, kind):
    if kind in ("Q5_0", "Q8_0"):
        return blocks_of(x, kind)
    return x.astype("<f2" if kind == "F16" else "<f4").tobytes()


def what_comes_next(n_vocab):
    """Returns the token that each position selects. The prompt of the second window has all tokens
    of the first window; prompts of later windows have the last 223 tokens."""
    begin = n_vocab - 1501
    letters = [a << 8 | b for a in range(ord("a"), ord("z") + 1) for b in range(ord("a"), ord("z") + 1)]
    out = [int(token) for token in np.random.default_rng(5).permutation(letters)[:N_POSITIONS]]
    for first in (2, 226):
        out[first] = begin
        out[first + SAID + 1] = begin + 29 * 50
        out[first + SAID + 2] = END
    out[SAID + 5] = begin
    return out[:226 + SAID + 2] + [END] * (N_POSITIONS - 226 - SAID - 2)


class Writer:
    def __init__(self, path, width, kind):
        self.file, self.width, self.kind = open(path, "wb"), width, kind
        self.rng = np.random.default_rng(3)

    def put(self, name, x, kind):
        shape = x.shape
        self.file.write(struct.pack("<3i", len(shape), len(name), FORMATS[kind][0]))
        self.file.write(struct.pack(f"<{len(shape)}i", *reversed(shape)) + name.encode())
        self.file.write(encoded(x, kind))

    def tensor(self, name, *shape, std=None, kind="F32"):
        x = self.rng.standard_normal(shape, np.float32) * np.float32(std or 1 / shape[-1] ** 0.5)
        self.put(name, x, kind)
        return x

    def matrix(self, name, *shape):
        return self.tensor(name, *shape, kind=self.kind)

    def norm(self, name, plain=False):
        if plain:
            self.put(name + ".weight", np.ones(self.width, np.float32), "F32")
        else:
            self.tensor(name + ".weight", self.width, std=1)
        self.tensor(name + ".bias", self.width, std=0.1)

    def attention(self, name):
        for part in ("query", "key", "value", "out"):
            self.matrix(f"{name}.{part}.weight", self.width, self.width)
            if part != "key":
                self.tensor(f"{name}.{part}.bias", self.width, std=0.1)

    def blocks(self, name, n, cross):
        width = self.width
        for i in range(n):
            self.attention(f"{name}.{i}.attn")
            self.norm(f"{name}.{i}.attn_ln")
            if cross:
                self.attention(f"{name}.{i}.cross_attn")
                self.norm(f"{name}.{i}.cross_attn_ln")
            self.matrix(f"{name}.{i}.mlp.0.weight", 4 * width, width)
            self.tensor(f"{name}.{i}.mlp.0.bias", 4 * width, std=0.1)
            self.matrix(f"{name}.{i}.mlp.2.weight", width, 4 * width)
            self.tensor(f"{name}.{i}.mlp.2.bias", width, std=0.1)
            self.norm(f"{name}.{i}.mlp_ln")

    def decoder(self, n_layers, n_vocab, text):
        tokens = self.matrix("decoder.token_embedding.weight", n_vocab, self.width)
        if text:
            next_tokens = tokens[what_comes_next(n_vocab)]
            self.put("decoder.positional_embedding", LOUD * self.width ** 0.5 * next_tokens, "F32")
        else:
            self.tensor("decoder.positional_embedding", N_POSITIONS, self.width, std=1)
        self.blocks("decoder.blocks", n_layers, True)
        self.norm("decoder.ln", plain=text)


def main():
    args = [a for a in sys.argv[1:] if a != "--text"]
    width, heads, audio_layers, text_layers, mels, n_vocab = SHAPES[args[0]]
    w = Writer(args[1], width, args[2] if len(args) > 2 else "F16")
    w.file.write(struct.pack("<12i", 0x67676d6c, n_vocab, 1500, width, heads, audio_layers,
                             N_POSITIONS, width, heads, text_layers, mels, FORMATS[w.kind][1]))
    w.file.write(struct.pack("<2i", mels, 201) + np.zeros((mels, 201), "<f4").tobytes())
    w.file.write(struct.pack("<i", N_TEXT))
    for token in vocabulary():
        w.file.write(struct.pack("<i", len(token)) + token)
    w.tensor("encoder.positional_embedding", 1500, width, std=1)
    w.tensor("encoder.conv1.weight", width, mels, 3, kind="F16")
    w.tensor("encoder.conv1.bias", width, 1, std=0.1)
    w.tensor("encoder.conv2.weight", width, width, 3, kind="F16")
    w.tensor("encoder.conv2.bias", width, 1, std=0.1)
    w.blocks("encoder.blocks", audio_layers, False)
    w.norm("encoder.ln_post")
    w.decoder(text_layers, n_vocab, "--text" in sys.argv)


if __name__ == "__main__":
    main()
