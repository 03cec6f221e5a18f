#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the private memory of the services with a model: everything except pages of files.

    private.py [--build DIR] [--docs FILE] MODEL.gguf...

Starts all services, sends a prompt that is longer than a step, and reads the anonymous memory of
the gateway and of the chat service from /proc/PID/smaps_rollup after each answer. The memory of
keys, values and recurrent state is taken from the metrics of the chat service and subtracted; the
rest must be at most 60 MB. Needs root.

Then the program begins a text of 32,768 tokens. While the prompt of the text is read, the program
compares the memory of keys, values and recurrent state with the figures of `sconce info`.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import load  # noqa: E402
import tiers  # noqa: E402
from cold import private_bytes  # noqa: E402
from compare import machine  # noqa: E402
from figures import run  # noqa: E402
from restored import children  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
PRIVATE = 60  # MB
PROMPT = 600  # tokens; a step has at most 512
ANSWERS = 2
TEXT = 32768  # tokens
READ = 1100  # tokens of the prompt; after these, windows are full


def services(suite):
    """Returns the PIDs of the gateway and of the chat service."""
    found = {}
    for pid in children(suite.process.pid):
        name = pathlib.Path("/proc/%d/comm" % pid).read_text().strip()
        if name in ("sconce-gateway", "sconce-chat"):
            found[name] = pid
    return found


def measure_model(options, figures, model):
    suite_options = argparse.Namespace(sconce=options.sconce, model=model, threads=options.threads)
    with tiers.Tiers(suite_options, None, options.context) as suite:
        for i in range(ANSWERS):
            suite.ask(tiers.prompt(i, PROMPT), 16)
        pids = services(suite)
        private = {name: private_bytes(pid) for name, pid in pids.items()}
        state = (suite.metric("sconce_chat_kv_used_bytes") +
                 suite.metric("sconce_chat_kv_idle_bytes"))
    beside = sum(private.values()) - state
    figures.figure("%s: private memory of gateway and chat" % model.stem,
                   1e-6 * sum(private.values()), "MB")
    figures.figure("%s: of this, keys, values and recurrent state" % model.stem, 1e-6 * state, "MB")
    figures.figure("%s: private memory beside them" % model.stem, 1e-6 * beside, "MB", most=PRIVATE)
    return [model.stem, "%.0f MB" % (1e-6 * model.stat().st_size),
            "%.0f MB" % (1e-6 * private["sconce-gateway"]),
            "%.0f MB" % (1e-6 * private["sconce-chat"]), "%.0f MB" % (1e-6 * state),
            "%.0f MB" % (1e-6 * beside)]


def text_model(options, figures, model):
    """Returns the row of the table of texts."""
    said = json.loads(subprocess.run([options.sconce, "info", model, "--json"], check=True,
                                     stdout=subprocess.PIPE).stdout)["memory"]
    suite_options = argparse.Namespace(sconce=options.sconce, model=model, threads=options.threads)
    with tiers.Tiers(suite_options, None, TEXT) as suite:
        suite.ask(tiers.prompt(0, 8), 1)  # loads the model
        with socket.create_connection(suite.address) as s:
            s.sendall(load.completion_request(suite.model, tiers.prompt(1, TEXT - 8), 8))
            most = 0
            before = suite.metric("sconce_chat_step_tokens_sum")
            while suite.metric("sconce_chat_step_tokens_sum") < before + READ:
                most = max(most, suite.metric("sconce_chat_kv_used_bytes"))
                time.sleep(0.02)
    expected = said["texts"][str(TEXT)]
    figures.figure("%s: a text of %d tokens, computed" % (model.stem, TEXT), expected / 2**20, "MiB")
    figures.figure("%s: while its prompt is read" % model.stem, most / 2**20, "MiB")
    return [model.stem, "%.1f KiB" % (said["bytes_per_token"] / 2**10),
            "%.1f MiB" % (said["windows"] / 2**20), "%.1f MiB" % (said["recurrent"] / 2**20),
            "%.1f MiB" % (expected / 2**20), "%.1f MiB" % (most / 2**20)]


def measure(figures):
    p = argparse.ArgumentParser(prog="private.py", description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    p.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build",
                   help="build directory (default: build)")
    p.add_argument("--context", type=int, default=4096, metavar="N")
    p.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--docs", metavar="FILE", help="put the table between the marks of this file")
    options = p.parse_args()
    options.sconce = options.build.resolve() / "services/cli/sconce"
    figures.title("Private memory, context %d" % options.context)
    rows = [measure_model(options, figures, model.resolve()) for model in options.models]
    figures.table("private", ["model", "file", "gateway", "chat", "of this, keys, values and state",
                              "both services beside these"], rows,
                  "%s." % machine(options.threads))
    figures.title("Memory of a text")
    rows = [text_model(options, figures, model.resolve()) for model in options.models]
    figures.table("text-memory", ["model", "for a token", "windows", "recurrent state",
                                  "%d tokens, computed" % TEXT, "while the prompt is read"], rows)
    figures.save(options.docs)


if __name__ == "__main__":
    run("private.py", measure)
