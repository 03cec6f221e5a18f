#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF model of a well-known shape with random weights, to measure speed with.

    make_model.py --shape qwen3-0.6b --type Q4_K_M OUT.gguf

Needs the Python packages gguf and numpy. Quantised blocks are random, not the result of
quantising: every block is valid and the numbers are of the size that a trained model has. The
vocabulary is byte-level BPE in full size, as the time to open a model depends on it: of made-up
words, or that of --tokenizer, a directory with vocab.json and merges.txt.
"""
import argparse
import json
import os
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

SHAPES = {
    # arch, layers, embd, heads, kv heads, head dim, ff, vocab, tied
    "tiny": ("qwen3", 2, 256, 4, 2, 64, 512, 1024, True),
    "qwen3-0.6b": ("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, True),
    "qwen3-1.7b": ("qwen3", 28, 2048, 16, 8, 128, 6144, 151936, True),
    "llama3.2-1b": ("llama", 16, 2048, 32, 8, 64, 8192, 128256, True),
    "tinyllama-1.1b": ("llama", 22, 2048, 32, 4, 64, 5632, 32000, False),
}
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K",
         "Q4_K_M", "Q5_K_M"]

# Where the float16 scales of a block lie, and the span of the numbers that they multiply.
SCALES = {
    T.Q8_0: ([0], 127),
    T.Q4_0: ([0], 8),
    T.Q4_1: ([0, 2], 8),
    T.Q5_0: ([0], 16),
    T.Q5_1: ([0, 2], 16),
    T.Q4_K: ([0, 2], 8 * 63),
    T.Q5_K: ([0, 2], 16 * 63),
    T.Q6_K: ([208], 32 * 128),
}


def random_blocks(rng, kind, n_elems, std):
    """n_elems random weights of about this standard deviation, as bytes."""
    if kind in (T.F32, T.F16, T.BF16):
        x = rng.standard_normal(n_elems, dtype=np.float32) * np.float32(std)
        if kind == T.F32:
            return x.view(np.uint8)
        if kind == T.F16:
            return x.astype(np.float16).view(np.uint8)
        return (x.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    elems, size = gguf.GGML_QUANT_SIZES[kind]
    offsets, span = SCALES[kind]
    n = n_elems // elems
    blocks = np.frombuffer(rng.bytes(n * size), np.uint8).reshape(n, size).copy()
    for i in offsets:
        scale = rng.uniform(0.5, 1.5, n) * std * 1.7 / span
        blocks[:, i:i + 2] = scale.astype(np.float16).view(np.uint8).reshape(n, 2)
    return blocks.reshape(-1)


def tensor_type(preset, name, layer, n_layers):
    """What llama-quantize would choose for this tensor."""
    if not preset.endswith("_M"):
        return T[preset]
    base = T[preset[:-2]]
    more = layer < n_layers // 8 or layer >= 7 * n_layers // 8 or (layer - n_layers // 8) % 3 == 2
    if name in ("token_embd", "output") or (name in ("attn_v", "ffn_down") and more):
        return T.Q6_K
    return base


def byte_tokens():
    """The 256 characters that stand for bytes in byte-level BPE."""
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
    """The bytes and n pairs of ASCII, each of parts that came before; what came early is taken
    often."""
    rng = np.random.default_rng(7)
    tokens, merges = byte_tokens(), []
    space = chr(288)
    often = space + "etaoinshrdlcumwfgypbvkjxqzTAISWCBMPHD0123456789_.,-()=\"'/:;"
    pool = sorted((c for c in tokens if "!" <= c <= "~" or c == space),
                  key=lambda c: often.find(c) % 1000)
    seen = set(tokens)
    while len(merges) < n:
        # What came early is taken often, as in texts.
        for i, j in (len(pool) ** rng.random((4096, 2)) ** 0.5 - 1).astype(int):
            left, right = pool[i], pool[j]
            if (len(left) + len(right) > 32 or left + right in seen or len(merges) == n or
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


BYTE = {c: b for b, c in enumerate(byte_tokens())}


def is_text(token):
    """Whether the token's bytes are UTF-8 by themselves."""
    try:
        bytes(BYTE[c] for c in token).decode()
    except UnicodeDecodeError:
        return False
    return True


