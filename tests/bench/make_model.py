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
import os
import random
import struct
import sys

from gguf_file import TYPES as KINDS
from gguf_file import GgufWriter, row_bytes

SHAPES = {
    # arch, layers, embd, heads, kv heads, head dim, ff, vocab, tied
    "tiny": ("qwen3", 2, 256, 4, 2, 64, 512, 1024, True),
    "qwen3-0.6b": ("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, True),
    "qwen3-1.7b": ("qwen3", 28, 2048, 16, 8, 128, 6144, 151936, True),
    "qwen3-8b": ("qwen3", 36, 4096, 32, 8, 128, 12288, 151936, False),
    "llama3.2-1b": ("llama", 16, 2048, 32, 8, 64, 8192, 128256, True),
    "tinyllama-1.1b": ("llama", 22, 2048, 32, 4, 64, 5632, 32000, False),
}
PRESETS = [*KINDS, "Q4_K_M", "Q5_K_M"]

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
}
# The number of different blocks. It is prime, so that rows begin at all of them.
N_BLOCKS = 65521


class Weights:
    """Holds random weights of one kind with a standard deviation of about @std, repeated
    endlessly."""

    def __init__(self, rng, kind, std):
        self.size = KINDS[kind][2]
        if kind in SCALES:
            data = self.blocks(rng, kind, std)
        else:
            data = self.floats(rng, kind, std)
        # The data is stored 8 times in a row, so that write() can usually take its bytes as one
        # slice, even if they cross the end of the first copy.
        self.data = memoryview(data * 8)
        self.period = N_BLOCKS * self.size
        self.at = 0

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


def tensor_type(preset, name, layer, n_layers):
    """Returns the format that llama-quantize would choose for this tensor."""
    if not preset.endswith("_M"):
        return preset
    base = preset[:-2]
    more = layer < n_layers // 8 or layer >= 7 * n_layers // 8 or (layer - n_layers // 8) % 3 == 2
    if name in ("token_embd", "output") or (name in ("attn_v", "ffn_down") and more):
        return "Q6_K"
    return base


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

    def __init__(self, shape, preset, seed, tokenizer):
        self.shape = SHAPES[shape]
        self.preset = preset
        self.rng = random.Random(seed)
        self.weights = {}  # (kind, columns) → Weights
        self.file = GgufWriter()
        self.silent = ()
        self.add_keys("random %s %s" % (shape, preset))
        self.silent = set(add_tokenizer(self.file, self.shape[7], tokenizer))

    def add_keys(self, name):
        arch, n_layers, embd, heads, kv_heads, hd, ff, vocab, _ = self.shape
        w = self.file
        w.add_string("general.architecture", arch)
        w.add_string("general.name", name)
        for key, value in (("block_count", n_layers), ("context_length", 32768),
                           ("embedding_length", embd), ("feed_forward_length", ff),
                           ("attention.head_count", heads),
                           ("attention.head_count_kv", kv_heads), ("attention.key_length", hd),
                           ("attention.value_length", hd), ("rope.dimension_count", hd),
                           ("vocab_size", vocab)):
            w.add_uint("%s.%s" % (arch, key), value)
        w.add_float(arch + ".rope.freq_base", 1e6)
        w.add_float(arch + ".attention.layer_norm_rms_epsilon", 1e-6)

    def write_rows(self, f, weights, rows, size):
        """Writes a matrix with a row for each token. Tokens that an answer must not contain get
        rows of zeros, whose logits of 0 are never the highest."""
        for i in range(rows):
            if i in self.silent:
                f.write(bytes(size))
            else:
                weights.write(f, size)

    def matrix(self, name, rows, cols, layer=0):
        kind = tensor_type(self.preset, name.split(".")[-2], layer, self.shape[1])
        size = row_bytes(kind, cols)
        if (kind, cols) not in self.weights:
            self.weights[kind, cols] = Weights(self.rng, kind, cols ** -0.5)
        weights = self.weights[kind, cols]
        if rows == self.shape[7]:
            self.file.add_tensor(name, kind, rows, cols,
                                 lambda f: self.write_rows(f, weights, rows, size))
        else:
            self.file.add_tensor(name, kind, rows, cols,
                                 lambda f: weights.write(f, rows * size))

    def vector(self, name, n):
        data = array.array("f", (self.rng.uniform(0.8, 1.2) for _ in range(n))).tobytes()
        self.file.add_tensor(name, "F32", 1, n, lambda f: f.write(data))

    def layer(self, i):
        arch, _, embd, heads, kv_heads, hd, ff, _, _ = self.shape
        p = "blk.%d." % i
        self.vector(p + "attn_norm.weight", embd)
        self.matrix(p + "attn_q.weight", heads * hd, embd, i)
        self.matrix(p + "attn_k.weight", kv_heads * hd, embd, i)
        self.matrix(p + "attn_v.weight", kv_heads * hd, embd, i)
        if arch == "qwen3":
            self.vector(p + "attn_q_norm.weight", hd)
            self.vector(p + "attn_k_norm.weight", hd)
        self.matrix(p + "attn_output.weight", embd, heads * hd, i)
        self.vector(p + "ffn_norm.weight", embd)
        self.matrix(p + "ffn_gate.weight", ff, embd, i)
        self.matrix(p + "ffn_up.weight", ff, embd, i)
        self.matrix(p + "ffn_down.weight", embd, ff, i)

    def write(self, path):
        _, n_layers, embd, _, _, _, _, vocab, tied = self.shape
        self.matrix("token_embd.weight", vocab, embd)
        for i in range(n_layers):
            self.layer(i)
        self.vector("output_norm.weight", embd)
        if not tied:
            self.matrix("output.weight", vocab, embd)
        self.file.write(path)


def main():
    p = argparse.ArgumentParser(description="a model of random weights, to measure speed with")
    p.add_argument("--shape", choices=sorted(SHAPES), default="qwen3-0.6b")
    p.add_argument("--type", choices=PRESETS, default="Q4_K_M", dest="preset")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--tokenizer", metavar="DIR", help="take the vocabulary of this directory")
    p.add_argument("out")
    args = p.parse_args()
    Model(args.shape, args.preset, args.seed, args.tokenizer).write(args.out)


if __name__ == "__main__":
    sys.exit(main())
