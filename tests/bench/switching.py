#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a switch between two models when the services may hold only one.

    switching.py --sconce PROGRAM [--threads N] [--rounds N] [--memory SIZE] [--max-ms N] MODEL.gguf OTHER.gguf

`sconce serve` runs with `max_models: 1`, so each request to the model that is not loaded unloads the
other one. Both files are in the page cache, and both must lie in one directory. The program asks the
two in turn, and measures the time from the request to the first token; the first request to each
model does not count. With --memory, the limit of the memory for models, the service closes the files
of the model that it unloads if they do not fit beside the other model. The program compares the
times with the time to the first token of the model that is loaded, and exits non-zero when the
median of the switches is above --max-ms.
"""
import argparse
import pathlib
import sys

import load
from figures import median
from programs import Suite

PROMPT = "Once upon a time there was"


def first_token_ms(suite, name, turn):
    asked = load.completion_request(name, "%s %d" % (PROMPT, turn), 2)
    return 1000 * load.one(suite.address, asked).first


def measure(options):
    """Returns (times of switches, times of the loaded model), in ms."""
    switches, stays = [], []
    names = [m.stem for m in options.models]
    more = ["max_models: 1"] + (["memory: " + options.memory] if options.memory else [])
    with Suite(options.sconce, options.models[0], options.threads, more=more) as suite:
        for turn in range(2 * (options.rounds + 1)):
            name = names[turn % 2]
            switches.append(first_token_ms(suite, name, turn))
            stays.append(first_token_ms(suite, name, turn + 1000))
    return switches[2:], stays[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sconce", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--memory")
    parser.add_argument("--max-ms", type=float, default=150)
    parser.add_argument("models", nargs=2, type=pathlib.Path)
    options = parser.parse_args()
    switches, stays = measure(options)
    print("switch to first token: median %.0f ms, %.0f to %.0f ms in %d switches"
          % (median(switches), min(switches), max(switches), len(switches)))
    print("loaded model to first token: median %.0f ms" % median(stays))
    sys.exit(median(switches) > options.max_ms)


if __name__ == "__main__":
    main()
