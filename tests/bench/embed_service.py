#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the embed service with llama-server, sentence-transformers and onnxruntime.

Each program computes vectors of sentences of 4 to 60 words on two threads. The programs take turns.
The embed service and llama-server answer HTTP; the Python libraries run in processes of their own.
Exits non-zero when a goal is missed.
"""
import argparse
import base64
import http.client
import json
import math
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

from programs import Program, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCHES = [1, 8, 64, 512]
# The service must be this many times as fast as each of these programs.
GOALS = {"llama-server": 4.0, "sentence-transformers": 2.0, "transformers": 2.0, "onnxruntime": 2.5}
GOAL_COSINE, GOAL_COSINE_Q8 = 0.9999, 0.999
N_COSINES = 1000
GOAL_P99 = 2.0  # limit of the p99 latency during a bulk job, as a multiple of the p99 without one


def sentences(n=1200):
    """Returns @n texts of words from the documents of this project."""
    words = " ".join(p.read_text() for p in sorted((ROOT / "docs").rglob("*.md"))).split()
    rng = random.Random(7)
    starts = [(rng.randrange(len(words) - 60), rng.randint(4, 60)) for _ in range(n)]
    return [re.sub(r"[\x00-\x1f]", " ", " ".join(words[i:i + k])) for i, k in starts]


class Http:
    """Represents a server of POST /v1/embeddings; `resume` begins its turn and `rest` ends the
    turn."""

    def __init__(self, port):
        self.port = port
        self.conn = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def ask(self, method, path, body=None):
        for last in (False, True):
            try:
                self.conn.request(method, path, body, {"Content-Type": "application/json"})
                r = self.conn.getresponse()
                return r.status, r.read()
            except (OSError, http.client.HTTPException):
                self.conn.close()  # the server sometimes closes idle connections
                if last:
                    raise

    def wait(self, program):
        for _ in range(600):
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.1)
        raise SystemExit("it did not start: " + program.tell())

    def post(self, texts, **more):
        status, body = self.ask("POST", "/v1/embeddings", json.dumps({"input": texts, **more}))
        if status != 200:
            raise SystemExit("status %d: %s" % (status, body[:300]))
        return body

    def seconds(self, texts):
        begin = time.perf_counter()
        self.post(texts)
        return time.perf_counter() - begin


class Ours(Http):
    def __init__(self, build, model, directory, isa):
        models = directory / "models"
        if os.path.isdir(model):
            shutil.copytree(model, models / "model")
        else:
            models.mkdir()
            os.symlink(os.path.abspath(model), models / "model.gguf")
        config = directory / "sconce.yaml"
        config.write_text("embed:\n  threads: 2\n  idle_timeout: 0\n" +
                          ("  isa: %s\n" % isa if isa else ""))
        super().__init__(free_port())
        self.program = Program(
            [build / "services/cli/sconce", "serve", "--config", config, "--models", models,
             "--listen", "127.0.0.1:%d" % self.port, "--runtime-dir", directory / "run"])
        self.wait(self.program)

    def vectors(self, texts):
        answer = json.loads(self.post(texts, encoding_format="base64", truncate=True))
        data = [base64.b64decode(item["embedding"]) for item in answer["data"]]
        return [struct.unpack("<%df" % (len(d) // 4), d) for d in data]

    def seconds(self, texts):
        begin = time.perf_counter()
        self.post(texts, encoding_format="base64", truncate=True)
        return time.perf_counter() - begin

    def close(self):
        self.program.close()


class Llama(Http):
    name = "llama-server"

    def __init__(self, binary, gguf):
        super().__init__(free_port())
        self.program = Program(
            [binary, "--embedding", "-m", gguf, "-t", "2", "-tb", "2", "--port", self.port, "-b",
             "8192", "-ub", "8192", "--no-webui"])
        self.wait(self.program)

    def close(self):
        self.program.close()


class Python:
    def __init__(self, python, kind, model):
        self.process = subprocess.Popen(
            [python, ROOT / "tests/bench/embed_peer.py", kind, model], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = ""
        reader = threading.Thread(target=self.read_errors, daemon=True)
        reader.start()
        self.name = self.process.stdout.readline().strip()
        if not self.name:
            reader.join()

    def read_errors(self):
        """Keeps the last line, which says why the program ended."""
        for line in self.process.stderr:
            self.said = line.strip() or self.said

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def seconds(self, texts):
        return self.ask(texts=texts)["seconds"]

    def vectors(self, texts):
        return self.ask(texts=texts, answer=True)["vectors"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def rate(peer, texts, batch, seconds):
    """Returns the texts per second."""
    peer.seconds(texts[:batch])
    done, used, i = 0, 0.0, 0
    while used < seconds:
        part = texts[i:i + batch]
        used += peer.seconds(part)
        done += len(part)
        i = (i + batch) % (len(texts) - batch + 1)
    return done / used


def verdict(ok):
    return "" if ok else "  SHORT"


def part_cosine(ours, peers, texts, args):
    reference = next((p for p in peers if isinstance(p, Python)), None)
    if not reference:
        print("cosine: no peer of Python to compare with")
        return True
    worst = 1.0
    # A model directory truncates texts at 256 tokens; a GGUF file has no such limit.
    texts = [t for t in texts if len(t) < 500][:N_COSINES]
    goal = GOAL_COSINE_Q8 if args.q8 else GOAL_COSINE
    for i in range(0, len(texts), 128):
        for x, y in zip(ours.vectors(texts[i:i + 128]), reference.vectors(texts[i:i + 128])):
            norm = math.sqrt(sum(a * a for a in x)) * math.sqrt(sum(b * b for b in y))
            worst = min(worst, sum(a * b for a, b in zip(x, y)) / norm)
    ok = worst >= goal
    print("cosine with %s: at least %.7f of %d texts (goal %g)%s" %
          (reference.name, worst, len(texts), goal, verdict(ok)), flush=True)
    return ok


def part_throughput(ours, peers, texts, args):
    well = True
    for batch in BATCHES:
        mine = rate(ours, texts, batch, args.seconds)
        line = "requests of %3d: %8.1f texts/s" % (batch, mine)
        for peer in peers:
            time.sleep(0.3)  # the threads of the previous program keep spinning for a while
            other = rate(peer, texts, batch, args.seconds)
            ok = mine >= GOALS[peer.name] * other
            well &= ok
            line += "; %s %.1f (%.2f x, goal %g%s)" % (peer.name, other, mine / other,
                                                      GOALS[peer.name], verdict(ok))
        print(line, flush=True)
    return well


def p99(ours, texts, seconds):
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        times.append(ours.seconds([texts[len(times) % len(texts)]]))
    times.sort()
    return times[len(times) // 2], times[min(len(times) - 1, int(len(times) * 0.99))], len(times)


def part_latency(ours, peers, texts, args):
    queries = [" ".join(t.split()[:8]) for t in texts]
    seconds = max(4 * args.seconds, 2)
    stop, done = multiprocessing.Event(), multiprocessing.Value("Q", 0)

    def bulk():
        other = Http(ours.port)
        while not stop.is_set():
            other.post(texts[:512], encoding_format="base64", truncate=True)
            done.value += 512

    p99(ours, queries, 1)
    idle = p99(ours, queries, seconds)
    job = multiprocessing.Process(target=bulk)
    job.start()
    time.sleep(0.5)
    busy = p99(ours, queries, seconds)
    stop.set()
    job.join()
    ok = busy[1] < GOAL_P99 * idle[1]
    print("single queries: median %.2f ms, p99 %.2f ms of %d; beside a bulk job (%d texts) %.2f ms, "
          "p99 %.2f ms of %d (%.2f x, goal below %g)%s" %
          (idle[0] * 1e3, idle[1] * 1e3, idle[2], done.value, busy[0] * 1e3, busy[1] * 1e3, busy[2],
           busy[1] / idle[1], GOAL_P99, verdict(ok)), flush=True)
    return ok


# TESTS has, for each subject, the names of the tests of the build. REQUESTS has, for each subject,
# the file with the tests of the services.
TESTS = [
    ("tokens of all kinds of tokenizers, as tokenizers and sentencepiece make them",
     ["tokenizer-golden", "tokenizer-texts"]),
    ("vectors and scores of all families, NMSE to transformers at most 1e-8", ["golden-embed"]),
    ("vectors of tokens beside sentence-transformers", ["golden-late"]),
]
REQUESTS = [
    ("the openai client; base64 equals float", "tests/api/test_embed.py"),
    ("10,000 good and bad requests: errors are named, none is lost", "tests/api/test_embed_mixed.py"),
]


def part_tests(ours, peers, texts, args):
    env, well = dict(os.environ, SCONCE_BUILD=str(args.build.resolve())), True
    commands = [(what, ["meson", "test", "-C", args.build, "--no-rebuild", *names])
                for what, names in TESTS]
    commands += [(what, [args.pytest, "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / path])
                 for what, path in REQUESTS]
    for what, argv in commands:
        ok = subprocess.run(argv, env=env, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL).returncode == 0
        well &= ok
        print("%s: %s" % (what, "ok" if ok else "FAILED"), flush=True)
    return well


PARTS = {"tests": part_tests, "cosine": part_cosine, "throughput": part_throughput, "latency": part_latency}


def start_peers(args, parts):
    peers = []
    if args.llama_server and "throughput" in parts:
        gguf = args.gguf or args.model
        if os.path.isdir(gguf):
            raise SystemExit("--llama-server needs --gguf, the same model as a GGUF file")
        peers.append(Llama(args.llama_server, gguf))
    if args.python and {"cosine", "throughput"} & set(parts):
        for kind in ("sentence-transformers", "onnxruntime"):
            peer = Python(args.python, kind, args.hf or args.model)
            if peer.name:
                peers.append(peer)
            else:
                print("no %s in %s: %s" % (kind, args.python, peer.said))
    return peers


def main():
    p = argparse.ArgumentParser(prog="embed.sh", description=__doc__.split("\n\n")[0])
    p.add_argument("--model", required=True,
                   help="a directory in Hugging Face layout, or a GGUF file")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    p.add_argument("--llama-server", help="the program of llama-server")
    p.add_argument("--gguf", help="the model for llama-server, if --model is a directory")
    p.add_argument("--hf", help="the model for PYTHON, if --model is a file")
    p.add_argument("--python", help="a Python with sentence-transformers and onnxruntime")
    p.add_argument("--pytest", default=sys.executable,
                   help="the Python of the tests (default: the one that runs this script)")
    p.add_argument("--q8", action="store_true",
                   help="the weights are Q8_0: cosines from %g on are good" % GOAL_COSINE_Q8)
    p.add_argument("--part", action="append", choices=list(PARTS))
    p.add_argument("--seconds", type=float, default=2, help="duration of each measurement")
    p.add_argument("--isa", metavar="NAME",
                   help="the instruction set of the embed service (default: the best)")
    args = p.parse_args()
    parts = args.part or list(PARTS)
    texts = sentences()
    peers, well = start_peers(args, parts), True
    directory = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / ("sconce-embed-%d" % os.getpid())
    directory.mkdir()
    ours = Ours(args.build, args.model, directory, args.isa)
    try:
        for part in parts:
            well &= PARTS[part](ours, peers, texts, args)
    finally:
        for program in [ours, *peers]:
            program.close()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
