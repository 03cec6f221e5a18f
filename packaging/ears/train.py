#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains sconce-ears on speech that libespeak-ng generates from corpus.txt.

Needs: torch (a CPU build will do), numpy, scipy; libespeak-ng 1.51, ffmpeg.
Usage: train.py --tokens multilingual.tiktoken [--minutes 60] [--threads 1] [--bf16] [--out ears.pt]

The seed is fixed. Runs without --steps differ only in the number of steps that fit into the time. The script writes a
checkpoint, which export.py converts to files.
"""
import argparse
import copy
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

import corpus
import mel
from model import Config, Ears
from vocabulary import Vocabulary
from windows import IGNORED, ROWS, Composer, Pool

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from muon import Muon  # noqa: E402

HERE = pathlib.Path(__file__).parent
# The phases of the training. A phase is (END, [(SECONDS, WINDOWS), …]). It lasts until the share END of the whole
# time is over. Each pair is a kind of batch, with WINDOWS windows of SECONDS seconds. The kinds of a phase take turns.
PHASES = [(0.82, [(6, 16)]), (1.00, [(30, 4), (8, 14)])]


def collate(windows, pad, bf16):
    B, T, R = len(windows), max(len(w.ids) for w in windows), len(windows[0].labels)
    ids, targets = torch.full((B, T), pad), torch.full((B, T), IGNORED)
    look = torch.zeros(B, T, R)
    for b, w in enumerate(windows):
        ids[b, :len(w.ids)] = torch.tensor(w.ids)
        targets[b, :len(w.targets)] = torch.tensor(w.targets)
        for t, span in enumerate(w.spans):
            if span is not None:
                look[b, t, max(0, int(span[0])):int(span[1]) + 1] = 1
    frames = mel.log_mel(torch.stack([torch.from_numpy(w.samples) for w in windows]))
    return (frames.bfloat16() if bf16 else frames, torch.tensor([w.at for w in windows]), ids, targets,
            look, torch.stack([torch.from_numpy(w.labels) for w in windows]))


def surprise(logits, targets, first_time):
    """Returns the loss: the mean of -log p of the targets. For a time, neighboring times count as partly correct."""
    p = logits.log_softmax(-1)
    timed = targets >= first_time
    near = torch.zeros(int(timed.sum()))
    for shift, share in ((-2, 0.05), (-1, 0.2), (0, 0.5), (1, 0.2), (2, 0.05)):
        at = (targets[timed] + shift).clamp(first_time, p.shape[1] - 1)
        near = near + share * p[timed].gather(1, at[:, None])[:, 0]
    plain = p[~timed].gather(1, targets[~timed][:, None])[:, 0]
    return -(near.sum() + plain.sum()) / len(targets)


def losses(model, head, batch, vocabulary):
    frames, at, ids, targets, look, labels = batch
    encoded = model.encoder(frames, at)
    said = F.cross_entropy(head(encoded).flatten(0, 1).float(), labels.flatten(),
                           ignore_index=IGNORED)
    picked = targets != IGNORED
    logits, looked = model.decoder(ids, encoded, picked)
    text = surprise(logits.float(), targets[picked], vocabulary.first_time)
    spoken = look.sum(-1) > 0
    seen = [(looked[layer][:, h].float() * look).sum(-1)[spoken]
            for layer, h in model.c.alignment_heads]
    focus = -torch.log(torch.cat(seen) + 1e-4).mean() if spoken.any() else torch.zeros(())
    return text, said, focus


@torch.no_grad()
def listen(model, vocabulary, windows, n_max=150):
    """Decodes greedily, without Whisper's rules for tokens. Returns a list of ids for each window."""
    v = vocabulary
    frames = mel.log_mel(torch.stack([torch.from_numpy(w.samples) for w in windows]))
    encoded = model.encoder(frames, torch.zeros(len(windows), dtype=torch.long))
    start = [v.ids["<|startoftranscript|>"], v.ids["<|en|>"], v.ids["<|transcribe|>"]]
    ids = torch.tensor([start] * len(windows))
    done = torch.zeros(len(windows), dtype=torch.bool)
    while not done.all() and ids.shape[1] < n_max:
        best = model.decoder(ids, encoded)[0][:, -1].argmax(-1)
        ids = torch.cat((ids, best[:, None]), 1)
        done |= best == v.ids["<|endoftext|>"]
    out = []
    for row in ids[:, 3:].tolist():
        row = row + [v.ids["<|endoftext|>"]]
        out.append(row[:row.index(v.ids["<|endoftext|>"])])
    return out


