# SPDX-License-Identifier: Apache-2.0
"""Measures cold starts: the time from a connection to the first token when neither the gateway nor
the chat service runs, and the private memory of both services at the first token.

The figures of cold.py are compared with those of llama-server, which must start and load the model
before it can take a request."""
import time

import cold
import load
from figures import median
from programs import LlamaServer, wait_ready

FIRST_TOKEN = {"stories260K": 60, "0.6B": 200}  # ms
PRIVATE = 60  # MB
CONTEXT = 4096


def llama_start(options, model):
    """Returns (seconds, private bytes) of one start of llama-server."""
    with options.lock:
        begin = time.perf_counter()
        with LlamaServer(options.llama_server, model, options.threads, 1, CONTEXT,
                         wait=False) as server:
            wait_ready(server, "/health", pause=0.002)
            asked = load.completion_request(server.model, cold.PROMPT, 8)
            seconds = load.one(server.address, asked).times[0] - begin
            return seconds, cold.private_bytes(server.process.pid)


def one_model(options, figures, name, model):
    with options.lock:
        ours = cold.measure(options.build, str(model), options.cold_rounds, CONTEXT, False)
    figures.figure("%s: first connection to first token" % name, ours["ms"], "ms",
                   most=FIRST_TOKEN[name])
    figures.note("%.0f to %.0f ms" % (ours["ms_min"], ours["ms_max"]))
    row = [name, "%.0f ms" % ours["ms"], "–"]
    if "mb" in ours:
        figures.figure("%s: private memory, context %d" % (name, CONTEXT), ours["mb"], "MB",
                       most=PRIVATE)
        row[2] = "%.0f MB" % ours["mb"]
    else:
        figures.skipped("%s: private memory" % name, "only root may read it")
    if not options.llama_server:
        return row + ["–", "–"]
    theirs = [llama_start(options, model) for _ in range(max(1, options.cold_rounds // 3))]
    ms, mb = 1000 * median([r[0] for r in theirs]), 1e-6 * median([r[1] for r in theirs])
    figures.figure("%s, llama-server: start to first token" % name, ms, "ms")
    figures.figure("%s, llama-server: private memory, context %d" % (name, CONTEXT), mb, "MB")
    return row + ["%.0f ms" % ms, "%.0f MB" % mb]


def cold_starts(options, figures):
    figures.title("Neither service runs; medians of %d starts" % options.cold_rounds)
    rows = []
    stories = options.data / "models/stories260K/stories260K.gguf"
    for name, model in (("stories260K", stories), ("0.6B", options.model(options.preset))):
        if model.exists():
            rows.append(one_model(options, figures, name, model))
        else:
            figures.skipped(name, "%s is not there" % model)
    figures.table("cold", ["model", "first token", "private memory", "llama-server: first token",
                           "private memory"], rows)
