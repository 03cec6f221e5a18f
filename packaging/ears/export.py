#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the weights of train.py as files for other programs.

Usage: export.py --tokens multilingual.tiktoken CHECKPOINT DIRECTORY [--whisper-cpp FILE]

DIRECTORY gets the layout of Hugging Face, with weights in 16 bits. FILE is for whisper.cpp, which has
fixed positions for Whisper's tokens: the file contains all of these tokens, but the tokens that the model
lacks are never selected.
"""
import argparse
import base64
import json
import pathlib
import re
import struct

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import mel
from model import CONSTANT, Config, Ears
from vocabulary import EOT, LANGUAGES, SOT, Vocabulary, byte_letters

RENAMED = [
    (r"^(encoder|decoder)\.", r"model.\1."), (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."), (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."), (r"\.attn\.", ".self_attn."),
    (r"\.mlp_ln\.", ".final_layer_norm."), (r"\.mlp\.0\.", ".fc1."), (r"\.mlp\.2\.", ".fc2."),
    (r"\.query\.", ".q_proj."), (r"\.key\.", ".k_proj."), (r"\.value\.", ".v_proj."),
    (r"\.out\.", ".out_proj."), (r"\.(ln_post|ln)\.", ".layer_norm."),
    (r"\.positional_embedding$", ".embed_positions.weight"), (r"\.token_embedding\.", ".embed_tokens."),
]


def renamed(name):
    for pattern, to in RENAMED:
        name = re.sub(pattern, to, name)
    return name


def config(c, v):
    return {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "dtype": "float16",
        "vocab_size": c.n_vocab, "num_mel_bins": c.n_mels, "d_model": c.width,
        "max_source_positions": c.n_audio_ctx, "max_target_positions": c.n_text_ctx,
        "encoder_layers": c.n_audio_layers, "encoder_attention_heads": c.n_heads,
        "encoder_ffn_dim": 4 * c.width, "decoder_layers": c.n_text_layers,
        "decoder_attention_heads": c.n_heads, "decoder_ffn_dim": 4 * c.width,
        "activation_function": "gelu", "scale_embedding": False, "is_encoder_decoder": True,
        "tie_word_embeddings": True, "bos_token_id": v.ids[EOT], "eos_token_id": v.ids[EOT],
        "pad_token_id": v.ids[EOT], "decoder_start_token_id": v.ids[SOT],
    }


def generation_config(c, v):
    suppressed = [v.ids[t] for t in v.special if t not in (EOT, "<|notimestamps|>")]
    return {
        "bos_token_id": v.ids[EOT], "eos_token_id": v.ids[EOT], "pad_token_id": v.ids[EOT],
        "decoder_start_token_id": v.ids[SOT], "prev_sot_token_id": v.ids["<|startofprev|>"],
        "no_timestamps_token_id": v.ids["<|notimestamps|>"], "is_multilingual": True,
        "lang_to_id": {f"<|{l}|>": v.ids[f"<|{l}|>"] for l in LANGUAGES},
        "task_to_id": {t: v.ids[f"<|{t}|>"] for t in ("transcribe", "translate")},
        "alignment_heads": [list(h) for h in c.alignment_heads],
        "suppress_tokens": suppressed, "begin_suppress_tokens": [v.ranks[b" "], v.ids[EOT]],
        "max_initial_timestamp_index": 50, "max_length": c.n_text_ctx, "return_timestamps": False,
    }


def tokenizer(v):
    letters = byte_letters()
    write = lambda token: "".join(letters[b] for b in token)
    times = [f"<|{i / 50:.2f}|>" for i in range(1501)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": len(v.tokens) + i, "content": t, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": i < len(v.special)}
                         for i, t in enumerate(v.special + times)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                  "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                  "vocab": {write(t): i for i, t in enumerate(v.tokens)},
                  "merges": [f"{write(a)} {write(b)}" for a, b in v.merges]},
    }


def write_directory(model, v, out):
    out.mkdir(parents=True, exist_ok=True)
    c, files = model.c, {}
    files["config.json"] = config(c, v)
    files["generation_config.json"] = generation_config(c, v)
    files["preprocessor_config.json"] = {
        "feature_extractor_type": "WhisperFeatureExtractor", "processor_class": "WhisperProcessor",
        "feature_size": c.n_mels, "sampling_rate": 16000, "hop_length": 160, "n_fft": 400,
        "chunk_length": 30, "padding_value": 0.0, "padding_side": "right", "return_attention_mask": False}
    files["tokenizer_config.json"] = {
        "tokenizer_class": "WhisperTokenizer", "processor_class": "WhisperProcessor", "bos_token": EOT,
        "eos_token": EOT, "pad_token": EOT, "unk_token": EOT, "add_prefix_space": False, "errors": "replace",
        "model_max_length": 1024, "return_attention_mask": False}
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "tokenizer.json").write_text(
        json.dumps(tokenizer(v), ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    save_file({renamed(k): t.half().contiguous() for k, t in model.tensors().items()},
              out / "model.safetensors", metadata={"format": "pt"})


@torch.no_grad()
def read_directory(model, v, path):
    """Loads the files of write_directory(), which have 16-bit weights, into @model."""
    files, n = load_file(path / "model.safetensors"), len(v.tokens) + len(v.special)
    tensors = {k: files[renamed(k)].float() for k in model.tensors()}
    table = tensors.pop("decoder.token_embedding.weight")
    tensors["decoder.token_embedding.weight"] = table[:n]
    tensors["decoder.times.weight"] = torch.linalg.lstsq(model.decoder.clock, table[n:]).solution.T
    model.load_state_dict(tensors)


def widened(table, v, path):
    """Returns a table with rows for all tokens of Whisper, and the bytes of these tokens in order. Tokens that
    the model lacks have rows whose product with any output is -30."""
    lines = (l.split() for l in path.read_bytes().splitlines())
    ranks = {base64.b64decode(l[0]): int(l[1]) for l in lines if len(l) == 2}
    n_text, n_all = len(v.tokens), max(ranks.values()) + 1
    whole = torch.zeros(n_all + len(table) - n_text, table.shape[1])
    whole[:, 0] = -30 / CONSTANT
    whole[torch.tensor([ranks[t] for t in v.tokens])] = table[:n_text]
    whole[n_all:] = table[n_text:]
    return whole, sorted(ranks, key=ranks.get)


def write_whisper_cpp(model, v, tokens_path, out):
    c, tensors, filters = model.c, model.tensors(), mel.filters()
    table, tokens = widened(tensors["decoder.token_embedding.weight"], v, tokens_path)
    tensors["decoder.token_embedding.weight"] = table
    with open(out, "wb") as f:
        f.write(struct.pack("<12I", 0x67676D6C, len(table), c.n_audio_ctx, c.width, c.n_heads,
                            c.n_audio_layers, c.n_text_ctx, c.width, c.n_heads, c.n_text_layers,
                            c.n_mels, 1))
        f.write(struct.pack("<2I", *filters.shape) + filters.tobytes())
        f.write(struct.pack("<I", len(tokens)))
        for token in tokens:
            f.write(struct.pack("<I", len(token)) + token)
        for name, tensor in tensors.items():
            x = tensor.numpy()
            if re.fullmatch(r"encoder\.conv.\.bias", name):
                x = x[:, None]
            half = x.ndim > 1 and not name.endswith(("bias", "positional_embedding"))
            f.write(struct.pack("<3I", x.ndim, len(name), half))
            f.write(struct.pack(f"<{x.ndim}I", *reversed(x.shape)) + name.encode())
            f.write(x.astype(np.float16 if half else np.float32).tobytes())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("checkpoint", type=pathlib.Path)
    p.add_argument("directory", type=pathlib.Path)
    p.add_argument("--tokens", type=pathlib.Path, required=True, help="Whisper's multilingual.tiktoken")
    p.add_argument("--whisper-cpp", type=pathlib.Path)
    args = p.parse_args()
    v = Vocabulary.from_tiktoken(args.tokens)
    model = Ears(Config(len(v.tokens)))
    model.load_state_dict(torch.load(args.checkpoint)["model"])
    write_directory(model, v, args.directory)
    if args.whisper_cpp:
        write_whisper_cpp(model, v, args.tokens, args.whisper_cpp)


if __name__ == "__main__":
    main()
