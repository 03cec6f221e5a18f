# SPDX-License-Identifier: Apache-2.0
"""Measures many clients at once through gateway and chat, compared with llama-server, and how
evenly a stream of text arrives during the prefill of other prompts."""
import contextlib

import load
from figures import median
from programs import LlamaServer, Suite

GRID = (1, 4, 8, 16, 32, 64)  # clients at once
OF_LLAMA = {1: 1.7, 4: 1.0, 8: 1.0, 16: 4.0, 32: 4.0, 64: 5.0}
OF_ONE = 3.5  # 16 clients of a large model, as a multiple of one client
GAP = 3.0  # p99 of the gaps during other prefill, as a multiple of the median gap

LONG_WORDS = 2000
LONG_CONTEXT = 8192


def slot_context(options):
    """Returns the tokens that one client needs at most. A word has one or two tokens."""
    return (2 * options.words + options.tokens + 128 + 255) // 256 * 256


def requests(name, model, seed, n_clients, n_words, n_tokens):
    # No prompt is sent twice, since llama-server would find a repeated prompt in its cache.
    return [load.chat_request(model, load.words("%s %s %d of %d" % (name, seed, i, n_clients),
                                                n_words), n_tokens)
            for i in range(n_clients)]


def tell_cpu(figures, waves):
    if waves:
        figures.note("the load generator took %.1f %% of one CPU at most"
                     % (100 * max(w.cpu for w in waves)))


def grid_waves(options, model):
    """Returns {(name of the server, clients): waves}."""
    grid, waves = options.clients or GRID, {}
    context = slot_context(options)
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Suite(options.sconce, model, options.threads,
                                             sequences=max(grid)))]
        if options.llama_server:
            servers.append(stack.enter_context(LlamaServer(
                options.llama_server, model, options.threads, max(grid), context)))
        for server in servers:
            load.wave(server.address, requests("warm", server.model, server.name, 2, 8, 8))
        for i in range(options.rounds):
            for n in grid:
                for server in servers[::-1 if i % 2 else 1]:
                    asked = requests(server.name, server.model, i, n, options.words, options.tokens)
                    with options.lock:
                        waves.setdefault((server.name, n), []).append(
                            load.wave(server.address, asked))
    return waves


def tell_wave(figures, label, waves):
    """Prints what one server did for some clients; returns the cells of its columns."""
    values = [median([f(w) for w in waves])
              for f in (lambda w: w.tok_s, lambda w: 1000 * w.first, lambda w: 1000 * w.token)]
    for what, value, unit in zip(("", ", to the first token", ", a token"), values,
                                 ("tok/s", "ms", "ms")):
        figures.figure(label + what, value, unit)
    return ["%.4g" % values[0], "%.0f ms" % values[1], "%.3g ms" % values[2]]


def tell_clients(figures, name, n, waves):
    """Prints the figures of @n clients; returns the cells of a row."""
    ours, theirs = waves["sconce", n], waves.get(("llama-server", n))
    label = "%s%d client%s" % (name and name + ", ", n, "s" if n > 1 else "")
    mine, peer, ratio = tell_wave(figures, label, ours), ["–"] * 3, "–"
    if theirs:
        peer = tell_wave(figures, label + ", llama-server", theirs)
        value = median([a.tok_s / b.tok_s for a, b in zip(ours, theirs)])
        figures.figure(label + ", beside llama-server", value, "×", least=OF_LLAMA.get(n))
        ratio = "%.2f" % value
    else:
        figures.skipped(label + ", beside llama-server", "it was not given")
    return [n, *mine[:2], *peer[:2], ratio, mine[2], peer[2]]


def one_grid(options, figures, model, name=""):
    """Measures one model; returns the rows of its table."""
    waves = grid_waves(options, model)
    rows = [tell_clients(figures, name, n, waves) for n in options.clients or GRID]
    if name and ("sconce", 1) in waves and ("sconce", 16) in waves:
        value = median([a.tok_s / b.tok_s for a, b in zip(waves["sconce", 16],
                                                          waves["sconce", 1])])
        figures.figure("%s, 16 clients beside one" % name, value, "×", least=OF_ONE)
    last = max(n for _, n in waves)
    figures.note("a prompt was %.0f tokens" % (waves["sconce", last][0].n_prompt / last))
    tell_cpu(figures, sum(waves.values(), []))
    return rows


def clients(options, figures):
    columns = ["clients", "tok/s", "first token", "llama-server", "first token", "ratio", "a token",
               "llama-server"]
    what = "clients, %d words in, %d tokens out" % (options.words, options.tokens)
    model, rows = options.model(options.preset), []
    figures.title("%s, %s" % (options.preset, what))
    figures.table("clients", columns, one_grid(options, figures, model))
    for text in options.client_shapes or ():
        shape, layers, vocab = (text.split(":") + ["0", "0"])[:3]
        name = shape + (", %s layers" % layers if int(layers) else "")
        figures.title("%s %s, %s" % (name, options.preset, what))
        large = options.model(options.preset, shape, int(layers), int(vocab))
        rows += [[name, *row] for row in one_grid(options, figures, large, name)]
    if rows:
        figures.table("clients-shapes", ["model", *columns], rows)
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
