#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes audio/whisper/: a tiny random model of Whisper with a small vocabulary, in the files of
Hugging Face (config.json, generation_config.json, tokenizer.json, model.safetensors in F16) and in
the file of whisper.cpp (ggml.bin). It also writes the results of other programs with this model:

    logits.bin   float32: the logits of two texts about the frames of sound(240000, 9) / 2, which
                 transformers computes in double precision
    heard.json   the texts that OpenAI's whisper returns for sound that sound() below makes

Needs: torch 2.x, transformers 5.x, safetensors, openai-whisper, tiktoken, numpy, and gpt2.tiktoken
of openai/whisper (numba is not needed, because this script replaces it; it only makes the same code
faster).

    python3 make_whisper_text.py gpt2.tiktoken
"""

import base64
import json
import pathlib
import struct
import sys
import types

import numpy as np
import tiktoken
import torch
from safetensors.torch import save_file
from transformers import WhisperConfig, WhisperForConditionalGeneration

numba = types.ModuleType("numba")
numba.jit = lambda **options: lambda function: function
sys.modules["numba"] = numba

import whisper  # noqa: E402
from whisper import tokenizer as whisper_tokenizer  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent / "audio" / "whisper"
N_RANKS, N_LANGUAGES, WIDTH, HEADS, LAYERS, MELS, TEXT_CTX = 400, 5, 32, 4, 2, 80, 64
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
ALIGNMENT = [[0, 1], [1, 0], [1, 3]]


def special_tokens():
    languages = list(whisper_tokenizer.LANGUAGES)[:N_LANGUAGES]
    return ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{name}|>" for name in languages],
            "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
            "<|notimestamps|>", *[f"<|{i * 0.02:.2f}|>" for i in range(1501)]]


def read_ranks(path):
    ranks = {}
    for line in open(path):
        token, rank = line.split()
        if int(rank) < N_RANKS:
            ranks[base64.b64decode(token)] = int(rank)
    return ranks


def sound(n, seed):
    """Makes noise that is louder or softer in each quarter of a second. The C tests make the same
    noise."""
    state, out = seed, np.zeros(n, np.float32)
    for i in range(n):
        if i % 4000 == 0:
            state = (state * 1664525 + 1013904223) % 2**32
            loud = np.float32((state >> 29) / 16)
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = np.float32((state >> 9) / 2**23 - 0.5) * loud
    return out


def fill(model, ranks):
    torch.manual_seed(23)
    with torch.no_grad():
        for key, p in model.named_parameters():
            noise = torch.randn_like(p)
            if "encoder.embed_positions" in key:
                continue
            if "decoder.embed_positions" in key:
                p.copy_(noise * 0.5)
            elif "embed_tokens" in key:
                p.copy_(noise * 0.6)
                p[N_RANKS] *= 1.6  # makes the end of a text likely in some places; words are
                                   # likely, too
                for token, rank in ranks.items():
                    p[rank] *= 1.5 if token.strip().isalpha() and len(token) > 1 else 0.8
            elif p.dim() > 1:
                p.copy_(noise * 1.8 / p[0].numel() ** 0.5)
            elif key.endswith("bias"):
                p.copy_(noise * 0.3)
            else:
                p.copy_(1 + noise * 0.2)
        for p in model.parameters():
            p.copy_(p.half().float())


def bytes_to_unicode():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in printable}
    for i, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + i)
    return names


def merges_of(ranks):
    names = bytes_to_unicode()
    spell = lambda token: "".join(names[b] for b in token)  # noqa: E731
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda x: x[1]):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            best = min(range(len(parts) - 1),
                       key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 30))
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append([spell(parts[0]), spell(parts[1])])
    return {spell(token): rank for token, rank in ranks.items()}, merges


def write_hugging_face(model, ranks):
    vocab, merges = merges_of(ranks)
    added = [{"id": N_RANKS + i, "content": text, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False, "special": True}
             for i, text in enumerate(special_tokens()) if "." not in text]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
               "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None,
               "decoder": byte_level,
               "model": {"type": "BPE", "dropout": None, "unk_token": None,
                         "continuing_subword_prefix": "", "end_of_word_suffix": "",
                         "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                         "vocab": vocab, "merges": merges}},
              open(OUT / "tokenizer.json", "w"), ensure_ascii=False)
    config = model.config.to_dict()
    keep = ["d_model", "encoder_layers", "encoder_attention_heads", "encoder_ffn_dim",
            "decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", "vocab_size",
            "num_mel_bins", "max_source_positions", "max_target_positions", "activation_function",
            "scale_embedding"]
    json.dump({"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper",
               **{key: config[key] for key in keep}}, open(OUT / "config.json", "w"), indent=1)
    json.dump({"is_multilingual": True, "alignment_heads": ALIGNMENT},
              open(OUT / "generation_config.json", "w"), indent=1)
    save_file({k: v.half().contiguous() for k, v in model.state_dict().items()
               if k != "proj_out.weight"}, OUT / "model.safetensors")


OPENAI = [("model.", ""), ("encoder.layers", "encoder.blocks"), ("decoder.layers", "decoder.blocks"),
          ("encoder.layer_norm", "encoder.ln_post"), ("decoder.layer_norm", "decoder.ln"),
          ("self_attn_layer_norm", "attn_ln"), ("encoder_attn_layer_norm", "cross_attn_ln"),
          ("final_layer_norm", "mlp_ln"), ("self_attn", "attn"), ("encoder_attn", "cross_attn"),
          ("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value"), ("out_proj", "out"),
          ("fc1", "mlp.0"), ("fc2", "mlp.2"), ("embed_tokens", "token_embedding"),
          ("embed_positions.weight", "positional_embedding")]


def openai_names(model):
    out = {}
    for key, value in model.state_dict().items():
        for a, b in OPENAI:
            key = key.replace(a, b)
        if key != "proj_out.weight":
            out[key] = value
    return out


def write_ggml(model, ranks):
    s = [N_RANKS + len(special_tokens()), 1500, WIDTH, HEADS, LAYERS, TEXT_CTX, WIDTH, HEADS, LAYERS,
         MELS, 1]
    out = struct.pack("<12i", 0x67676d6c, *s) + struct.pack("<2i", MELS, 201)
    out += np.zeros((MELS, 201), "<f4").tobytes() + struct.pack("<i", len(ranks))
    for token, _ in sorted(ranks.items(), key=lambda x: x[1]):
        out += struct.pack("<i", len(token)) + token
    for name, value in openai_names(model).items():
        data = value.numpy()
        if name.endswith("conv1.bias") or name.endswith("conv2.bias"):
            data = data.reshape(-1, 1)
        half = data.ndim > 1 and "positional" not in name and not name.endswith("bias")
        out += struct.pack("<3i", data.ndim, len(name), half)
        out += struct.pack(f"<{data.ndim}i", *reversed(data.shape)) + name.encode()
        out += data.astype("<f2" if half else "<f4").tobytes()
    (OUT / "ggml.bin").write_bytes(out)


def write_logits(model):
    mel = torch.from_numpy(sound(3000 * MELS, 9) / 2).reshape(1, 3000, MELS).transpose(1, 2)
    texts = [[N_RANKS + 1, N_RANKS + 2, N_RANKS + 8, 17, 300], [N_RANKS + 1, N_RANKS + 4]]
    out = b""
    model.double()
    with torch.no_grad():
        for text in texts:
            logits = model(input_features=mel.double(),
                           decoder_input_ids=torch.tensor([text])).logits[0]
            out += logits.numpy().astype("<f4").tobytes()
    model.float()
    (OUT / "logits.bin").write_bytes(out)


class Small(whisper.model.Whisper):
    is_multilingual = True
    num_languages = N_LANGUAGES


class SmallEnglish(Small):
    """Describes an English-only model, which is what a .bin file with a small vocabulary
    contains."""

    is_multilingual = False


def make_openai(model, ranks, kind):
    n = len(special_tokens())
    small = kind(whisper.model.ModelDimensions(
        n_mels=MELS, n_audio_ctx=1500, n_audio_state=WIDTH, n_audio_head=HEADS,
        n_audio_layer=LAYERS, n_vocab=N_RANKS + n, n_text_ctx=TEXT_CTX, n_text_state=WIDTH,
        n_text_head=HEADS, n_text_layer=LAYERS)).eval()
    small.load_state_dict(openai_names(model))
    mask = torch.zeros(LAYERS, HEADS, dtype=torch.bool)
    for layer, head in ALIGNMENT:
        mask[layer, head] = True
    if kind is Small:
        small.register_buffer("alignment_heads", mask.to_sparse(), persistent=False)
    encoding = tiktoken.Encoding(
        name="small", explicit_n_vocab=N_RANKS + n, pat_str=PATTERN, mergeable_ranks=ranks,
        special_tokens={text: N_RANKS + i for i, text in enumerate(special_tokens())})
    whisper_tokenizer.get_encoding = lambda name="gpt2", num_languages=99: encoding
    return small


def write_heard(model, ranks):
    small, english = make_openai(model, ranks, Small), make_openai(model, ranks, SmallEnglish)
    cases = [
        dict(seconds=8, seed=1, options=dict(language="en")),
        dict(seconds=41, seed=2, options=dict(word_timestamps=True)),
        dict(seconds=65, seed=3, options=dict(language="de", task="translate",
                                              initial_prompt="the words of before")),
        dict(seconds=35, seed=4, options=dict(language="es", word_timestamps=True,
                                              condition_on_previous_text=False)),
        dict(seconds=33, seed=5, options=dict(language="zh", beam_size=3)),
        dict(seconds=31, seed=6, bin=True, options=dict(word_timestamps=True)),
    ]
    for case in cases:
        samples = sound(case["seconds"] * 16000 + 123, case["seed"])
        result = whisper.transcribe(english if case.get("bin") else small, samples, temperature=0, fp16=False, verbose=None,
                                    no_speech_threshold=None, **case["options"])
        case["language"] = result["language"]
        case["segments"] = result["segments"]
    cases.append(dict(suppressed=list(whisper.decoding.DecodingTask(
        small, whisper.DecodingOptions(language="en", fp16=False))._get_suppress_tokens())))
    json.dump(cases, open(OUT / "heard.json", "w"), indent=1)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    ranks = read_ranks(sys.argv[1])
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=N_RANKS + len(special_tokens()), d_model=WIDTH, num_mel_bins=MELS,
        encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=4 * WIDTH,
        decoder_layers=LAYERS, decoder_attention_heads=HEADS, decoder_ffn_dim=4 * WIDTH,
        max_source_positions=1500, max_target_positions=TEXT_CTX, pad_token_id=N_RANKS,
        bos_token_id=N_RANKS, eos_token_id=N_RANKS, decoder_start_token_id=N_RANKS + 1,
        attn_implementation="eager")).eval()
    fill(model, ranks)
    write_hugging_face(model, ranks)
    write_ggml(model, ranks)
    write_logits(model)
    write_heard(model, ranks)


if __name__ == "__main__":
    main()
