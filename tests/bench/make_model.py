#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF model of a well-known shape with random weights, to measure speed with.

    make_model.py --shape qwen3-0.6b --type Q4_K_M OUT.gguf

Quantized blocks are random bits, not the result of quantizing. Every block is valid, and the
weights have the magnitude of a trained model's. Weights repeat after 65,521 blocks; this number is
prime, so that the rows of a matrix begin at different blocks. The vocabulary is byte-level BPE of
full size, because the time to open a model depends on it. The words of the vocabulary are made up,
or read from the directory --tokenizer, which has vocab.json and merges.txt.
"""
import argparse
import array
import json
import math
import os
import random
import struct
import sys

from gguf_file import TYPES as KINDS
from gguf_file import GgufWriter, row_bytes
from shapes import FAMILIES, SHAPES

PRESETS = [*KINDS, "Q4_K_M", "Q5_K_M", "MXFP4_MOE"]

# The offsets of the float16 scales in a block, and the range of the numbers that they multiply.
SCALES = {
    "Q8_0": ([0], 127),
    "Q4_0": ([0], 8),
    "Q4_1": ([0, 2], 8),
    "Q5_0": ([0], 16),
    "Q5_1": ([0, 2], 16),
    "Q4_K": ([0, 2], 8 * 63),
    "Q5_K": ([0, 2], 16 * 63),
    "Q6_K": ([208], 32 * 128),
    # Grids: the largest coordinate times the largest of the scales that groups have.
    "IQ2_XXS": ([0], 43 * 31 / 8),
    "IQ2_XS": ([0], 43 * 31 / 8),
    "IQ2_S": ([0], 43 * 31 / 8),
    "IQ3_XXS": ([0], 62 * 31 / 4),
    "IQ3_S": ([0], 15 * 31),
    "IQ1_S": ([0], 15),
    "Q2_K": ([80, 82], 3 * 15),
    "Q3_K": ([108], 4 * 32),
    "IQ4_NL": ([0], 127),
    "IQ4_XS": ([0], 127 * 32),
    "Q1_0": ([0], 1.7),
    "Q2_0": ([0], 2),
}
# In a block of MXFP4, the first byte is an exponent, and numbers are at most 6 × 2^(byte - 127).
MXFP4_LARGEST = 6
# In a block of NVFP4, the first 4 bytes are scales in E4M3, and numbers are at most 6 times as large.
NVFP4_SCALES = 4
# A byte of TQ2_0 has four numbers of 2 bits: 0, 1 and 2 stand for -1, 0 and 1.
TERNARY = bytes(b for b in range(256) if not b & b >> 1 & 0x55)
# The number of different blocks. It is prime, so that rows begin at all of them.
N_BLOCKS = 65521


class Weights:
    """Holds random weights of one kind with a standard deviation of about @std, repeated
    endlessly."""

    def __init__(self, rng, kind, std):
        self.size = KINDS[kind][2]
        if kind in SCALES:
            data = self.blocks(rng, kind, std)
        elif kind == "MXFP4":
            data = self.mxfp4(rng, std)
        elif kind == "NVFP4":
            data = self.nvfp4(rng, std)
        elif kind == "TQ2_0":
            data = self.ternary(rng, std)
        elif kind == "IQ1_M":
            data = self.iq1_m(rng, std)
        else:
            data = self.floats(rng, kind, std)
        # The data is stored 8 times in a row, so that write() can usually take its bytes as one
        # slice, even if they cross the end of the first copy.
        self.data = memoryview(data * 8)
        self.period = N_BLOCKS * self.size
        self.at = 0

    def mxfp4(self, rng, std):
        data = bytearray(rng.randbytes(N_BLOCKS * self.size))
        power = 127 + round(math.log2(std * 1.7 / MXFP4_LARGEST))
        data[0::self.size] = bytes(power + rng.randint(-1, 1) for _ in range(N_BLOCKS))
        return data

    def nvfp4(self, rng, std):
        data = bytearray(rng.randbytes(N_BLOCKS * self.size))
        code = 8 * (7 + round(math.log2(std * 1.7 / MXFP4_LARGEST)))
        for i in range(NVFP4_SCALES):
            data[i::self.size] = bytes(max(code + rng.randint(-8, 8), 0) for _ in range(N_BLOCKS))
        return data

    def ternary(self, rng, std):
        scale = struct.pack("<e", std * 1.2)
        return bytearray().join(bytes(rng.choices(TERNARY, k=self.size - 2)) + scale
                                for _ in range(N_BLOCKS))

    def iq1_m(self, rng, std):
        """The scale of a block is in the top 4 bits of 4 words."""
        data = bytearray(rng.randbytes(N_BLOCKS * self.size))
        scale, = struct.unpack("<H", struct.pack("<e", std * 1.7 / 15))
        for i in range(4):
            at = slice(49 + 2 * i, None, self.size)
            data[at] = bytes(b & 15 | (scale >> 4 * i & 15) << 4 for b in data[at])
        return data

    def blocks(self, rng, kind, std):
        offsets, span = SCALES[kind]
        data = bytearray(rng.randbytes(N_BLOCKS * self.size))
        for i in offsets:
            scales = [rng.uniform(0.5, 1.5) * std * 1.7 / span for _ in range(N_BLOCKS)]
            packed = struct.pack("<%de" % N_BLOCKS, *scales)
            data[i::self.size] = packed[0::2]
            data[i + 1::self.size] = packed[1::2]
        return data

    def floats(self, rng, kind, std):
        x = array.array("f", (rng.gauss(0, std) for _ in range(N_BLOCKS)))
        if kind == "F16":
            return bytearray(struct.pack("<%de" % N_BLOCKS, *x))
        data = bytearray(x.tobytes())
        if kind == "F32":
            return data
        out = bytearray(2 * N_BLOCKS)
        out[0::2], out[1::2] = data[2::4], data[3::4]
        return out

    def write(self, f, n):
        """Writes the next @n bytes to @f."""
        while n > 0:
            part = self.data[self.at:self.at + min(n, len(self.data) - self.at)]
            done = f.write(part)
            n -= done
            self.at = (self.at + done) % self.period


# The format that llama-quantize takes instead, if a row is not a whole number of blocks.
FALLBACK = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0", "Q2_K": "IQ4_NL", "Q3_K": "IQ4_NL",
            "IQ4_XS": "IQ4_NL"}
# Matrices with a row for each token, and matrices that llama-quantize leaves in their own format.
OF_TOKENS = ("token_embd.weight", "output.weight", "per_layer_token_embd.weight")
UNQUANTIZED = ("ffn_gate_inp", "ssm_conv1d", "per_layer_model_proj")


def tensor_type(preset, name, layer, n_layers):
    """Returns the format that llama-quantize would choose for this tensor."""
    if preset == "MXFP4_MOE":
        return "MXFP4" if name.endswith("_exps") else "Q8_0"
    if preset == "TQ2_0" and name in ("token_embd", "output"):
        return "Q6_K"
    if preset in KINDS:
        return preset
    base = preset[:-2]
    more = layer < n_layers // 8 or layer >= 7 * n_layers // 8 or (layer - n_layers // 8) % 3 == 2
    if name in ("token_embd", "output", "per_layer_token_embd"):
        return "Q6_K"
    if name in ("attn_v", "ffn_down", "ffn_down_exps", "ffn_down_shexp") and more:
        return "Q6_K"
    if name == "attn_qkv":
        return "Q5_K" if base == "Q4_K" else "Q6_K"
    return base


def matrix_type(preset, name, layer, n_layers, cols):
    """Returns the format of a matrix whose rows have @cols elements."""
    if name in UNQUANTIZED:
        return "F32"
    kind = tensor_type(preset, name, layer, n_layers)
    if cols % KINDS[kind][1]:
        kind = FALLBACK.get(kind, "F16")
    return kind


def byte_tokens():
    """Returns the 256 characters that stand for bytes in byte-level BPE."""
    good = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, extra = {}, 0
    for b in range(256):
        if b in good:
            out[b] = chr(b)
        else:
            out[b] = chr(256 + extra)
            extra += 1
    return [out[b] for b in range(256)]


def made_up_merges(n):
    """Returns the tokens of the 256 bytes and of @n merges, and the merges. Each merge joins two
    ASCII tokens that already exist. Tokens nearer to the start of the list are chosen more often."""
    rng = random.Random(7)
    tokens, merges = byte_tokens(), []
    space = chr(288)
    often = space + "etaoinshrdlcumwfgypbvkjxqzTAISWCBMPHD0123456789_.,-()=\"'/:;"
    pool = sorted((c for c in tokens if "!" <= c <= "~" or c == space),
                  key=lambda c: often.find(c) % 1000)
    seen = set(tokens)
    while len(merges) < n:
        left, right = (pool[int(len(pool) ** rng.random() ** 0.5 - 1)] for _ in range(2))
        if (len(left) + len(right) > 32 or left + right in seen or
                (space in right and left.strip(space))):
            continue
        merges.append(left + " " + right)
        seen.add(left + right)
        pool.append(left + right)
        tokens.append(left + right)
    return tokens, merges


def real_merges(directory):
    with open(os.path.join(directory, "vocab.json"), encoding="utf-8") as f:
        ids = json.load(f)
    with open(os.path.join(directory, "merges.txt"), encoding="utf-8") as f:
        lines = f.read().split("\n")
    merges = [x for x in lines if x and not x.startswith("#version")]
    return sorted(ids, key=ids.get), merges


CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
          "{{ message['content'] }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
# Kinds of tokens.
NORMAL, IS_CONTROL, IS_UNUSED = 1, 3, 5


BYTE = {c: b for b, c in enumerate(byte_tokens())}


def is_text(token):
    """Returns whether the token's bytes are UTF-8 by themselves."""
    try:
        bytes(BYTE[c] for c in token).decode()
    except UnicodeDecodeError:
        return False
    return True


