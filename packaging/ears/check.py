#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Transcribes speech that is not in the training data with sconce-ears in transformers, and counts correct words.

Needs: torch, transformers, numpy, scipy; libespeak-ng 1.51, ffmpeg.
Usage: check.py [--model sconce-ears] [--n 100] [--threads 1] [--at-least 98] [--long 95] [--show 5]

The exit status is 1 if, for any kind of speech, fewer than --at-least percent of the words of sentences are
correct; if fewer than --long percent of the words of recordings are correct; or if silence or noise gives a
text. Otherwise it is 0.
"""
import argparse
import pathlib
import random
import sys

import numpy as np
import torch
from transformers import WhisperForConditionalGeneration, WhisperProcessor

import corpus
import speak
from speak import RATE

HERE = pathlib.Path(__file__).parent


class Listener:
    def __init__(self, path):
        self.processor = WhisperProcessor.from_pretrained(path)
        self.model = WhisperForConditionalGeneration.from_pretrained(path, dtype=torch.float32).eval()

    @torch.no_grad()
    def texts(self, clips, **how):
        """Returns the texts of clips of at most 30 seconds, and the times of their segments."""
        out = []
        for i in range(0, len(clips), 10):
            x = self.processor(clips[i:i + 10], sampling_rate=RATE, return_tensors="pt").input_features
            ids = self.model.generate(x, language="en", task="transcribe", **how)
            out += ids.tolist()
        tokenizer, first = self.processor.tokenizer, self.model.generation_config.no_timestamps_token_id + 1
        return [(tokenizer.decode([t for t in row if t < first], skip_special_tokens=True),
                 [(t - first) / 50 for t in row if t >= first]) for row in out]

    @torch.no_grad()
    def long_text(self, clip, **how):
        x = self.processor(clip, sampling_rate=RATE, return_tensors="pt", truncation=False,
                           padding="longest", return_attention_mask=True)
        ids = self.model.generate(x.input_features, attention_mask=x.attention_mask, language="en",
                                  task="transcribe", return_timestamps=True, **how)
        return self.processor.tokenizer.decode(ids[0], skip_special_tokens=True)

    @torch.no_grad()
    def first_of_start(self, clip):
        """Returns the probability of no speech, and that of English among all languages."""
        x = self.processor(clip, sampling_rate=RATE, return_tensors="pt").input_features
        config = self.model.generation_config
        logits = self.model(x, decoder_input_ids=torch.tensor([[config.decoder_start_token_id]]))
        p = logits.logits[0, 0].softmax(-1)
        languages = p[torch.tensor(list(config.lang_to_id.values()))]
        return p[config.no_timestamps_token_id - 1].item(), (
            p[config.lang_to_id["<|en|>"]] / languages.sum()).item()


class Score:
    def __init__(self, label, show):
        self.label, self.show, self.wrong, self.total = label, show, 0, 0

    def add(self, said, want):
        miss = corpus.distance(corpus.plain(said), corpus.plain(want))
        self.wrong, self.total = self.wrong + miss, self.total + len(corpus.plain(want))
        if miss and self.show > 0:
            self.show -= 1
            print(f"  {want!r}\n  -> {said.strip()!r}")

    def percent(self):
        return 100 * (1 - self.wrong / max(1, self.total))

    def report(self, more=""):
        print(f"{self.label}: {self.percent():.2f} % of {self.total} words{more}", flush=True)


def say(speaker, rng, text, voices=None):
    how = speak.draw_voice(rng)
    how["voice"] = rng.choice(voices) if voices else how["voice"]
    return speak.spoken(speaker, text, **how)[0]


def noisy(x, rng, db):
    return x + np.sqrt((x ** 2).mean()) * 10 ** (-db / 20) * speak.noise(len(x), rng)


def check_sentences(listener, speaker, args):
    rng, noise_rng = random.Random(5), np.random.default_rng(5)
    texts = corpus.sentences(args.n, 77, held_out=True)
    few = texts[:max(10, args.n // 3)]
    clips = [say(speaker, rng, t) for t in texts]
    pause = np.zeros(RATE // 4, np.float32)
    kinds = [
        ("held-out sentences", texts, clips),
        ("other voices", few, [say(speaker, rng, t, speak.STRANGERS) for t in few]),
        ("with noise, 10 dB", few, [noisy(x, noise_rng, 10).astype(np.float32) for x in clips[:len(few)]]),
        ("by telephone", few, [speak.telephone(x) for x in clips[:len(few)]]),
        ("by Opus at 16 kbit/s", few, speak.through_codec(clips[:len(few)], "libopus", ".ogg", "16k")),
    ]
    scores = []
    for label, want, heard in kinds:
        score, off, n_off = Score(label, args.show), 0.0, 0
        padded = [np.concatenate((pause, x, pause)) for x in heard]
        for (said, times), text, x in zip(listener.texts(padded, return_timestamps=True), want, heard):
            score.add(said, text)
            if len(times) == 2:
                off += abs(times[0] - 0.25) + abs(times[1] - 0.25 - len(x) / RATE)
                n_off += 2
        score.report(f", times {off / max(1, n_off):.3f} s off")
        scores.append(score)
    plain = Score("without times", args.show)
    for (said, _), text in zip(listener.texts(clips[:len(few)], return_timestamps=False), few):
        plain.add(said, text)
    plain.report()
    return min(s.percent() for s in [*scores, plain])


def check_long(listener, speaker, args):
    rng = random.Random(9)
    alone, told = Score("recordings of 90 seconds", args.show), Score("recordings with the previous text", args.show)
    for _ in range(3):
        parts, texts, n = [], corpus.sentences(40, rng.randrange(10 ** 6), held_out=True), 0
        for i, text in enumerate(texts):
            parts += [say(speaker, rng, text), np.zeros(int(rng.uniform(0.3, 1.2) * RATE), np.float32)]
            n += len(parts[-1]) + len(parts[-2])
            if n > 90 * RATE:
                break
        clip, text = np.concatenate(parts), " ".join(texts[:i + 1])
        alone.add(listener.long_text(clip), text)
        told.add(listener.long_text(clip, condition_on_prev_tokens=True), text)
    alone.report()
    told.report()
    return min(alone.percent(), told.percent())


def check_nothing(listener, speaker):
    rng = np.random.default_rng(3)
    kinds = {"silence": np.zeros(5 * RATE, np.float32), "30 s of silence": np.zeros(30 * RATE, np.float32)}
    for db in (-20, -35, -50, -70):
        kinds[f"noise at {db} dB"] = (speak.noise(10 * RATE, rng) * 10 ** (db / 20)).astype(np.float32)
    good = True
    for (label, clip), (said, _) in zip(kinds.items(), listener.texts(
            list(kinds.values()), return_timestamps=True)):
        p, _ = listener.first_of_start(clip)
        good = good and not said.strip() and p > 0.6
        print(f"{label}: {said.strip()!r}, no speech {p:.3f}")
    p, english = listener.first_of_start(speak.spoken(speaker, "The code is one two three four.")[0])
    print(f"speech: no speech {p:.3f}, English {english:.3f}")
    return good and p < 0.1 and english > 0.9


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--model", type=pathlib.Path, default=HERE / "sconce-ears")
    p.add_argument("--n", type=int, default=100)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--at-least", type=float, default=98)
    p.add_argument("--long", type=float, default=95)
    p.add_argument("--show", type=int, default=3)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    listener, speaker = Listener(args.model), speak.Speaker()
    share = check_sentences(listener, speaker, args)
    long_share = check_long(listener, speaker, args)
    empty = check_nothing(listener, speaker)
    return 0 if share >= args.at_least and long_share >= args.long and empty else 1


if __name__ == "__main__":
    sys.exit(main())
