# SPDX-License-Identifier: Apache-2.0
"""Measures figures of the cache service with a model: prompts that were cached before a restart,
prompts that never repeat, and texts, which must be the same with and without the service."""
import http.client
import mmap
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

import load
from cold import forget
from figures import median
from programs import Suite

OF_COLD = {"dropped": 20, "warm": 60}  # times faster than computing
OF_DISK = 70  # % of the bandwidth of the disk
FRESH = 1.05  # time with tiers, as a multiple of that without
BLOCK = 64  # tokens
MEMORY = 3 << 30  # bytes: a prefix in the engine, the same prefix in the page cache, and the model
TAIL = 32  # tokens after the last whole block, which are always computed
TYPES = ["f16", "bf16", "q8_0", "q4_0", "fp8"]


class Tiers(Suite):
    """Runs all services, with blocks in a directory. The exit of the services may take time,
    because they write the last blocks."""

    patience = 60

    def __init__(self, options, blocks, context, more=()):
        super().__init__(options.sconce, options.model, options.threads, context=context,
                         sequences=2, blocks=blocks, more=more)
        self.blocks = blocks

    def metric(self, name):
        """Returns the sum of a metric of the chat service; 0 if the service does not report it."""
        path = next(pathlib.Path(self.config_dir).rglob("chat.sock"))
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith((name + "{", name + " ")))

    def wait_kept(self, n_blocks, seconds=120):
        """Waits until the services have kept or loaded @n_blocks blocks since their start, and the
        directory no longer grows."""
        end = time.monotonic() + seconds
        while (self.metric("sconce_chat_kept_blocks_total") +
               self.metric("sconce_chat_loaded_blocks_total")) < n_blocks:
            if time.monotonic() > end:
                raise RuntimeError("blocks were not kept: " + self.tell())
            time.sleep(0.2)
        size = -1
        while size != (size := sum(p.stat().st_size for p in self.blocks.rglob("*.kv"))):
            time.sleep(1)

    def ask(self, tokens, n_tokens=8):
        return load.one(self.address, load.completion_request(self.model, tokens, n_tokens))


def prompt(seed, n):
    """Returns a prompt of @n tokens that no other seed gives."""
    rng = random.Random(seed)
    return [rng.randrange(1000, 100000) for _ in range(n)]