def add_tokenizer(w, vocab, directory):
    """Writes the vocabulary. Returns the tokens that an answer must not contain: control tokens,
    padding, and tokens that are not whole characters."""
    # Qwen has 151,643 tokens of text; the other rows of the matrix are never used.
    n_text = min(vocab - len(CONTROL), 151643)
    tokens, merges = real_merges(directory) if directory else made_up_merges(n_text - 256)
    end = len(tokens)
    n_pad = vocab - end - len(CONTROL)
    if n_pad < 0:
        sys.exit("this shape has no room for %d tokens" % end)
    w.add_string("tokenizer.ggml.model", "gpt2")
    w.add_string("tokenizer.ggml.pre", "qwen2")
    w.add_strings("tokenizer.ggml.tokens",
                  tokens + CONTROL + ["[PAD%d]" % (vocab - n_pad + i) for i in range(n_pad)])
    w.add_ints("tokenizer.ggml.token_type",
               [NORMAL] * end + [IS_CONTROL] * len(CONTROL) + [IS_UNUSED] * n_pad)
    w.add_strings("tokenizer.ggml.merges", merges)
    w.add_uint("tokenizer.ggml.eos_token_id", end + 2)
    w.add_uint("tokenizer.ggml.bos_token_id", end)
    w.add_uint("tokenizer.ggml.padding_token_id", end)
    w.add_bool("tokenizer.ggml.add_bos_token", False)
    w.add_string("tokenizer.chat_template", CHATML)
    return [i for i, token in enumerate(tokens) if not is_text(token)] + list(range(end, vocab))


