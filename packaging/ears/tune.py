#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the second part of the training of sconce-ears: trains only the decoder, on windows with many sentences and
on prompts with the previous text. A separate process generates speech and encodes it with the unchanged encoder.

Needs the same packages as train.py.
Usage: tune.py --tokens multilingual.tiktoken [--minutes 40] [--bf16] --out ears.pt CHECKPOINT|DIRECTORY

The script writes a checkpoint, with the mean of the weights of some hundred steps; export.py converts it to files.
"""
import argparse
import copy
import dataclasses
import math
import multiprocessing
import pathlib
import random
import time

import numpy as np
import torch

import mel
from export import read_directory
from model import Config, Ears
from train import Muon, judge, surprise
from vocabulary import Vocabulary
from windows import IGNORED, Composer, Pool

N_KEPT, N_USES, N_BATCH = 1600, 4, 8
RATES = {"matrices": 6e-3, "others": 1e-3}


@dataclasses.dataclass
class Heard:
    rows: torch.Tensor  # output of the encoder for the window
    placed: list  # as in Window, without the samples
    cut: bool


def hear(given, encoder, vocabulary, seed, dtype):
    """Runs in a process of its own: generates and encodes windows, and puts them into the queue
    @given."""
    torch.set_num_threads(1)
    composer = Composer(vocabulary, Pool(vocabulary, seed * 1000), seed)
    encoder = copy.deepcopy(encoder).to(dtype)
    while True:
        windows = [composer.window(30, whole=True) for _ in range(4)]
        frames = mel.log_mel(torch.stack([torch.from_numpy(w.samples) for w in windows]))
        with torch.no_grad():
            rows = encoder(frames.to(dtype), torch.zeros(len(windows), dtype=torch.long))
        for w, r in zip(windows, rows.half().numpy()):
            given.put((r, [(t, dataclasses.replace(c, samples=None)) for t, c in w.placed], w.cut))


class Lessons:
    """Stores encoded windows, and samples batches from them, with a new text each time."""

    def __init__(self, given, vocabulary, seed, dtype):
        self.given, self.v, self.dtype = given, vocabulary, dtype
        self.rng, self.writer = random.Random(seed), Composer(vocabulary, None, seed)
        self.kept, self.n_heard, self.n_drawn = [], 0, 0

    def listen(self):
        """Receives windows. Waits for windows at the beginning, and when the stored windows have been sampled
        too often."""
        while self.n_heard < 256 or self.n_drawn > N_USES * self.n_heard or not self.given.empty():
            rows, placed, cut = self.given.get()
            heard = Heard(torch.from_numpy(rows).to(self.dtype), placed, cut)
            if len(self.kept) == N_KEPT:
                self.kept[self.rng.randrange(N_KEPT)] = heard
            else:
                self.kept.append(heard)
            self.n_heard += 1
            if self.n_heard > 256 and self.n_drawn <= N_USES * self.n_heard:
                break

    def said_before(self):
        """Returns ids of a text of previous windows: with times, as Whisper's loop over windows gives it, or without
        times, as a client would give it in a prompt."""
        rng, ids = self.rng, []
        for heard in rng.choices(self.kept, k=rng.choice((1, 1, 2, 3))):
            placed = heard.placed[:len(heard.placed) - heard.cut]
            for t, clip in placed[rng.randrange(3):]:
                ids += [self.v.time(t), *sum(clip.words, []), self.v.time(t + clip.spans[-1][1])]
        if rng.random() < 0.25:
            return [i for i in ids if i < self.v.first_time]
        return ids

    def batch(self):
        """Returns rows, ids, targets, and for each target a mask of the rows of its sound."""
        rng, items = self.rng, []
        told = rng.random() < 0.45
        for heard in rng.sample(self.kept, N_BATCH):
            before = self.said_before() if told else []
            if heard.placed:
                plain = not heard.cut and rng.random() < 0.4
                items.append((heard, *self.writer.tokens(heard.placed, heard.cut, 0, plain, before)))
            else:
                items.append((heard, *self.writer.silence(before)))
        self.n_drawn += N_BATCH
        T = max(len(ids) for _, ids, _, _ in items)
        ids = torch.full((N_BATCH, T), self.v.ids["<|endoftext|>"])
        targets, look = torch.full((N_BATCH, T), IGNORED), torch.zeros(N_BATCH, T, 1500)
        for b, (_, i, t, spans) in enumerate(items):
            ids[b, :len(i)], targets[b, :len(t)] = torch.tensor(i), torch.tensor(t)
            for at, span in enumerate(spans):
                if span is not None:
                    look[b, at, max(0, int(span[0])):int(span[1]) + 1] = 1
        return torch.stack([heard.rows for heard, _, _, _ in items]), ids, targets, look


class Learner:
    """Updates the weights of the decoder in 32 bits; the forward and backward passes may use a rounded copy."""

    def __init__(self, decoder, heads, share, dtype):
        """@heads has the heads for alignment, as (layer, head). All learning rates are multiplied by @share."""
        self.heads = heads
        self.decoder, self.work = decoder, copy.deepcopy(decoder).to(dtype)
        self.mean = copy.deepcopy(decoder)
        matrices = [q for q in decoder.blocks.parameters() if q.dim() > 1]
        self.others = [q for q in decoder.parameters() if not any(q is m for m in matrices)]
        self.optimizers = [
            Muon(matrices, lr=share * RATES["matrices"]),
            torch.optim.AdamW(self.others, lr=share * RATES["others"], betas=(0.9, 0.98),
                              weight_decay=0)]
        self.base = [o.param_groups[0]["lr"] for o in self.optimizers]

    def losses(self, batch, first_time):
        rows, ids, targets, look = batch
        picked = targets != IGNORED
        logits, looked = self.work(ids, rows, picked)
        text = surprise(logits.float(), targets[picked], first_time)
        spoken = look.sum(-1) > 0
        seen = [(looked[layer][:, h].float() * look).sum(-1)[spoken]
                for layer, h in self.heads]
        return text, -torch.log(torch.cat(seen) + 1e-4).mean() if spoken.any() else torch.zeros(())

    def step(self, batch, first_time, done, n_done):
        """Trains on @batch. @done: the share of the time that is over. The learning rates rise for 100 steps, and
        then fall like a cosine."""
        pace = min(1, (n_done + 1) / 100) * (1 + math.cos(math.pi * done)) / 2
        for o, lr in zip(self.optimizers, self.base):
            o.param_groups[0]["lr"] = lr * max(pace, 1e-3)
        text, focus = self.losses(batch, first_time)
        self.work.zero_grad()
        (text + 0.3 * focus).backward()
        for q, r in zip(self.decoder.parameters(), self.work.parameters()):
            q.grad = r.grad.float()
        torch.nn.utils.clip_grad_norm_(self.others, 1.0)
        for o in self.optimizers:
            o.step()
        with torch.no_grad():
            for q, r, m in zip(self.decoder.parameters(), self.work.parameters(),
                               self.mean.parameters()):
                r.copy_(q)
                m.lerp_(q, max(1 / 200, 1 / (n_done + 1)))
        return text.item(), focus.item()


def save(model, learner, path):
    """Writes the model with the mean weights of the decoder, and returns it."""
    model = copy.deepcopy(model)
    model.decoder = learner.mean
    torch.save({"model": model.state_dict()}, path)
    return model


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("begin", type=pathlib.Path, help="a checkpoint of train.py, or a directory that export.py wrote")
    p.add_argument("--tokens", type=pathlib.Path, required=True, help="Whisper's multilingual.tiktoken")
    p.add_argument("--minutes", type=float, default=40)
    p.add_argument("--rate", type=float, default=1, help="factor of the learning rates, for continued training")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=2)
    p.add_argument("--bf16", action="store_true", help="for CPUs that multiply bfloat16")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("ears.pt"))
    args = p.parse_args()

    torch.manual_seed(args.seed)
    v = Vocabulary.from_tiktoken(args.tokens)
    model = Ears(Config(len(v.tokens)))
    if args.begin.is_dir():
        read_directory(model, v, args.begin)
    else:
        model.load_state_dict(torch.load(args.begin)["model"])
    dtype = torch.bfloat16 if args.bf16 else torch.float32
    given = multiprocessing.Queue(64)
    multiprocessing.Process(target=hear, args=(given, model.encoder, v, args.seed, dtype),
                            daemon=True).start()
    torch.set_num_threads(args.threads)
    lessons = Lessons(given, v, args.seed, dtype)
    learner = Learner(model.decoder, model.c.alignment_heads, args.rate, dtype)

    start, shown, saved_at, step, mean = time.monotonic(), 0, 0, 0, None
    while (spent := time.monotonic() - start) < 60 * args.minutes:
        lessons.listen()
        losses = np.array(learner.step(lessons.batch(), v.first_time, spent / (60 * args.minutes), step))
        mean = losses if mean is None else mean + 0.02 * (losses - mean)
        step += 1
        if spent - shown > 30 or step in (1, 10):
            shown = spent
            print(f"step {step}, {spent:.0f} s ({time.process_time():.0f} of the CPU), "
                  f"{lessons.n_heard} windows; text {mean[0]:.3f}, focus {mean[1]:.3f}", flush=True)
        if spent - saved_at > 240:
            saved_at = spent
            save(model, learner, args.out)
    model = save(model, learner, args.out)
    print(f"{args.out}: {step} steps, {lessons.n_heard} windows heard", flush=True)
    exam = Composer(v, Pool(v, 900, n=64, n_uses=99, held_out=True), 900)
    judge(model, v, exam, 16, "held-out sentences")


if __name__ == "__main__":
    main()
