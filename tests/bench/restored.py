# SPDX-License-Identifier: Apache-2.0
"""Measures, for any number of models, how much is computed again although it was computed before:
after all processes were started again with an empty page cache, and in the next turn of a
conversation.
"""
import argparse
import http.client
import json
import pathlib

import tiers
from figures import median

FIRST = 1.0  # seconds to the first token
OF_READING = 1.2  # or this multiple of the time in which the disk reads the same bytes, if longer
RATE_BYTES = 1 << 30  # bytes of the model that are read to measure the rate of the disk

TURN_PROMPT = 2000  # tokens of the first message
TURN_ANSWER = 100
TURN_NEW = 50  # tokens of each message after an answer


def of_model(options, model):
    """Returns the options for one of several models, with a directory of its own."""
    directory = options.directory / model.stem
    directory.mkdir(exist_ok=True)
    return argparse.Namespace(**{**vars(options), "model": model, "directory": directory})


def children(pid):
    """Returns @pid and all processes below it."""
    parents = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents.setdefault(int(path.read_text().rsplit(")", 1)[1].split()[1]), []).append(
                int(path.parent.name))
        except OSError:  # the process has ended
            continue
    found = [pid]
    for parent in found:
        found += parents.get(parent, [])
    return found


def bytes_read(pid):
    """Returns the bytes that the disk has read for @pid and all processes below it."""
    n = 0
    for child in children(pid):
        rows = dict(line.split(": ") for line in
                    pathlib.Path("/proc/%d/io" % child).read_text().splitlines())
        n += int(rows["read_bytes"])
    return n


class Round:
    """Represents the first request after everything was started again."""

    def __init__(self, known):
        options = known.options
        self.dropped = tiers.drop_all(options, known.blocks)
        with known.suite() as suite:
            tiers.have_memory(tiers.MEMORY)
            before = bytes_read(suite.process.pid)
            with options.lock:
                answer = suite.ask(known.tokens)
            self.n_bytes = bytes_read(suite.process.pid) - before
            self.n_blocks = suite.metric("sconce_chat_loaded_bytes_total")
        if answer.text != known.text:
            raise RuntimeError("the text differs: %r, not %r" % (answer.text, known.text))
        self.first = answer.first
        self.n_cached = answer.n_cached
        self.n_computed = answer.n_prompt - answer.n_cached
        self.rate = tiers.raw_bandwidth(options.model, most=RATE_BYTES)
        self.bound = max(FIRST, OF_READING * self.n_bytes / self.rate)


def restored_model(options, figures):
    """Returns the row of the table."""
    known = tiers.Known(options)
    cold = known.compute()
    rounds = [Round(known) for _ in range(options.rounds)]
    name = options.model.stem
    figures.figure("%s: computed, first token after" % name, cold, "s")
    worst = max(rounds, key=lambda r: r.first / r.bound)
    for what, value in (("bytes read", 1e-6 * median([r.n_bytes for r in rounds])),
                        ("of these, blocks of the cache", 1e-6 * worst.n_blocks)):
        figures.figure("%s: %s" % (name, what), value, "MB")
    rate = 1e-6 * median([r.rate for r in rounds])
    figures.figure("%s: the disk reads" % name, rate, "MB/s")
    figures.figure("%s: restored tokens" % name, min(r.n_cached for r in rounds), "",
                   least=known.n_known)
    figures.figure("%s: first token after" % name, median([r.first for r in rounds]), "s",
                   most=median([r.bound for r in rounds]))
    figures.note("%.3f to %.3f s; page cache dropped %s"
                 % (min(r.first for r in rounds), max(r.first for r in rounds), worst.dropped))
    return [name, "%.1f s" % cold, "%.2f s" % median([r.first for r in rounds]),
            "%.2f s" % median([r.bound for r in rounds]),
            "%.0f MB" % (1e-6 * median([r.n_bytes for r in rounds])),
            "%.0f MB" % (1e-6 * worst.n_blocks), "%.0f MB/s" % rate,
            worst.n_cached, worst.n_computed]


def restored(options, figures):
    figures.title("All processes started again, page cache dropped, a prefix of %d tokens; medians "
                  "of %d" % (options.prompt // tiers.BLOCK * tiers.BLOCK, options.rounds))
    rows = [restored_model(of_model(options, model), figures) for model in options.models]
    figures.table("prefix-restored", ["model", "computed", "after a restart", "target", "bytes read",
                                      "blocks of the cache", "the disk reads", "tokens restored",
                                      "computed again"], rows)


def complete(suite, tokens, n_tokens):
    """Returns the tokens of an answer, and the numbers of prompt tokens from a cache and of those
    that were computed."""
    connection = http.client.HTTPConnection(*suite.address, timeout=600)
    connection.request("POST", "/completion", json.dumps({
        "model": suite.model, "prompt": tokens, "n_predict": n_tokens, "return_tokens": True,
        "temperature": 0, "ignore_eos": True}), {"Content-Type": "application/json"})
    reply = json.loads(connection.getresponse().read())
    connection.close()
    if "timings" not in reply:
        raise RuntimeError(str(reply)[:500])
    return reply["tokens"], reply["timings"]["cache_n"], reply["timings"]["prompt_n"]


def turns_model(options, figures):
    """Returns the rows of the table: three turns, the last one after a restart."""
    blocks = options.directory / "turns"
    tokens = tiers.prompt(3, TURN_PROMPT)
    rows = []

    def turn(suite, what, seed, least_new):
        nonlocal tokens
        answer, n_cached, n_computed = complete(suite, tokens, TURN_ANSWER)
        figures.figure("%s, %s: tokens of the prompt" % (options.model.stem, what), len(tokens))
        figures.figure("%s, %s: tokens computed" % (options.model.stem, what), n_computed, "",
                       most=least_new + tiers.BLOCK)
        rows.append([options.model.stem, what, len(tokens), least_new, n_cached, n_computed])
        tokens = tokens + answer + tiers.prompt(seed, TURN_NEW)

    def suite():
        return tiers.Tiers(options, blocks, 4096)

    with suite() as s:
        turn(s, "first turn", 4, TURN_PROMPT)
        turn(s, "second turn", 5, TURN_NEW)
        s.wait_kept(len(tokens) // tiers.BLOCK)
    with suite() as s:
        turn(s, "third turn, after a restart", 6, TURN_NEW)
    return rows


def turns(options, figures):
    figures.title("Turns of a conversation: %d tokens, then %d new tokens each; answers of %d"
                  % (TURN_PROMPT, TURN_NEW, TURN_ANSWER))
    rows = []
    for model in options.models:
        rows += turns_model(of_model(options, model), figures)
    figures.table("prefix-turns", ["model", "turn", "tokens of the prompt", "of these new",
                                   "from a cache", "computed"], rows)