def drop_all(options, blocks):
    """Empties the page cache; without the right to do so, drops only the model and the blocks."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("3\n")
        return "of everything"
    except OSError:
        for path in [options.model, *(p for p in blocks.rglob("*") if p.is_file())]:
            forget(path)
        return "of the model and of blocks"


def have_memory(n_bytes):
    """Makes the system provide memory before a measurement. A virtual machine returns free memory
    to its host, and needs a second to get half a gigabyte again; this time must not be measured."""
    with mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)  # blocks have huge pages, too
        for at in range(0, n_bytes, mmap.PAGESIZE):
            memory[at] = 1


def raw_bandwidth(path, n_times=3, most=None):
    """Returns bytes/s of reading a file, or its first @most bytes, without the page cache: the
    fastest of @n_times runs."""
    return max(raw_bandwidth_once(path, most) for _ in range(n_times))


def raw_bandwidth_once(path, most=None, chunk=4 << 20, n_threads=8):
    size = min(os.path.getsize(path), most or sys.maxsize) // chunk * chunk
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)

    def reader(first):
        buffer = mmap.mmap(-1, chunk)
        for at in range(first * chunk, size, n_threads * chunk):
            os.preadv(fd, [buffer], at)

    readers = [threading.Thread(target=reader, args=(i,)) for i in range(n_threads)]
    begin = time.perf_counter()
    for r in readers:
        r.start()
    for r in readers:
        r.join()
    seconds = time.perf_counter() - begin
    os.close(fd)
    return size / seconds


class Known:
    """Represents a prompt that is computed once and requested again after restarts."""

    def __init__(self, options):
        self.options = options
        self.blocks = options.directory / "restart"
        self.tokens = prompt(1, options.prompt // BLOCK * BLOCK + TAIL)
        self.n_known = len(self.tokens) - TAIL

    def suite(self):
        return Tiers(self.options, self.blocks, len(self.tokens) + 256)

    def compute(self):
        """Returns the seconds to the first token with an empty cache."""
        with self.suite() as s:
            s.ask(prompt(0, 128))  # reads the model's pages and computes its digest
            have_memory(MEMORY)
            with self.options.lock:
                answer = s.ask(self.tokens)
            if answer.n_cached != 0:
                raise RuntimeError("the prompt was known: %d tokens" % answer.n_cached)
            self.text = answer.text
            s.wait_kept(self.n_known // BLOCK)
        return answer.first

    def compute_another(self, seed):
        """Returns the seconds to the first token of a new prompt of the same length."""
        with self.suite() as s:
            s.ask(prompt(0, 128))
            have_memory(MEMORY)
            with self.options.lock:
                answer = s.ask(prompt(1000 + seed, len(self.tokens)))
        if answer.n_cached != 0:
            raise RuntimeError("a new prompt was known: %d tokens" % answer.n_cached)
        return answer.first

    def check(self, answer, what):
        if answer.n_cached != self.n_known:
            raise RuntimeError("%s: %d of %d tokens were known" % (what, answer.n_cached,
                                                                  self.n_known))
        if answer.text != self.text:
            raise RuntimeError("%s: the text differs: %r, not %r" % (what, answer.text, self.text))

    def after_restart(self, what, prepare, is_running=False):
        """Returns the seconds to the first token, the seconds of a second request with the blocks
        in memory, and the bytes that the first request loaded. @is_running: another prompt first
        starts the services and loads the model."""
        prepare()
        with self.suite() as s:
            if is_running:
                s.ask(prompt(0, 128))
            have_memory(MEMORY)
            n_before = s.metric("sconce_chat_loaded_bytes_total") if is_running else 0
            with self.options.lock:
                answer = s.ask(self.tokens)
                n_bytes = s.metric("sconce_chat_loaded_bytes_total") - n_before
                again = s.ask(self.tokens)
            self.check(answer, what)
            return answer.first, again.first, n_bytes

    def segment(self):
        return max(self.blocks.rglob("*.kv"), key=lambda p: p.stat().st_size)


def disk_share(known):
    """Returns the percentage of the disk's bandwidth at which blocks are read, and this bandwidth.
    A second request with the same prompt measures the computation of the other tokens, which is
    subtracted. Another prompt first starts the services, so that their start is not measured."""

    def blocks_alone():
        os.sync()
        for path in known.blocks.rglob("*.kv"):
            forget(path)

    first, again, n_bytes = known.after_restart("blocks dropped", blocks_alone, is_running=True)
    raw = raw_bandwidth(known.segment())
    return 100 * n_bytes / max(first - again, 1e-9) / raw, raw


def listed(numbers):
    *others, last = ["%.0f" % number for number in numbers]
    return "%s and %s" % (", ".join(others), last) if others else last


def restart(options, figures):
    known = Known(options)
    figures.title("A prefix of %d tokens, everything restarted; medians of %d"
                  % (known.n_known, options.rounds))
    known.compute()
    cold, dropped, warm, shares, raws = [], [], [], [], []
    for i in range(options.rounds):
        cold.append(known.compute_another(i))
        dropped.append(known.after_restart(
            "page cache dropped", lambda: drop_all(options, known.blocks))[0])
        warm.append(known.after_restart("page cache warm", lambda: None)[0])
        share, raw = disk_share(known)
        shares.append(share)
        raws.append(raw)
    figures.figure("computed: first token after", median(cold), "s")
    figures.note("%.2f to %.2f s" % (min(cold), max(cold)))
    rows = [["computed", "%.2f s" % median(cold), ""]]
    for what, times, key in (("page cache dropped", dropped, "dropped"),
                             ("page cache warm", warm, "warm")):
        figures.figure("%s: first token after" % what, median(times), "s")
        figures.note("%.3f to %.3f s" % (min(times), max(times)))
        times_faster = median([c / t for c, t in zip(cold, times)])
        figures.figure("%s: times faster" % what, times_faster, "", least=OF_COLD[key])
        rows.append([what, "%.3f s" % median(times), "%.0f ×" % times_faster])
    figures.figure("the disk reads", 1e-6 * median(raws), "MB/s")
    figures.figure("blocks are read at this share of it", median(shares), "%", least=OF_DISK)
    figures.table("prefix-restart", ["prefix of %d tokens" % known.n_known, "first token", "faster"],
                  rows, "Blocks were read %d times. Direct reads of the same segment followed each time,"
                  " at %s MB/s. The blocks\nhad been read at %s %% of these speeds."
                  % (len(raws), listed(1e-6 * raw for raw in raws), listed(shares)))


def turn(suite, seeds, options):
    """Returns the seconds that new prompts take, one after another."""
    with options.lock:
        begin = time.perf_counter()
        for seed in seeds:
            suite.ask(prompt(seed, options.fresh_prompt), 16)
        return time.perf_counter() - begin


def fresh(options, figures):
    figures.title("Prompts of %d tokens, none of which is repeated; %d turns"
                  % (options.fresh_prompt, options.fresh_rounds))
    ratios, seed = [], 1000
    context = options.fresh_prompt + 512
    with Tiers(options, options.directory / "fresh", context) as on, \
            Tiers(options, None, context, ["prefix_cache: false"]) as off:
        for suite in (on, off):
            turn(suite, [seed, seed + 1], options)
            seed += 2
        for i in range(options.fresh_rounds):
            times = {}
            for suite in ((on, off) if i % 2 else (off, on)):
                time.sleep(3)  # until writes that would disturb the measurement have ended
                times[suite] = turn(suite, range(seed, seed + 4), options)
                seed += 4
            ratios.append(times[on] / times[off])
        kept = on.metric("sconce_chat_kept_blocks_total")
    figures.figure("time with tiers ÷ time without tiers", median(ratios), "", most=FRESH)
    figures.note("%.3f to %.3f; %d blocks were kept meanwhile" % (min(ratios), max(ratios), kept))
    figures.table("prefix-fresh", ["prompts of %d tokens" % options.fresh_prompt,
                                   "time relative to no tiers"],
                  [["not repeated", "%.3f (%.3f to %.3f)"
                    % (median(ratios), min(ratios), max(ratios))]])


def text_of(options, blocks, more, tokens):
    with Tiers(options, blocks, 2048, more) as s:
        answer = s.ask(tokens, 48)
        if blocks:
            again = s.ask(tokens, 48)
            if again.text != answer.text or again.n_cached == 0:
                raise RuntimeError("the same prompt again: %r, not %r" % (again.text, answer.text))
            s.wait_kept(len(tokens) // BLOCK)
    return answer


def texts(options, figures):
    figures.title("Greedy texts with and without the cache service")
    tokens = prompt(7, 10 * BLOCK + TAIL)
    for kv_type in TYPES:
        more = ["kv_type: %s" % kv_type]
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            blocks = pathlib.Path(directory)
            try:
                without = text_of(options, None, more + ["prefix_cache: false"], tokens)
                kept = text_of(options, blocks, more, tokens)
                read = text_of(options, blocks, more, tokens)
            except (RuntimeError, subprocess.SubprocessError) as error:
                figures.failed("%s: texts that differ" % kv_type, str(error)[:300])
                continue
        differ = (kept.text != without.text) + (read.text != without.text)
        figures.figure("%s: texts that differ" % kv_type, differ, "", most=0)
        figures.figure("%s: tokens that were read back" % kv_type, read.n_cached, "",
                       least=10 * BLOCK)
