#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a model that is larger than the memory of its services.

    beyond.py [--build DIR] [--limit BYTES] [--docs FILE] MODEL.gguf...

All services run in a cgroup whose memory is limited, as with MemoryMax= of systemd: to --limit
bytes, or to half of the model's file. Pages of the model's file that the services use count towards
this limit. The program sends the same requests without and with the limit. Meanwhile another
process, outside of the cgroup, sleeps a millisecond again and again; how late it wakes shows
whether the machine stalls. The program also reads the kernel's record of the time in which all
processes waited for memory (/proc/pressure/memory). Needs root.
"""
import argparse
import contextlib
import multiprocessing
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True

import load  # noqa: E402
import tiers  # noqa: E402
from compare import machine  # noqa: E402
from figures import median, percentile, run  # noqa: E402
from programs import Suite  # noqa: E402
from restored import bytes_read  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
WORDS = 40  # of each prompt; a word has one or two tokens
TOKENS = 48  # of each answer
LATE = 100  # ms: another process may wake at most this much too late
ROOT = pathlib.Path("/sys/fs/cgroup")


class Cgroup(contextlib.AbstractContextManager):
    """Represents a cgroup with limited memory, of version 2 or 1."""

    def __init__(self, limit):
        is_second = (ROOT / "cgroup.controllers").exists()
        self.path = (ROOT if is_second else ROOT / "memory") / ("sconce-bench-%d" % os.getpid())
        self.path.mkdir()
        name = "memory.max" if is_second else "memory.limit_in_bytes"
        (self.path / name).write_text(str(limit))

    def enter(self):
        """Moves this process to the cgroup; its later children are in it, too."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self):
        (self.path.parent / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *error):
        for _ in range(100):  # processes that have ended leave the cgroup a moment later
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.1)


def sleep_on(pipe):
    """Sleeps a millisecond again and again until the pipe has data. Then it sends how late it woke,
    in milliseconds: the median, the 99th percentile and the maximum. Its priority is higher than
    that of the services, so it never waits for a processor, and all delays come from the kernel."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
    late = []
    while not pipe.poll():
        begin = time.perf_counter()
        time.sleep(0.001)
        late.append(1000 * (time.perf_counter() - begin) - 1)
    pipe.send((median(late), percentile(late, 0.99), max(late)))


class Sleeper(contextlib.AbstractContextManager):
    """Runs sleep_on() in another process; `late` has its result after the end."""

    def __init__(self):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=sleep_on, args=(theirs,))
        self.process.start()

    def __exit__(self, *error):
        self.pipe.send(None)
        self.late = self.pipe.recv()
        self.process.join()


def pressure():
    """Returns the seconds in which all processes that could run waited for memory."""
    rows = pathlib.Path("/proc/pressure/memory").read_text().splitlines()
    return 1e-6 * int(next(r for r in rows if r.startswith("full")).rsplit("=", 1)[1])


class Result:
    def __init__(self, options, model, limit):
        tiers.drop_all(argparse.Namespace(model=model), pathlib.Path(os.devnull))
        with contextlib.ExitStack() as stack:
            if limit:
                group = stack.enter_context(Cgroup(limit))
                group.enter()
            try:
                suite = stack.enter_context(Suite(options.sconce, model, options.threads,
                                                  context=1024, sequences=1))
            finally:
                if limit:
                    group.leave()
            answer = self.ask(suite, 0)
            self.first = answer.first
            self.seconds, n_bytes, full = [], bytes_read(suite.process.pid), pressure()
            with Sleeper() as sleeper:
                for i in range(options.rounds):
                    answer = self.ask(suite, 1 + i)
                    self.seconds.append(answer.end - answer.times[0])
            self.tok_s = (TOKENS - 1) / median(self.seconds)
            self.bytes = (bytes_read(suite.process.pid) - n_bytes) / options.rounds
            self.full = (pressure() - full) / options.rounds
            self.late = sleeper.late

    @staticmethod
    def ask(suite, seed):
        return load.one(suite.address, load.chat_request(
            suite.model, load.words("beyond %d" % seed, WORDS), TOKENS))


def measure_model(options, figures, model):
    size = model.stat().st_size
    limit = options.limit or size // 2
    figures.title("%s: %.1f GB, with a limit of %.1f GB" % (model.stem, 1e-9 * size, 1e-9 * limit))
    rows = []
    for name, most in (("none", 0), ("%.1f GB" % (1e-9 * limit), limit)):
        r = Result(options, model, most)
        what = "limit %s: " % name
        figures.figure(what + "first token after the start", r.first, "s")
        figures.figure(what + "decoding", r.tok_s, "tok/s")
        figures.figure(what + "read from the disk for an answer", 1e-6 * r.bytes, "MB")
        figures.figure(what + "all processes waited for memory, per answer", r.full, "s")
        figures.figure(what + "another process: late, median", r.late[0], "ms")
        figures.figure(what + "another process: late, 99 %", r.late[1], "ms")
        figures.figure(what + "another process: late, longest", r.late[2], "ms", most=LATE)
        rows.append([model.stem, "%.1f GB" % (1e-9 * size), name, "%.2f s" % r.first,
                     "%.2f" % r.tok_s, "%.0f MB" % (1e-6 * r.bytes), "%.2f s" % r.full,
                     "%.1f ms" % r.late[1], "%.1f ms" % r.late[2]])
    return rows


def measure(figures):
    p = argparse.ArgumentParser(prog="beyond.py", description=__doc__,
                                formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("models", nargs="+", type=pathlib.Path, metavar="MODEL")
    p.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build",
                   help="build directory (default: build)")
    p.add_argument("--limit", type=int, metavar="BYTES")
    p.add_argument("--rounds", type=int, default=3, metavar="N",
                   help="number of answers, whose median is printed (default: 3)")
    p.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--docs", metavar="FILE", help="put the table between the marks of this file")
    options = p.parse_args()
    options.sconce = options.build.resolve() / "services/cli/sconce"
    rows = []
    for model in options.models:
        rows += measure_model(options, figures, model.resolve())
    figures.table("beyond", ["model", "file", "memory limit", "first token after the start",
                             "tok/s", "read for an answer", "all waited for memory",
                             "another process late, 99 %", "longest"], rows,
                  "%s." % machine(options.threads))
    figures.save(options.docs)


if __name__ == "__main__":
    run("beyond.py", measure)
