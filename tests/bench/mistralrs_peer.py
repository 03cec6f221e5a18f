# SPDX-License-Identifier: Apache-2.0
"""Measures mistral.rs on a GGUF file, as llama-bench does: prints a list with one object.

    mistralrs_peer.py MODEL.gguf PROMPT_TOKENS GENERATED_TOKENS RUNS

The member avg_ts of the object is the tokens per second. With GENERATED_TOKENS > 0 only the
generated tokens count, without the first one, whose time contains the prompt. The environment
variable RAYON_NUM_THREADS limits the threads. Needs the module mistralrs from PyPI.
"""
import importlib.metadata
import json
import os
import sys

import need

mistralrs = need.module("mistralrs", pypi="mistralrs")


def usage(runner, run, n_prompt, n_generate):
    """Runs one request, and returns what mistral.rs says about its time. The prompt begins with its
    number, so that no cache of prompts has it."""
    text = "%d" % run + " a" * max(1, n_prompt - 2)
    request = mistralrs.CompletionRequest(model="default", prompt=text, temperature=0,
                                          max_tokens=max(n_generate, 1))
    return runner.send_completion_request(request).usage


def main():
    path, n_prompt, n_generate, runs = sys.argv[1], *map(int, sys.argv[2:])
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # mistral.rs logs to standard output
    folder, name = os.path.split(os.path.abspath(path))
    runner = mistralrs.Runner(which=mistralrs.Which.GGUF(quantized_model_id=folder,
                                                        quantized_filename=name))
    usage(runner, 10, 8, 2)  # warms up
    speeds = []
    for run in range(20, 20 + runs):
        u = usage(runner, run, n_prompt or 8, n_generate)
        speeds.append((u.completion_tokens - 1) / u.total_completion_time_sec if n_generate
                      else u.prompt_tokens / u.total_prompt_time_sec)
    print(json.dumps([{"avg_ts": sum(speeds) / len(speeds),
                       "build_commit": importlib.metadata.version("mistralrs")}]), file=out)


if __name__ == "__main__":
    main()
