# SPDX-License-Identifier: Apache-2.0
"""Measures many clients at once through gateway and chat, compared with llama-server, and how
evenly a stream of text arrives during the prefill of other prompts."""
import contextlib

import load
from figures import median
from programs import LlamaServer, Suite

OF_LLAMA = {16: 3.0, 1: 1.7}
GAP = 3.0  # p99 of the gaps during other prefill, as a multiple of the median gap

SLOT_CONTEXT = 1024
LONG_WORDS = 2000
LONG_CONTEXT = 8192


def requests(name, model, seed, n_clients, n_words, n_tokens):
    # No prompt is sent twice, since llama-server would find a repeated prompt in its cache.
    return [load.chat_request(model, load.words("%s %s %d of %d" % (name, seed, i, n_clients),
                                                n_words), n_tokens)
            for i in range(n_clients)]


def tell_cpu(figures, waves):
    if waves:
        figures.note("the load generator took %.1f %% of one CPU at most"
                     % (100 * max(w.cpu for w in waves)))


def clients(options, figures):
    model = options.model(options.preset)
    n_words, n_tokens = options.words, options.tokens
    figures.title("%s clients, %d words in, %d tokens out, %s"
                  % (" and ".join(map(str, OF_LLAMA)), n_words, n_tokens, options.preset))
    waves = {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Suite(options.sconce, model, options.threads))]
        if options.llama_server:
            servers.append(stack.enter_context(LlamaServer(
                options.llama_server, model, options.threads, max(OF_LLAMA), SLOT_CONTEXT)))
        for server in servers:
            load.wave(server.address, requests("warm", server.model, server.name, 2, 8, 8))
        for i in range(options.rounds):
            for server in servers[::-1 if i % 2 else 1]:
                for n in OF_LLAMA:
                    asked = requests(server.name, server.model, i, n, n_words, n_tokens)
                    with options.lock:
                        waves.setdefault((server.name, n), []).append(
                            load.wave(server.address, asked))
    rows = []
    for n, least in OF_LLAMA.items():
        ours, theirs = waves["sconce", n], waves.get(("llama-server", n))
        name = "%d client%s" % (n, "s" if n > 1 else "")
        speed = median([w.tok_s for w in ours])
        figures.figure(name, speed, "tok/s")
        figures.figure(name + ", to the first token", 1000 * median([w.first for w in ours]), "ms")
        row = [n, "%.4g" % speed, "%.0f ms" % (1000 * median([w.first for w in ours]))]
        if theirs:
            value = median([a.tok_s / b.tok_s for a, b in zip(ours, theirs)])
            figures.figure(name + ", beside llama-server", value, "×", least=least)
            row += ["%.4g" % median([w.tok_s for w in theirs]),
                    "%.0f ms" % (1000 * median([w.first for w in theirs])), "%.2f" % value]
        else:
            figures.skipped(name + ", beside llama-server", "it was not given")
            row += ["–"] * 3
        rows.append(row)
    figures.note("a prompt was %.0f tokens" % (ours[0].n_prompt / n))
    tell_cpu(figures, sum(waves.values(), []))
    figures.table("clients", ["clients", "tok/s", "first token", "llama-server", "first token",
                              "ratio"], rows)
    gaps(options, figures, model)


def gaps(options, figures, model):
    figures.title("One stream while others' prompts of %d words are read" % LONG_WORDS)
    rows = []
    for make in (lambda: Suite(options.sconce, model, options.threads, context=LONG_CONTEXT),
                 lambda: LlamaServer(options.llama_server, model, options.threads, 4,
                                     LONG_CONTEXT)):
        if rows and not options.llama_server:
            figures.skipped("the same with llama-server", "it was not given")
            break
        with make() as server:
            load.wave(server.address, requests("warm", server.model, server.name, 2, 8, 8))
            results = []
            for i in range(options.rounds):
                seed = "%s gap %d" % (server.name, i)
                stream = load.chat_request(server.model, load.words(seed, 64), 3000)
                others = requests(server.name, server.model, seed, 100, LONG_WORDS, 1)
                with options.lock:
                    results.append(load.gaps(server.address, stream, others, 100,
                                             options.gap_seconds))
            rows.append(tell_gaps(figures, server.name, results))
    figures.table("gaps", ["", "median gap alone", "median while others prefill", "p99", "longest",
                           "p99 ÷ median alone"], rows)


def tell_gaps(figures, name, results):
    ours = name == "sconce"
    value = median([g.p99 / max(g.median_alone, 1e-6) for g in results])
    same = median([g.p99 / max(g.median, 1e-6) for g in results])
    figures.figure("%s: median gap alone" % name,
                   1000 * median([g.median_alone for g in results]), "ms")
    figures.figure("%s: median gap while others prefill" % name,
                   1000 * median([g.median for g in results]), "ms")
    figures.figure("%s: p99 gap while others prefill" % name,
                   1000 * median([g.p99 for g in results]), "ms")
    figures.figure("%s: p99 ÷ the median of the same gaps" % name, same, "×")
    figures.figure("%s: p99 ÷ the median gap alone" % name, value, "×", most=GAP if ours else None)
    n_others = sum(g.n_others for g in results)
    if n_others > 0:
        figures.figure("%s: speed of reading these prompts" % name,
                       median([g.others_tok_s for g in results if g.n_others]), "tok/s")
    figures.note("%d gaps, %d prompts that were read to their end" % (sum(g.n for g in results), n_others))
    cells = [1000 * median([f(g) for g in results])
             for f in (lambda g: g.median_alone, lambda g: g.median, lambda g: g.p99,
                       lambda g: g.longest)]
    return [name] + ["%.3g ms" % c for c in cells] + ["%.1f" % value]
