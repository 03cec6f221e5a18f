#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the expected results of the unit tests of libinfer/transcribe. OpenAI's whisper computes
them from given logits, from given results of windows, and from attention scores.

audio/rules.bin, audio/longform.bin and audio/words.bin contain little-endian 32-bit words, float32
and float64, in the order in which the tests read them. Needs the packages openai-whisper, tiktoken,
numpy and torch. The package numba, which only makes whisper's code faster, is not needed: this
script replaces it.

    python3 make_whisper.py
"""

import pathlib
import random
import struct
import sys
import types

import numpy as np
import torch

numba = types.ModuleType("numba")
numba.jit = lambda **options: lambda function: function
sys.modules["numba"] = numba

import whisper  # noqa: E402
from whisper import decoding, timing  # noqa: E402
from whisper.tokenizer import get_tokenizer  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent / "audio"


def words(*values):
    return struct.pack(f"<{len(values)}i", *values)


def row(values):
    return words(len(values), *values)


def write_rules():
    eot, no_timestamps, begin, n_vocab, max_first = 40, 44, 45, 70, 10
    tokenizer = types.SimpleNamespace(eot=eot, no_timestamps=no_timestamps, timestamp_begin=begin,
                                      encode=lambda text: [7])
    forbidden = [3, 41, 42, 43]
    filters = [decoding.SuppressBlank(tokenizer, 2), decoding.SuppressTokens(forbidden),
               decoding.ApplyTimestampRules(tokenizer, 2, max_first)]
    rng = random.Random(1)
    said = [[], [45], [50], [50, 1], [50, 1, 52], [50, 1, 52, 52], [50, 1, 52, 54], [1], [1, 2],
            [45, 1, 2, 45], [45, 5, 69], [45, 5, 69, 69], [45, 5, 60, 60, 8]]
    out = row([n_vocab, eot, no_timestamps, begin, max_first]) + row(forbidden) + row([7, eot])
    for i in range(60):
        tokens = said[i % len(said)]
        logits = torch.tensor([[rng.gauss(0, 3) for _ in range(n_vocab)]])
        if i % 3 == 0:  # makes all times together more likely than each word
            logits[:, begin:] += 3
        before = logits.clone()
        for f in filters:
            f.apply(logits, torch.tensor([[0, 1] + tokens]))
        out += row(tokens) + before.numpy().astype("<f4").tobytes()
        out += words(*torch.isinf(logits)[0].int().tolist())
    (OUT / "rules.bin").write_bytes(out)


class Heard:
    """Replaces a model: it returns random texts, and stores its arguments and results."""

    device = torch.device("cpu")
    is_multilingual = False
    num_languages = 99
    dims = types.SimpleNamespace(n_mels=80, n_audio_ctx=1500, n_text_ctx=64)

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.calls = []
        self.begin = get_tokenizer(False).timestamp_begin

    def text(self):
        return [self.rng.choice([220, 262, 290, 318, 257]) for _ in range(self.rng.randint(1, 9))]

    def tokens(self):
        kind, at, out = self.rng.randint(0, 9), 0, []
        if kind == 0:
            return self.text()
        for _ in range(self.rng.randint(0 if kind == 1 else 1, 4)):
            first, at = at, min(at + self.rng.randint(1, 400), 1500)
            out += [self.begin + first, *(self.text() if self.rng.random() < 0.8 else [220]),
                    self.begin + at]
        if kind in (2, 3):
            out += [self.begin + at, *self.text()]
        elif kind in (4, 5) and out:
            out += [self.begin + at]
        elif kind == 6:
            out = [self.begin + at, *self.text()]
        return out

    def decode(self, segment, options):
        r = self.rng
        result = decoding.DecodingResult(
            audio_features=None, language="en", tokens=self.tokens(),
            avg_logprob=r.choice([-0.3, -0.5, -1.0, -1.5]), temperature=options.temperature,
            no_speech_prob=r.choice([0.1, 0.1, 0.6, 0.9]),
            compression_ratio=r.choice([1.0, 1.5, 2.4, 3.0]))
        self.calls.append((list(options.prompt or [])[-(self.dims.n_text_ctx // 2 - 1):], result))
        return result


def write_longform():
    tokenizer = get_tokenizer(False)
    out = b""
    for seed in range(12):
        model = Heard(seed)
        n_frames = [300, 3000, 7013, 15000][seed % 4]
        temperatures = [(0.0,), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)][seed // 2 % 2]
        initial = [None, "the words of before", None][seed % 3]
        carry, keep = seed % 5 != 4, seed % 4 == 1 and seed % 3 == 1
        limits = [(2.4, -1.0, 0.6), (2.4, None, 0.6), (None, -1.0, None)][seed // 4]
        result = whisper.transcribe(
            model, np.zeros(n_frames * 160 + 77, np.float32), temperature=temperatures,
            compression_ratio_threshold=limits[0], logprob_threshold=limits[1],
            no_speech_threshold=limits[2], condition_on_previous_text=carry,
            initial_prompt=initial, carry_initial_prompt=keep, verbose=None)
        prompt = tokenizer.encode(" " + initial) if initial else []
        out += words(tokenizer.timestamp_begin, tokenizer.eot, model.dims.n_text_ctx, n_frames,
                     carry, keep, len(temperatures)) + row(prompt)
        out += struct.pack("<9d", *(limits[i] if limits[i] is not None else np.nan
                                    for i in range(3)),
                           *(temperatures + (0.0,) * 6)[:6])
        out += words(len(model.calls))
        for asked, said in model.calls:
            out += row(asked) + row(said.tokens) + struct.pack(
                "<4d", said.temperature, said.avg_logprob, said.compression_ratio,
                said.no_speech_prob)
        out += words(len(result["segments"]))
        for s in result["segments"]:
            out += words(round(s["start"] * 100), round(s["end"] * 100)) + row(s["tokens"])
    (OUT / "longform.bin").write_bytes(out)


class Attentive(torch.nn.Module):
    """Replaces a model of two layers, whose attention follows a path with noise."""

    class Block(torch.nn.Module):
        class Attention(torch.nn.Module):
            def forward(self, scores):
                return None, scores

        def __init__(self):
            super().__init__()
            self.cross_attn = self.Attention()

    def __init__(self, seed, n_heads=1):
        super().__init__()
        self.decoder = torch.nn.Module()
        self.decoder.blocks = torch.nn.ModuleList([self.Block(), self.Block()])
        self.dims = types.SimpleNamespace(n_text_layer=2)
        self.device = torch.device("cpu")
        self.alignment_heads = torch.ones(2, n_heads).to_sparse()
        self.seed, self.n_heads = seed, n_heads

    def forward(self, mel, tokens):
        n, m, gen = tokens.shape[1], 1500, torch.Generator().manual_seed(self.seed)
        steps = torch.rand(n, generator=gen) ** 4
        path = torch.cumsum(steps, 0) / steps.sum() * self.n_sound
        self.scores = []
        for block in self.decoder.blocks:
            far = (torch.arange(m)[None] - path[:, None]).abs() / 4
            noise = torch.randn(self.n_heads, n, m, generator=gen)
            scores = -far.clamp(max=3) + noise * 0.7
            self.scores.append(scores)
            block.cross_attn(scores[None])
        self.logits = torch.randn(1, n, 50257, generator=gen) * 2
        return self.logits


def write_words():
    texts = [
        ("en", [" Hello, world!", " (This is) a \"test\". It", " goes -- on; here..."], 0.0),
        ("en", [" One"], 10.0), ("ja", ["これは、テスト。", "𠮷野家です"], 31.4),
        ("en", [" naïve 𠮷 café", " x² = “y”?"], 12.34)]
    out = b""
    for seed, (language, parts, last_end) in enumerate(texts):
        tokenizer = get_tokenizer(True, num_languages=99, language=language, task="transcribe")
        model, n_frames, seek = Attentive(seed), [120, 31, 70, 90][seed], 1234 * seed
        model.n_sound = n_frames
        tokens = [tokenizer.encode(part) for part in parts]
        flat = sum(tokens, [])
        segments = [dict(seek=seek, start=seek / 100 + i, end=seek / 100 + i + 1.5, tokens=part)
                    for i, part in enumerate(tokens)]
        given = [(s["start"], s["end"], len(s["tokens"])) for s in segments]
        timing.add_word_timestamps(segments=segments, model=model, tokenizer=tokenizer,
                                   mel=torch.zeros(80, 3000), num_frames=2 * n_frames,
                                   last_speech_timestamp=last_end)
        n_skip = len(tokenizer.sot_sequence)
        scores = torch.cat(model.scores)[:, :, :n_frames]
        p = model.logits[0, n_skip:, :tokenizer.eot].softmax(-1)
        p = p[torch.arange(len(flat)), torch.tensor(flat)]
        raw = [tokenizer.encoding.decode_single_token_bytes(t) for t in flat]
        out += words(language != "ja", scores.shape[0], scores.shape[1], n_frames, n_skip,
                     len(flat), len(segments))
        out += words(*np.cumsum([len(b) for b in raw]).tolist())
        text = b"".join(raw)
        out += text + b"\0" * (-len(text) % 4)
        out += scores.numpy().astype("<f4").tobytes() + p.numpy().astype("<f4").tobytes()
        out += struct.pack("<2d", seek / 100, last_end)
        for (start, end, n), s in zip(given, segments):
            out += words(n, len(s["words"]))
            out += struct.pack("<4d", start, end, s["start"], s["end"])
            for w in s["words"]:
                out += words(len(w["word"].encode()))
                out += struct.pack("<3d", w["start"], w["end"], w["probability"])
    (OUT / "words.bin").write_bytes(out)


if __name__ == "__main__":
    write_rules()
    write_longform()
    write_words()
