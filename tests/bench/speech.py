# SPDX-License-Identifier: Apache-2.0
"""Measures the speed of transcription compared with whisper.cpp (encoder, tokens, and several
clients at once), and the memory that hours of speech take."""
import array
import contextlib
import http.client
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import threading
import time

from figures import median
from programs import Program, free_port, wait_ready

ENCODER, DECODER = 3.0, 2.0  # times as fast as whisper.cpp
CLIENTS = 3.0
FLAT = 1.05  # memory in the last quarter, as a multiple of that in the first
WINDOW = 30  # seconds
BOUNDARY = "sconce-bench"


def wav(seconds, rate=16000, width=2):
    """Makes a WAV file of a tone with noise, which has neither silence nor speech."""
    rng = random.Random(1)
    one = [round(6000 * math.sin(i * 0.05) + rng.uniform(-3000, 3000)) for i in range(rate)]
    second = (array.array("h", one).tobytes() if width == 2
              else bytes(128 + (x >> 8) for x in one))
    data = second * math.ceil(seconds)
    return (b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * width, width, 8 * width) + b"data" +
            struct.pack("<I", len(data)) + data)


# Models, measured one after the other

def ours(options, model):
    """Returns (ms of a window, ms of a token of one text, ms of a step that computes a token of
    each of five texts). The time of a window includes the encoder and the keys and values of the
    encoder's output, as in whisper.cpp."""
    argv = [options.bench / "bench-whisper", model, "--threads", str(options.threads), "--windows",
            "3", "--tokens", "100"]
    if options.isa:
        argv += ["--isa", options.isa]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    window, stored, token, five = (
        float(re.search(r"^%s +([\d.]+) ms" % what, said, re.M)[1]) for what in
        ("a window in the encoder", "its memory", "a token of 1 text", "a token of 5 texts"))
    return window + stored, token, five


def theirs(options, program, model, path):
    """Returns (ms of a window, ms of a token) as whisper.cpp reports them with greedy decoding, or
    a sentence that tells how whisper.cpp failed."""
    done = subprocess.run([program, "-m", model, "-f", path, "-t", str(options.threads), "-l", "en",
                           "-bs", "1", "-bo", "1", "-nf"], capture_output=True, text=True,
                          errors="replace")
    said = done.stderr
    if done.returncode:
        return "whisper-cli ended with status %d" % done.returncode
    encode = re.search(r"encode time = +[\d.]+ ms / +(\d+) runs \( +([\d.]+) ms", said)
    decode = re.search(r"decode time = +[\d.]+ ms / +(\d+) runs \( +([\d.]+) ms", said)
    if not encode or not decode or int(decode[1]) < 50:
        raise RuntimeError("whisper-cli prints no times, or too few tokens: " + said[-500:])
    return float(encode[2]), float(decode[2])


def speed(options, figures):
    figures.title("A window of 30 s and a token, %d threads%s" % (
        options.threads, ", " + options.isa if options.isa else ""))
    cli, rows = options.peer("whisper-cli"), []
    with tempfile.NamedTemporaryFile(suffix=".wav") as f:
        f.write(wav(WINDOW))
        f.flush()
        for shape in options.shapes:
            for kind in options.formats:
                rows.append(one_model(options, figures, cli, shape, kind, f.name))
    figures.table("audio-speed", ["model", "weights", "window", "whisper.cpp", "ratio", "token",
                                  "whisper.cpp", "ratio", "token, five texts at once"], rows)


