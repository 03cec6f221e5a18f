# SPDX-License-Identifier: Apache-2.0
"""Makes the training data of sconce-ears: windows of sentences with pauses, noise and other distortions, and the
tokens that Whisper would write for them."""
import dataclasses
import random

import numpy as np

import corpus
import speak
from speak import RATE

ROWS = 50  # rows of the encoder per second
IGNORED = -100
SPEAKER = speak.Speaker()


@dataclasses.dataclass
class Clip:
    text: str
    samples: np.ndarray
    spans: list  # for each word: the seconds of its beginning and end
    words: list  # for each word: its token ids
    labels: list  # for each word: its number among all words of the grammar, from 1


@dataclasses.dataclass
class Window:
    samples: np.ndarray
    at: int  # the row of the encoder at which the window begins
    ids: list
    targets: list  # for each id: the id after it, or IGNORED
    spans: list  # for each target: the first and the last row of its sound, or None
    labels: np.ndarray  # for each row: the number of the spoken word, 0 for none, or IGNORED
    placed: list  # (second, Clip) pairs
    cut: bool  # whether the end of the window cuts the last clip


class Pool:
    """Holds spoken sentences. When each sentence has been used about @n_uses times, all of them are replaced."""

    def __init__(self, vocabulary, seed, n=384, n_uses=4, held_out=False, voices=None, codecs=0.25):
        self.vocabulary, self.rng, self.speaker = vocabulary, random.Random(seed), SPEAKER
        self.n, self.n_uses, self.held_out, self.voices = n, n_uses, held_out, voices
        self.codecs, self.seed, self.left, self.clips = codecs, seed, 0, []
        self.label = {w: i + 1 for i, w in enumerate(corpus.Grammar().words())}
        self.n_labels = len(self.label) + 1

    def clip(self, text):
        how = speak.draw_voice(self.rng)
        if self.voices:
            how["voice"] = self.rng.choice(self.voices)
        x, spans = speak.spoken(self.speaker, text, **how)
        words = text.split(" ")
        return Clip(text, x, spans, [self.vocabulary.encode(" " + w) for w in words],
                    [self.label[corpus.plain(w)[0]] for w in words])

    def refill(self):
        self.seed += 1
        self.clips = [self.clip(t) for t in corpus.sentences(self.n, self.seed, self.held_out)]
        for codec, suffix, rates in (("libopus", ".ogg", ("12k", "16k", "24k")),
                                     ("libmp3lame", ".mp3", ("24k", "32k", "48k"))):
            some = self.rng.sample(self.clips, int(self.n * self.codecs / 2))
            if some:
                coded = speak.through_codec([c.samples for c in some], codec, suffix,
                                            self.rng.choice(rates))
                for clip, x in zip(some, coded):
                    clip.samples = x
        self.left = self.n * self.n_uses

    def draw(self):
        if self.left == 0:
            self.refill()
        self.left -= 1
        return self.rng.choice(self.clips)