class Model:
    """Represents a model file that is being built."""

    def __init__(self, name, shape, preset, seed, tokenizer):
        self.shape = shape
        self.preset = preset
        self.rng = random.Random(seed)
        self.weights = {}  # (kind, columns) → Weights
        self.file = GgufWriter()
        self.file.add_string("general.architecture", shape.arch)
        self.file.add_string("general.name", "random %s %s" % (name, preset))
        self.family = FAMILIES[shape.arch](self, shape)
        self.silent = set(add_tokenizer(self.file, shape.vocab, tokenizer))

    def write_rows(self, f, weights, rows, size):
        """Writes a matrix with a row for each token. Tokens that an answer must not contain get
        rows of zeros, whose logits of 0 are never the highest."""
        for i in range(rows):
            if i in self.silent:
                f.write(bytes(size))
            else:
                weights.write(f, size)

    def matrix(self, name, rows, cols, layer=0, depth=0):
        """Adds a matrix, or with @depth a stack of @depth matrices."""
        kind = matrix_type(self.preset, name.split(".")[-2], layer, self.shape.n_layers, cols)
        size = row_bytes(kind, cols)
        total = rows * max(depth, 1)
        if (kind, cols) not in self.weights:
            self.weights[kind, cols] = Weights(self.rng, kind, cols ** -0.5)
        weights = self.weights[kind, cols]
        if name in OF_TOKENS:
            self.file.add_tensor(name, kind, rows, cols,
                                 lambda f: self.write_rows(f, weights, rows, size))
        else:
            self.file.add_tensor(name, kind, total, cols, lambda f: weights.write(f, total * size),
                                 depth)

    def vector(self, name, n, low=0.8, high=1.2, rows=1):
        """Adds a vector of numbers between @low and @high, or with @rows a matrix of them."""
        data = array.array("f", (self.rng.uniform(low, high) for _ in range(n * rows))).tobytes()
        self.file.add_tensor(name, "F32", rows, n, lambda f: f.write(data))

    def values(self, name, numbers):
        data = array.array("f", numbers).tobytes()
        self.file.add_tensor(name, "F32", 1, len(numbers), lambda f: f.write(data))

    def write(self, path):
        shape = self.shape
        self.matrix("token_embd.weight", shape.vocab, shape.embd)
        self.family.whole()
        for i in range(shape.n_layers):
            self.family.layer(i, "blk.%d." % i)
        if shape.mtp:
            self.family.predictor(shape.n_layers, "blk.%d." % shape.n_layers)
        self.vector("output_norm.weight", shape.embd)
        if not shape.tied:
            self.matrix("output.weight", shape.vocab, shape.embd)
        self.file.write(path)


def main():
    p = argparse.ArgumentParser(description="a model of random weights, to measure speed with")
    p.add_argument("--shape", choices=sorted(SHAPES), default="qwen3-0.6b")
    p.add_argument("--type", choices=PRESETS, default="Q4_K_M", dest="preset")
    p.add_argument("--layers", type=int, metavar="N", help="number of layers, if not the shape's")
    p.add_argument("--vocab", type=int, metavar="N",
                   help="size of the vocabulary, if not the shape's")
    p.add_argument("--untied", action="store_true", help="give the head weights of its own")
    p.add_argument("--mtp", action="store_true",
                   help="add a layer that predicts a further token (qwen3.5 shapes)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--tokenizer", metavar="DIR", help="take the vocabulary of this directory")
    p.add_argument("out")
    args = p.parse_args()
    shape = SHAPES[args.shape].smaller(args.layers, args.vocab, args.untied, args.mtp)
    Model(args.shape, shape, args.preset, args.seed, args.tokenizer).write(args.out)


if __name__ == "__main__":
    sys.exit(main())