def one_model(options, figures, cli, shape, kind, path):
    model, mine, peer, why = options.model(shape, kind), [], [], None if cli else "it was not given"
    for i in range(options.rounds):
        with options.lock:
            for first in ((True, False), (False, True))[i % 2]:
                if first:
                    mine.append(ours(options, model))
                elif not why:
                    peer.append(theirs(options, cli, model, path))
                    why = peer[-1] if isinstance(peer[-1], str) else None
    name = "%s, %s" % (shape, kind)
    window, token, five = (median(x) for x in zip(*mine))
    figures.figure(name + ": a window in the encoder", window, "ms")
    figures.figure(name + ": a token", token, "ms")
    figures.figure(name + ": a token of each of five texts", five, "ms")
    row = [shape, kind, "%.4g ms" % window, "–", "–", "%.3g ms" % token, "–", "–",
           "%.3g ms" % five]
    for at, what, goal in ((0, "encoder", ENCODER), (1, "token", DECODER)):
        label = "%s: %s beside whisper.cpp" % (name, what)
        if why:
            figures.skipped(label, why)
            continue
        ratio = median([b[at] / a[at] for a, b in zip(mine, peer)])
        figures.figure(label, ratio, "×", least=goal)
        row[3 * at + 3] = "%.4g ms" % median([b[at] for b in peer])
        row[3 * at + 4] = "%.2f" % ratio
    return row


# Services

class Ours(Program):
    """Runs all services, with one model for transcription."""

    name, path = "sconce", "/v1/audio/transcriptions"

    def __init__(self, options, model, **more):
        self.home = tempfile.mkdtemp(prefix="sconce-bench-")
        os.makedirs(self.home + "/models")
        os.symlink(model.resolve(), self.home + "/models/ggml-bench.bin")
        config = self.home + "/sconce.yaml"
        with open(config, "w") as f:
            f.write("models:\n  directories: [%s/models]\ngateway:\n  tcp_access: open\n" % self.home)
            f.write("  backend_timeout: 2h\n")
            f.write("".join("  %s: %s\n" % (k, v) for k, v in more.items() if k == "max_body"))
            f.write("audio:\n  request_timeout: 2h\n  threads: %d\n" % options.threads)
            f.write("".join("  %s: %s\n" % item for item in more.items()))
        self.address = ("127.0.0.1", free_port())
        super().__init__([options.sconce, "serve", "--listen", "127.0.0.1:%d" % self.address[1],
                          "--runtime-dir", self.home + "/run", "--config", config])
        wait_ready(self, "/health")

    def close(self):
        super().close()
        shutil.rmtree(self.home, ignore_errors=True)


class WhisperServer(Program):
    name, path = "whisper-server", "/inference"

    def __init__(self, options, program, model):
        self.address = ("127.0.0.1", free_port())
        super().__init__([program, "-m", model, "-t", options.threads, "-l", "en", "--host",
                          "127.0.0.1", "--port", self.address[1]])
        wait_ready(self, "/health")


def form(data, **fields):
    out = b"".join(b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
                   % (BOUNDARY.encode(), k.encode(), v.encode()) for k, v in fields.items())
    return (out + b'--%s\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
            b"Content-Type: audio/wav\r\n\r\n%s\r\n--%s--\r\n"
            % (BOUNDARY.encode(), data, BOUNDARY.encode()))


def post(server, body, timeout=600):
    connection = http.client.HTTPConnection(*server.address, timeout=timeout)
    try:
        connection.request("POST", server.path, body, {
            "Content-Type": "multipart/form-data; boundary=" + BOUNDARY})
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError("%s: %d %s" % (server.name, answer.status, data[:300]))
    return json.loads(data)["text"]


def wave_of_clients(server, body, n):
    """Returns the seconds until n clients that start together all have their answers, and one
    answer."""
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(post(server, body))) for _ in range(n)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if len(texts) != n:
        raise RuntimeError("%s answered %d of %d: %s" % (server.name, len(texts), n, server.tell()))
    return seconds, texts[0]


