#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the questions of questions.txt to a running sconce, and checks each answer.

A correct answer contains the text that the corpus demands (`K:`, see corpus.py).

Usage: check.py [--url http://127.0.0.1:7266] [--model sconce-guide] [--n 0] [--at-least 90]
                [--temperature 0] [--key API_KEY]

Exit status: 0, 1 if fewer than --at-least percent are correct, 2 if the server does not answer.
"""
import argparse
import json
import random
import sys
import urllib.error
import urllib.request

import corpus


def answer(args, question):
    body = {"model": args.model, "temperature": args.temperature, "max_tokens": 256,
            "messages": [{"role": "user", "content": question}]}
    headers = {"Content-Type": "application/json"}
    if args.key:
        headers["Authorization"] = f"Bearer {args.key}"
    request = urllib.request.Request(args.url.rstrip("/") + "/v1/chat/completions",
                                     json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--url", default="http://127.0.0.1:7266")
    p.add_argument("--model", default="sconce-guide")
    p.add_argument("--n", type=int, default=0, help="number of questions, drawn at random; 0: all")
    p.add_argument("--at-least", type=float, default=90)
    p.add_argument("--temperature", type=float, default=0)
    p.add_argument("--key", default="")
    args = p.parse_args()
    facts = corpus.load()
    cases = corpus.free_questions(facts)
    if args.n:
        cases = random.Random(3).sample(cases, min(args.n, len(cases)))
    right = 0
    for name, question in cases:
        try:
            said = answer(args, question)
        except (urllib.error.URLError, KeyError, ValueError) as e:
            print(f"{args.url}: {e}", file=sys.stderr)
            return 2
        if facts[name].key in said:
            right += 1
        else:
            print(f"{name}: {question!r} -> {said!r}")
    share = 100 * right / len(cases)
    print(f"{right} of {len(cases)} correct ({share:.1f} %)")
    return 0 if share >= args.at_least else 1


if __name__ == "__main__":
    sys.exit(main())