def add_tokenizer(w, vocab, directory):
    """Returns the tokens that an answer must not have: control, padding, parts of characters."""
    # Qwen has 151,643 tokens of text; what is left of the matrix is never used.
    n_text = min(vocab - len(CONTROL), 151643)
    tokens, merges = real_merges(directory) if directory else made_up_merges(n_text - 256)
    end = len(tokens)
    n_pad = vocab - end - len(CONTROL)
    if n_pad < 0:
        sys.exit("this shape has no room for %d tokens" % end)
    kind = gguf.TokenType
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens + CONTROL + ["[PAD%d]" % (vocab - n_pad + i) for i in range(n_pad)])
    w.add_token_types([kind.NORMAL] * end + [kind.CONTROL] * len(CONTROL) + [kind.UNUSED] * n_pad)
    w.add_token_merges(merges)
    w.add_eos_token_id(end + 2)
    w.add_bos_token_id(end)
    w.add_pad_token_id(end)
    w.add_add_bos_token(False)
    w.add_chat_template(CHATML)
    return [i for i, token in enumerate(tokens) if not is_text(token)] + list(range(end, vocab))


def write(path, shape, preset, seed, tokenizer):
    arch, n_layers, embd, heads, kv_heads, hd, ff, vocab, tied = SHAPES[shape]
    rng = np.random.default_rng(seed)
    w = gguf.GGUFWriter(path, arch, use_temp_file=True)
    w.add_name(f"random {shape} {preset}")
    w.add_block_count(n_layers)
    w.add_context_length(32768)
    w.add_embedding_length(embd)
    w.add_feed_forward_length(ff)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(hd)
    w.add_value_length(hd)
    w.add_rope_dimension_count(hd)
    w.add_rope_freq_base(1e6)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_vocab_size(vocab)

    silent = add_tokenizer(w, vocab, tokenizer)

    def matrix(name, key, rows, cols, layer=0):
        kind = tensor_type(preset, key, layer, n_layers)
        data = random_blocks(rng, kind, rows * cols, 1 / np.sqrt(cols))
        elems, size = gguf.GGML_QUANT_SIZES[kind]
        data = data.reshape(rows, cols // elems * size)
        if rows == vocab:
            data[silent] = 0  # logits of 0, which are never the highest
        w.add_tensor(name, data, raw_dtype=kind)

    def vector(name, n):
        w.add_tensor(name, rng.uniform(0.8, 1.2, n).astype(np.float32))

    matrix("token_embd.weight", "token_embd", vocab, embd)
    for i in range(n_layers):
        p = f"blk.{i}."
        vector(p + "attn_norm.weight", embd)
        matrix(p + "attn_q.weight", "attn_q", heads * hd, embd, i)
        matrix(p + "attn_k.weight", "attn_k", kv_heads * hd, embd, i)
        matrix(p + "attn_v.weight", "attn_v", kv_heads * hd, embd, i)
        if arch == "qwen3":
            vector(p + "attn_q_norm.weight", hd)
            vector(p + "attn_k_norm.weight", hd)
        matrix(p + "attn_output.weight", "attn_output", embd, heads * hd, i)
        vector(p + "ffn_norm.weight", embd)
        matrix(p + "ffn_gate.weight", "ffn_gate", ff, embd, i)
        matrix(p + "ffn_up.weight", "ffn_up", ff, embd, i)
        matrix(p + "ffn_down.weight", "ffn_down", embd, ff, i)
    vector("output_norm.weight", embd)
    if not tied:
        matrix("output.weight", "output", vocab, embd)

    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    p = argparse.ArgumentParser(description="a model of random weights, to measure speed with")
    p.add_argument("--shape", choices=sorted(SHAPES), default="qwen3-0.6b")
    p.add_argument("--type", choices=TYPES, default="Q4_K_M", dest="preset")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--tokenizer", metavar="DIR", help="take the vocabulary of this directory")
    p.add_argument("out")
    args = p.parse_args()
    write(args.out, args.shape, args.preset, args.seed, args.tokenizer)


if __name__ == "__main__":
    sys.exit(main())