def clients(options, figures):
    n, shape = options.clients, options.client_shape
    figures.title("%d clients at once, 30 s and 100 tokens each, %s F16" % (n, shape))
    model, program = options.model(shape, "F16"), options.peer("whisper-server")
    body = form(wav(WINDOW), response_format="json", language="en")
    seconds, said = {}, {}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Ours(options, model))]
        if program:
            servers.append(stack.enter_context(WhisperServer(options, program, model)))
        for server in servers:
            wave_of_clients(server, body, 1)
        for i in range(options.rounds):
            for server in servers[::-1 if i % 2 else 1]:
                for k in (1, n):
                    with options.lock:
                        took, said[server.name] = wave_of_clients(server, body, k)
                    seconds.setdefault((server.name, k), []).append(took)
    rows = []
    for k in (1, n):
        name, mine = "%d client%s" % (k, "s" if k > 1 else ""), seconds["sconce", k]
        speed_of = k * WINDOW / median(mine)
        figures.figure(name + ", seconds of sound per second", speed_of, "×")
        row = [k, "%.4g ms" % (1000 * median(mine)), "%.4g" % speed_of, "–", "–"]
        if program:
            peer = seconds["whisper-server", k]
            ratio = median([b / a for a, b in zip(mine, peer)])
            figures.figure(name + ", beside whisper-server", ratio, "×",
                           least=CLIENTS if k == n else None)
            row[3:] = ["%.4g ms" % (1000 * median(peer)), "%.2f" % ratio]
        else:
            figures.skipped(name + ", beside whisper-server", "it was not given")
        rows.append(row)
    if program:
        same = len({" ".join(text.split()) for text in said.values()}) == 1
        figures.figure("texts that differ from whisper-server's", int(not same), most=0)
    figures.table("audio-clients", ["clients", "all answers", "sound ÷ time", "whisper-server",
                                    "ratio"], rows)


# Memory

def parents():
    """Returns {process: (its parent, its name)}"""
    out = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % name) as f:
            head, _, rest = f.read().rpartition(")")
            out[int(name)] = (int(rest.split()[1]), head.split("(", 1)[1])
    return out


def process_of(root, name):
    """Returns the process of this name below @root; None if it does not exist yet."""
    known = parents()
    for pid, (parent, comm) in known.items():
        while parent in known and parent != root:
            parent = known[parent][0]
        if parent == root and comm == name:
            return pid
    return None


def status(pid, key, file="status"):
    with open("/proc/%d/%s" % (pid, file)) as f:
        return int(re.search(r"^%s:\s+(\d+) kB" % key, f.read(), re.M)[1]) / 1024


def memory(options, figures):
    hours = options.hours
    figures.title("Memory of the service, a file of %g hours, tiny F16" % hours)
    data = wav(3600 * hours, rate=8000, width=1)
    body = form(data, response_format="json", language="en")
    size = "%dMiB" % (len(body) // 2**20 + 1)
    samples, failed = [], []
    with Ours(options, options.model("tiny", "F16"), max_body=size, max_seconds=0) as server:
        post(server, form(wav(WINDOW), response_format="json", language="en"))
        pid = process_of(server.process.pid, "sconce-audio")
        before = status(pid, "VmHWM")

        def ask():
            try:
                post(server, body, timeout=7200)
            except (RuntimeError, OSError) as error:
                failed.append(str(error))

        client, begin = threading.Thread(target=ask), time.monotonic()
        client.start()
        while client.is_alive():
            samples.append(status(pid, "Pss", "smaps_rollup"))
            client.join(0.5)
        seconds = time.monotonic() - begin
        highest = status(pid, "VmHWM")
    if failed or len(samples) < 16:
        figures.failed("memory", failed[0][:200] if failed else "the transcription ended too soon")
        return
    quarter = len(samples) // 4
    # The form arrives while the first samples are taken, and stays in memory until it is decoded.
    first, last = median(samples[quarter // 2:quarter * 3 // 2]), max(samples[-quarter:])
    figures.figure("seconds of sound per second", 3600 * hours / seconds, "×")
    figures.figure("shared and private memory, in the first part", first, "MiB")
    figures.figure("highest memory in the last quarter", last, "MiB")
    figures.figure("the form with the file, a part of this memory", len(body) / 2**20, "MiB")
    figures.figure("highest memory after the first 30 s", before, "MiB")
    figures.figure("highest memory of the process at any time", highest, "MiB")
    figures.figure("last quarter ÷ first part", last / first, "×", most=FLAT)
    figures.table("audio-memory", ["file", "form", "first part", "last quarter", "ratio"],
                  [["%g hours" % hours, "%.0f MiB" % (len(body) / 2**20), "%.0f MiB" % first,
                    "%.0f MiB" % last, "%.2f" % (last / first)]])
