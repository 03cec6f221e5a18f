#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the mean of the weights of several sconce-guide.gguf files, which have the same tokenizer.

Usage: mean.py [--version 0.1.0] [--out sconce-guide.gguf] FILE...

After a change of a few answers, the mean of short runs of train.py with different seeds knows the new answers,
and forgets fewer of the old ones than any of these runs.
"""
import argparse
import pathlib

import torch

import corpus
from model import q8_0, read_gguf, write_gguf
from train import HERE, file_tokenizer


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    p.add_argument("--version", default="0.1.0")
    p.add_argument("--out", type=pathlib.Path, default=HERE / "sconce-guide.gguf")
    args = p.parse_args()

    read = [read_gguf(path) for path in args.files]
    model, tokens, merges = read[0]
    assert all(r[1:] == (tokens, merges) for r in read), "the files have different tokenizers"
    rows = [r[0].state_dict() for r in read]
    model.load_state_dict({name: torch.stack([row[name] for row in rows]).mean(0) for name in rows[0]})
    q8_0(model)
    write_gguf(model, file_tokenizer(tokens, merges), args.out, args.version)
    corpus.write_trained(corpus.load(), args.out, args.out.with_name("trained.json"))


if __name__ == "__main__":
    main()
