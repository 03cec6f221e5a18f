#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/pairs.json: texts and pairs of texts with special tokens, whole and
truncated.

Each entry names a tokenizer of tests/golden/tokenizers, and has a post-processor that replaces the
tokenizer's own. Each case of an entry is a list: the text, the second text or null, the limit of
tokens or 0, the side that is truncated, the ids, and the types. The ids and types are those of the
reference implementation.

Needs: tokenizers 0.23. Usage: make_token_pairs.py
"""
import json
import pathlib
import random

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
TEXTS = ["", "The bracket holds a light.", "It's 1984, and they've 12,345 reasons: don't you'd we'll",
         "Привет, мир! 你好，世界。", "the small fort guards the river and the wall", "naïve café"]


def sequence(name, kind):
    return {"Sequence": {"id": name, "type_id": kind}}


def token(name, kind):
    return {"SpecialToken": {"id": name, "type_id": kind}}


def processors(tok):
    """Yields post-processors, in which ids 0 and 1 stand for [CLS] and [SEP]."""
    a, b = tok.id_to_token(0), tok.id_to_token(1)
    special = {t: {"id": t, "ids": [i], "tokens": [t]} for i, t in enumerate((a, b))}
    yield {"type": "BertProcessing", "sep": [b, 1], "cls": [a, 0]}
    yield {"type": "RobertaProcessing", "sep": [b, 1], "cls": [a, 0], "trim_offsets": True,
           "add_prefix_space": False}
    yield {"type": "TemplateProcessing", "single": [sequence("A", 0), token(b, 0)],
           "pair": [token(a, 1), sequence("A", 1), token(b, 0), token(a, 2), sequence("B", 2)],
           "special_tokens": special}


def encode(tok, text, pair, most, side):
    tok.no_truncation()
    if most:
        tok.enable_truncation(most, direction=side)
    e = tok.encode(text, pair)
    return [text, pair, most, side, e.ids, e.type_ids]


def main():
    rng = random.Random(3)
    out = []
    for name in ("wordpiece", "unigram", "bytes", "llama"):
        root = json.loads((HERE / "tokenizers" / f"{name}.json").read_text())
        for post in processors(Tokenizer.from_str(json.dumps(root))):
            root["post_processor"] = post
            tok = Tokenizer.from_str(json.dumps(root))
            cases = [encode(tok, text, None, 0, "right") for text in TEXTS]
            for _ in range(24):
                text, pair = rng.choice(TEXTS), rng.choice(TEXTS + [None])
                cases.append(encode(tok, text, pair, rng.choice([0, 5, 6, 9, 16, 40]),
                                    rng.choice(["left", "right"])))
            out.append({"tokenizer": name, "post_processor": post, "cases": cases})
    (HERE / "pairs.json").write_text(json.dumps(out, ensure_ascii=False,
                                                separators=(",", ":")) + "\n")
    print(sum(len(e["cases"]) for e in out), "cases")


if __name__ == "__main__":
    main()