class Composer:
    def __init__(self, vocabulary, pool, seed):
        self.v, self.pool = vocabulary, pool
        self.rng, self.noise_rng = random.Random(seed), np.random.default_rng(seed)
        self.hard = 1.0  # factor of the probabilities of noise and of telephone quality

    def gap(self, first):
        rng = self.rng
        if first:
            return rng.choice((rng.uniform(0, 0.2), rng.uniform(0, 0.5), rng.uniform(0, 1.5),
                               rng.uniform(0, 5)))
        return rng.choice((rng.uniform(0.05, 0.4), rng.uniform(0.2, 0.9), rng.uniform(0.5, 2.5)))

    def place(self, seconds, n_max, may_cut):
        """Returns (second, clip) pairs, and whether the end of the window cuts the last clip."""
        placed, t = [], self.gap(True)
        for _ in range(n_max):
            clip = self.pool.draw()
            end = t + len(clip.samples) / RATE
            if end > seconds - 0.02:
                if placed and may_cut and t < seconds - 0.3:
                    return placed + [(t, clip)], True
                if placed:
                    break
                t = min(t, 0.3)
                if t + len(clip.samples) / RATE > seconds - 0.02:
                    continue
                end = t + len(clip.samples) / RATE
            placed.append((t, clip))
            t = end + self.gap(False)
        return placed, False

    def window(self, seconds, whole=False):
        """Returns a window of @seconds for training. @whole, only with 30 seconds: the window is like those of Whisper,
        so its end may cut a sentence, and it may have a previous text. Shorter windows take less time."""
        rng, n = self.rng, int(seconds * RATE)
        if rng.random() < 0.06:
            return self.nothing(n, seconds)
        n_max = 99 if not whole or rng.random() < 0.5 else rng.randint(1, 4)
        placed, cut = self.place(seconds, n_max, whole)
        while not placed:
            placed, cut = self.place(seconds, n_max, whole)
        x, labels = np.zeros(n, np.float32), np.zeros(int(seconds * ROWS), np.int64)
        for t, clip in placed:
            a, gain = round(t * RATE), 10 ** (rng.uniform(-6, 0) / 20)
            part = clip.samples[:n - a]
            x[a:a + len(part)] += gain * part
            for (begin, end), label in zip(clip.spans, clip.labels):
                labels[round((t + begin) * ROWS):round((t + end) * ROWS)] = label
        if rng.random() < 0.25:  # the end of a word whose text is in the previous window
            tail = self.pool.draw().samples[-rng.randint(200, 1600):]
            if placed[0][0] * RATE > len(tail):
                x[:len(tail)] += 0.5 * tail
                labels[:len(tail) * ROWS // RATE] = IGNORED
        end = n
        if whole and not cut:
            last, clip = placed[-1]
            end = min(n, round((last + rng.choice((0, 0.1, 0.5, 2, 30))) * RATE) + len(clip.samples))
        at = 0 if whole or rng.random() < 0.5 else rng.randrange(1500 - len(labels))
        x[:end] = self.hardship(x[:end])
        before = []
        if whole and rng.random() < 0.2:
            clips = rng.sample(self.pool.clips, rng.choice((1, 1, 2, 4, 9, 16)))
            before = self.v.encode(" " + " ".join(c.text for c in clips))
        return Window(x, at, *self.tokens(placed, cut, at, not cut and rng.random() < 0.25, before),
                      labels, placed, cut)

    def hardship(self, x):
        rng = self.rng
        if rng.random() < 0.15 * self.hard:
            x = speak.telephone(x)
        if rng.random() < 0.5 * self.hard:
            power = np.sqrt((x ** 2).mean()) + 1e-6
            x = x + power * 10 ** (-rng.uniform(6, 35) / 20) * speak.noise(len(x), self.noise_rng)
        return np.clip(x * 10 ** (rng.uniform(-25, 2) / 20), -1, 1).astype(np.float32)

    def nothing(self, n, seconds):
        x, rng = np.zeros(n, np.float32), self.rng
        if rng.random() < 0.75:
            k = rng.choice((n, n, rng.randint(n // 20, n)))
            x[:k] = speak.noise(k, self.noise_rng) * 10 ** (-rng.uniform(15, 80) / 20)
            if rng.random() < 0.3:
                t = np.arange(k) / RATE
                x[:k] += 0.1 * np.sin(2 * np.pi * rng.uniform(60, 3000) * t) * (
                    np.sin(2 * np.pi * rng.uniform(0.1, 3) * t) > 0)
        return Window(np.clip(x, -1, 1), 0, *self.silence([]), np.zeros(int(seconds * ROWS), np.int64),
                      [], False)

    def silence(self, before):
        """Does what tokens() does, but for a window without speech."""
        v, rng = self.v, self.rng
        before = self.prompt(before)
        start = [v.ids["<|startoftranscript|>"], v.ids["<|en|>"], v.ids["<|transcribe|>"]]
        end, ignored = v.ids["<|endoftext|>"], [IGNORED] * len(before)
        if rng.random() < 0.15:
            return (before + [start[0], v.time(0)], ignored + [v.ids["<|nospeech|>"], end],
                    [None] * (len(before) + 2))
        if rng.random() < 0.3:
            ids, targets = [v.ids["<|notimestamps|>"]], [end]
        else:
            ids, targets = [v.time(0)], [end]
        first = IGNORED if ids[0] != v.time(0) else v.time(0)
        targets = [v.ids["<|nospeech|>"], IGNORED, first] + targets
        return before + start + ids, ignored + targets, [None] * (len(before) + 4)

    def prompt(self, before):
        """Returns the ids of a prompt with the previous text @before, limited to half of the context."""
        return [self.v.ids["<|startofprev|>"]] + before[-223:] if before else []

    def tokens(self, placed, cut, at, plain, before):
        """Returns the ids, targets and spans of a window that begins at row @at. If @plain is true, the ids contain no
        times. @before has the ids of the previous text."""
        v, rng, seq, spans = self.v, self.rng, [], []
        for i, (t, clip) in enumerate(placed):
            row = lambda s: (t + s) * ROWS
            end = row(clip.spans[-1][1])
            if not plain:
                begin = row(0) if at or i else min(row(0), ROWS)
                seq.append(v.first_time + min(1500, round(begin) + at))
                spans.append((row(0), row(0) + 8))
            if cut and i == len(placed) - 1:
                break
            for (a, b), ids in zip(clip.spans, clip.words):
                seq += ids
                spans += [(row(a), row(b))] * len(ids)
            if not plain:
                seq.append(v.first_time + min(1500, round(end) + at))
                spans.append((end - 8, end))
        task = "<|translate|>" if rng.random() < 0.05 else "<|transcribe|>"
        before = self.prompt(before)
        bare = rng.random() < 0.12  # no tokens of language and task, as for English-only models
        start = before + [v.ids["<|startoftranscript|>"]]
        start += [] if bare else [v.ids["<|en|>"], v.ids[task]]
        start += [v.ids["<|notimestamps|>"]] if plain else []
        ids = (start + seq)[:448]
        targets = [IGNORED] * (len(start) - 1) + seq + [v.ids["<|endoftext|>"]]
        if not bare:
            targets[len(before)] = v.ids["<|en|>"]
        spans = [None] * (len(start) - 1) + spans + [None]
        return ids, targets[:len(ids)], spans[:len(ids)]
