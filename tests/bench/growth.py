# SPDX-License-Identifier: Apache-2.0
"""Measures how speed depends on the length of the context and on the number of clients."""
import contextlib

import load
import plot
from engine import peer_bench, sconce_bench
from figures import median
from programs import LlamaServer, Suite
from serving import requests, slot_context, tell_cpu

CONTEXTS = (1024, 4096, 16384, 32768)
CLIENTS = (1, 2, 4, 8, 16, 32, 64)
GENERATE = 32


def contexts(options, figures, model):
    """Measures several lengths of the context; returns {(program, "read" or "write"): {context:
    tok/s}}."""
    found = {}
    rows = []
    for n in CONTEXTS:
        if n > options.max_context:
            continue
        with options.lock:
            r = sconce_bench(options.sconce, model, options.threads, "-p", 0, "-n", GENERATE, "-d",
                             n, "-r", options.repeat)
        read, write = r["depth"]["tok_s"], r["tg"]["tok_s"]
        figures.figure("%d tokens of context: reading them" % n, read, "tok/s")
        figures.figure("%d tokens of context: writing after them" % n, write, "tok/s")
        found.setdefault(("sconce", "read"), {})[n] = read
        found.setdefault(("sconce", "write"), {})[n] = write
        row = [n, "%.4g" % read, "%.4g" % write]
        if options.llama_bench and n <= options.peer_context:
            with options.lock:
                read = peer_bench(options.llama_bench, model, options.threads, "-p", n, "-n", 0,
                                  "-r", 1)
                write = peer_bench(options.llama_bench, model, options.threads, "-p", 0, "-n",
                                   GENERATE, "-d", n, "-r", 1)
            found.setdefault(("llama.cpp", "read"), {})[n] = read
            found.setdefault(("llama.cpp", "write"), {})[n] = write
            figures.figure("%d tokens of context: llama.cpp reading" % n, read, "tok/s")
            figures.figure("%d tokens of context: llama.cpp writing" % n, write, "tok/s")
            row += ["%.4g" % read, "%.4g" % write]
        rows.append(row + ["–"] * (5 - len(row)))
    figures.table("contexts", ["context", "reading it, tok/s", "writing after it, tok/s",
                               "llama.cpp reading", "writing"], rows)
    return found


def clients(options, figures, model):
    """Measures several numbers of clients; returns {program: {clients: tok/s}}."""
    most = max(CLIENTS)
    found = {}
    waves = []
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Suite(options.sconce, model, options.threads,
                                             sequences=most))]
        if options.llama_server:
            servers.append(stack.enter_context(LlamaServer(
                options.llama_server, model, options.threads, most, slot_context(options))))
        for server in servers:
            load.wave(server.address, requests("warm", server.model, server.name, 2, 8, 8))
        for n in CLIENTS:
            for server in servers:
                speeds = []
                for i in range(options.growth_rounds):
                    asked = requests(server.name, server.model, "growth %d" % i, n, options.words,
                                     options.tokens)
                    with options.lock:
                        waves.append(load.wave(server.address, asked))
                    speeds.append(waves[-1].tok_s)
                found.setdefault(server.name, {})[n] = median(speeds)
                figures.figure("%d clients, %s" % (n, server.name), median(speeds), "tok/s")
    tell_cpu(figures, waves)
    names = [s.name for s in servers]
    figures.table("growth", ["clients"] + [name + ", tok/s" for name in names],
                  [[n] + ["%.4g" % found[name][n] for name in names] for n in CLIENTS])
    return found


def growth(options, figures):
    model = options.model(options.preset)
    figures.title("Growth with the context and with clients, %s" % options.preset)
    by_context = contexts(options, figures, model)
    by_clients = clients(options, figures, model)
    if not options.plot:
        return
    panels = [("%s a context, tok/s" % what.capitalize(), "tokens of context",
               {name: by_context.get((name, kind), {}) for name in ("sconce", "llama.cpp")})
              for what, kind in (("reading", "read"), ("writing after", "write"))]
    panels.append(("Clients, tok/s together", "clients at once", by_clients))
    with open(options.plot, "w") as f:
        f.write(plot.svg(panels))
    figures.note("plot: %s" % options.plot)
