#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains sconce-guide on corpus/ and writes sconce-guide.gguf.

Needs: torch (a CPU build will do), tokenizers, gguf, numpy.
Usage: train.py [--minutes 20] [--threads 1] [--from sconce-guide.gguf] [--out sconce-guide.gguf]

The seed is fixed. Runs without --steps differ only in the number of steps that fit into the time. With --from, training
starts with the tokenizer and the weights of a file. To change a few answers, this takes a third of the time. After
training, the held-out patterns and the questions of questions.txt are tested: an answer is correct if greedy decoding
with the rounded weights gives exactly the answer of the fact.
"""
import argparse
import copy
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import corpus
from model import END, PAD, TURN, Config, Guide, q8_0, read_gguf, write_gguf

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from muon import Muon  # noqa: E402

HERE = pathlib.Path(__file__).parent
# Logits in the file are three times as large as in training. Therefore sampling at the temperature 1,
# the API's default, has the effect of a temperature of 1/3, and answers vary little. This is intended,
# because each question has one correct answer. Greedy decoding does not change.
SHARPER = 3.0
# Qwen2's pre-tokenizer, which is called "qwen2" in GGUF.
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def cut_as_qwen2(tok):
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    return tok


def file_tokenizer(tokens, merges):
    """Makes the tokenizer of an existing file from its tokens and merges."""
    vocab = {t: i for i, t in enumerate(tokens)}
    tok = cut_as_qwen2(Tokenizer(models.BPE(vocab, [tuple(m.split(" ")) for m in merges])))
    tok.add_special_tokens([END, TURN, PAD])
    return tok


def train_tokenizer(facts, n_vocab):
    """Trains byte-level BPE on the answers and on questions in the styles in which people write."""
    sampler = corpus.Sampler(facts, 11)
    texts = [f.answer for f in facts.values()] * 20
    texts += [sampler.question(f) for f in facts.values() for _ in range(40)]
    texts += [f"{role}\n" for role in ("system", "user", "assistant")] * 200
    tok = cut_as_qwen2(Tokenizer(models.BPE()))
    tok.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=n_vocab, special_tokens=[END, TURN, PAD], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())))
    return tok


class Encoder:
    """Converts conversations to token ids, with the weight of each id in the loss."""

    def __init__(self, tok, weight_ask=0.1):
        self.tok, self.weight_ask, self.cache = tok, weight_ask, {}
        self.turn, self.end = tok.token_to_id(TURN), tok.token_to_id(END)
        self.newline = tok.encode("\n", add_special_tokens=False).ids

    def plain(self, text):
        if text not in self.cache:
            if len(self.cache) > 100000:
                self.cache.clear()
            self.cache[text] = self.tok.encode(text, add_special_tokens=False).ids
        return self.cache[text]

    def prompt(self, messages):
        ids = []
        for role, text in messages:
            ids += [self.turn] + self.plain(f"{role}\n{text}") + [self.end] + self.newline
        return ids + [self.turn] + self.plain("assistant\n")

    def conversation(self, messages, cut=None):
        """Returns ids and weights. @cut: the number of tokens of the last answer to keep; the first tokens
        determine the answer, and short samples leave time for other questions."""
        ids, weights = [], []
        for i, (role, text) in enumerate(messages):
            head = [self.turn] + self.plain(f"{role}\n")
            body = (self.plain(text) if role == "assistant" else
                    self.plain(f"{role}\n{text}")[len(head) - 1:])
            answer = role == "assistant"
            if cut and i == len(messages) - 1 and cut < len(body):
                return ids + head + body[:cut], weights + [0.0] * len(head) + [1.0] * cut
            ids += head + body + [self.end] + self.newline
            weights += ([0.0] * len(head) + [1.0 if answer else self.weight_ask] * len(body) +
                        [1.0 if answer else 0.0] + [0.0] * len(self.newline))
        return ids, weights


def batches(encoder, facts, seed, n_tokens, n_ctx, pool=2048, known=None):
    """Yields batches of conversations of similar length, without end."""
    sampler, pad = corpus.Sampler(facts, seed, known), encoder.tok.token_to_id(PAD)
    while True:
        drawn = []
        for _ in range(pool):
            kind = sampler.rng.choices(("first words", "short", "whole"), (60, 34, 6))[0]
            messages = sampler.conversation(
                sampler.rng.choice((1, 1, 1, 1, 1, 2)) if kind != "whole" else None)
            cut = {"first words": (2, 7), "short": (7, 18), "whole": (0, 1)}[kind]
            drawn.append(encoder.conversation(messages, cut=sampler.rng.randrange(*cut)))
        drawn.sort(key=lambda c: len(c[0]))
        packed, batch = [], []
        for c in drawn:
            if batch and len(c[0]) * (len(batch) + 1) > n_tokens:
                packed.append(batch)
                batch = []
            batch.append((c[0][:n_ctx], c[1][:n_ctx]))
        sampler.rng.shuffle(packed)
        for batch in packed:
            T = max(len(ids) for ids, _ in batch)
            ids = torch.full((len(batch), T), pad)
            weights = torch.zeros(len(batch), T)
            for i, (a, w) in enumerate(batch):
                ids[i, :len(a)], weights[i, :len(w)] = torch.tensor(a), torch.tensor(w)
            yield ids, weights


@torch.no_grad()
def ask(model, encoder, questions, n_max=200):
    """Generates greedy answers to a batch of questions. It uses no KV cache, which is slow but needs little code."""
    out = []
    for messages in questions:
        ids = encoder.prompt(messages)
        start = len(ids)
        while len(ids) < start + n_max:
            best = int(model(torch.tensor([ids]))[0, -1].argmax())
            if best == encoder.end:
                break
            ids.append(best)
        out.append(encoder.tok.decode(ids[start:]))
    return out


@torch.no_grad()
def exact(model, encoder, messages, answer):
    """Returns whether greedy decoding gives @answer: whether each of its tokens is the most likely one."""
    prompt, rest = encoder.prompt(messages), encoder.plain(answer) + [encoder.end]
    best = model(torch.tensor([prompt + rest]))[0, len(prompt) - 1:-1].argmax(-1)
    return best.tolist() == rest


def report(model, encoder, facts, cases, label, show=True):
    wrong = [(n, m) for n, m in cases if not exact(model, encoder, m, facts[n].answer)]
    print(f"{label}: {len(cases) - len(wrong)} of {len(cases)} exact "
          f"({100 * (1 - len(wrong) / len(cases)):.1f} %)", flush=True)
    for name, messages in wrong if show else []:
        said = ask(model, encoder, [messages])[0]
        same = facts[name].key in said
        print(f"  {'~' if same else '!'} {name}: {messages[-1][1]!r} -> {said[:110]!r}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--minutes", type=float, default=20)
    p.add_argument("--steps", type=int, default=0, help="number of steps, however long they take")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--from", dest="begin", type=pathlib.Path, metavar="FILE",
                   help="continue with the weights of this file")
    p.add_argument("--lr", type=float, default=1.0, help="factor of the usual learning rates")
    p.add_argument("--batch", type=int, default=3072, help="tokens of a batch")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--version", default="0.1.0")
    p.add_argument("--out", type=pathlib.Path, default=HERE / "sconce-guide.gguf")
    p.add_argument("--all", action="store_true", help="train on the held-out patterns too")
    p.add_argument("--bf16", action="store_true", help="for CPUs that multiply bfloat16")
    args = p.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    facts = corpus.load()
    if wrong := corpus.untrue(facts):
        sys.exit("\n".join(wrong))
    held = [(n, [("user", q)]) for n, q in corpus.held_out(facts)]
    if args.all:
        for fact in facts.values():
            fact.train, fact.held = fact.train + fact.held, []
    known = None
    if args.begin:
        known = corpus.read_trained(args.begin.with_name("trained.json"))["answers"]
        model, tokens, merges = read_gguf(args.begin)
        tok = file_tokenizer(tokens, merges)
        with torch.no_grad():
            model.output_norm.weight.div_(SHARPER)
    else:
        tok = train_tokenizer(facts, 1536)
        model = Guide(Config(n_vocab=tok.get_vocab_size(), n_layers=args.layers))
    encoder = Encoder(tok)
    # The optimizer updates weights in 32 bits; the forward and backward passes may use a rounded copy.
    work = copy.deepcopy(model).to(torch.bfloat16 if args.bf16 else torch.float32)
    matrices = [p for p in model.blk.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [Muon(matrices, lr=0.02 * args.lr),
                  torch.optim.AdamW(others, lr=3e-3 * args.lr, betas=(0.9, 0.98), weight_decay=0.0)]
    base = [o.param_groups[0]["lr"] for o in optimizers]
    print(f"{len(facts)} facts, {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)

    start = time.monotonic()
    n_seen, shown, step = 0, 0.0, 0
    for ids, weights in batches(encoder, facts, args.seed, args.batch, 1280, known=known):
        spent = time.monotonic() - start
        done = step / args.steps if args.steps else spent / (60 * args.minutes)
        if done >= 1:
            break
        pace = min(1, (step + 1) / 60) * min(1, (1 - done) / 0.6)
        for o, lr in zip(optimizers, base):
            o.param_groups[0]["lr"] = max(lr * pace, lr * 1e-3)
        picked = weights[:, 1:] > 0
        logits = work(ids[:, :-1], picked)
        nll = F.cross_entropy(logits.float(), ids[:, 1:][picked], reduction="none")
        w = weights[:, 1:][picked]
        loss = (nll * w).sum() / w.sum()
        work.zero_grad()
        loss.backward()
        for p, q in zip(model.parameters(), work.parameters()):
            p.grad = q.grad.float()
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        for o in optimizers:
            o.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), work.parameters()):
                q.copy_(p)
        n_seen += ids.numel()
        step += 1
        if spent - shown > 20 or step in (1, 10):
            shown = spent
            print(f"step {step}, {spent:.0f} s, {n_seen / max(spent, 1e-3):.0f} tokens/s, "
                  f"loss {loss.item():.4f}", flush=True)

    model.eval()
    with torch.no_grad():
        model.output_norm.weight.mul_(SHARPER)
    q8_0(model)
    write_gguf(model, tok, args.out, args.version)
    corpus.write_trained(facts, args.out, args.out.with_name("trained.json"))
    print(f"{args.out}: {args.out.stat().st_size} bytes after {step} steps, {n_seen:,} tokens")
    report(model, encoder, facts, held, "held-out patterns" + (" (trained on)" if args.all else ""))
    free = [(n, [("user", q)]) for n, q in corpus.free_questions(facts)]
    report(model, encoder, facts, free, "free questions")


if __name__ == "__main__":
    main()