def judge(model, vocabulary, composer, n, label, show=3):
    windows = [composer.window(30, whole=True) for _ in range(n)]
    wrong = total = off = timed = 0
    for w, ids in zip(windows, listen(model, vocabulary, windows)):
        said = vocabulary.decode(ids)
        want = " ".join(c.text for _, c in (w.placed[:-1] if w.cut else w.placed))
        miss = corpus.distance(corpus.plain(said), corpus.plain(want))
        wrong, total = wrong + miss, total + len(corpus.plain(want))
        times = [[i - vocabulary.first_time for i in s if i >= vocabulary.first_time]
                 for s in (ids, w.targets)]
        if len(times[0]) == len(times[1]):
            off += sum(abs(a - b) for a, b in zip(*times)) / ROWS
            timed += len(times[0])
        if miss and show > 0:
            show -= 1
            print(f"  {want!r}\n  -> {said!r}", flush=True)
    print(f"{label}: {100 * (1 - wrong / max(1, total)):.2f} % of {total} words, times {off / max(1, timed):.3f} s off "
          f"({timed})", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--tokens", type=pathlib.Path, required=True, help="Whisper's multilingual.tiktoken")
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--steps", type=int, default=0, help="number of steps, however long they take")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--bf16", action="store_true", help="for CPUs that multiply bfloat16")
    p.add_argument("--from", dest="begin", type=pathlib.Path, help="continue with this checkpoint")
    p.add_argument("--part", default="", help="load only this part of the checkpoint: decoder or encoder")
    p.add_argument("--skip", type=float, default=0, help="share of the schedule to skip")
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("ears.pt"))
    args = p.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    vocabulary = Vocabulary.from_tiktoken(args.tokens)
    pool = Pool(vocabulary, args.seed * 1000)
    composer = Composer(vocabulary, pool, args.seed)
    exam = Composer(vocabulary, Pool(vocabulary, 900, n=64, n_uses=99, held_out=True), 900)
    model = Ears(Config(len(vocabulary.tokens)))
    head = torch.nn.Linear(model.c.width, pool.n_labels)
    if args.begin:
        saved = torch.load(args.begin)
        kept = {k: x for k, x in saved["model"].items() if k.startswith(args.part)}
        model.load_state_dict(kept, strict=not args.part)
        if not args.part:
            head.load_state_dict(saved["head"])
    # The optimizer updates weights in 32 bits; the forward and backward passes may use a rounded copy.
    both = torch.nn.ModuleList([model, head])
    work = copy.deepcopy(both).to(torch.bfloat16 if args.bf16 else torch.float32)
    blocks = [*model.encoder.blocks.parameters(), *model.decoder.blocks.parameters()]
    matrices = [q for q in blocks if q.dim() > 1]
    others = [q for q in both.parameters() if not any(q is m for m in matrices)]
    optimizers = [Muon(matrices, lr=0.02),
                  torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0)]
    base = [o.param_groups[0]["lr"] for o in optimizers]
    print(f"{sum(q.numel() for q in model.parameters()):,} parameters, {model.c.n_vocab} tokens",
          flush=True)

    start, cpu = time.monotonic(), time.process_time()
    shown = judged = saved_at = step = heard = 0
    while True:
        spent = time.monotonic() - start
        done = step / args.steps if args.steps else spent / (60 * args.minutes)
        if done >= 1:
            break
        whole = args.skip + done * (1 - args.skip)
        sizes = next(s for until, s in PHASES if whole < until)
        seconds, n = sizes[step % len(sizes)]
        pace = min(1, (step + 1) / 30) * min(1, (1 - whole) / 0.5)
        for o, lr in zip(optimizers, base):
            o.param_groups[0]["lr"] = max(lr * pace, lr * 1e-3)
        composer.hard = min(1, max(0, (whole - 0.5) / 0.4))
        batch = collate([composer.window(seconds, seconds == 30) for _ in range(n)],
                        vocabulary.ids["<|endoftext|>"], args.bf16)
        text, said, focus = losses(*work, batch, vocabulary)
        work.zero_grad()
        (text + said + 0.3 * focus).backward()
        for q, r in zip(both.parameters(), work.parameters()):
            q.grad = r.grad.float()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for o in optimizers:
            o.step()
        with torch.no_grad():
            for q, r in zip(both.parameters(), work.parameters()):
                r.copy_(q)
        step += 1
        heard += n * seconds
        if spent - shown > 30 or step in (1, 10, 50):
            shown = spent
            print(f"step {step}, {spent:.0f} s ({time.process_time() - cpu:.0f} of the CPU), "
                  f"{heard / 3600:.1f} hours heard; text {text.item():.3f}, words {said.item():.3f}, "
                  f"focus {focus.item():.3f}", flush=True)
        if spent - saved_at > 240:
            saved_at = spent
            torch.save({"model": model.state_dict(), "head": head.state_dict()}, args.out)
        if spent - judged > 900:
            judged = spent
            judge(model, vocabulary, exam, 3, "held-out sentences", show=1)

    torch.save({"model": model.state_dict(), "head": head.state_dict()}, args.out)
    print(f"{args.out}: {step} steps, {heard / 3600:.1f} hours heard")
    judge(model, vocabulary, exam, 16, "held-out sentences")


if __name__ == "__main__":
    main()
