#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the throughput of an embedder with that of llama-server on the same GGUF file, and with
that of torch.

Each program gets sentences of 4 to 60 words in requests of 1, 8, 64 and 512, on two threads; the
programs take turns. Exits non-zero when the throughput is less than 3 times that of llama-server or
less than 2 times that of torch.

    embed.py BENCH_EMBED MODEL.gguf [--llama LLAMA_SERVER] [--torch MODEL_DIR] [--seconds S]
"""

import argparse
import http.client
import json
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

import need

BATCHES = [1, 8, 64, 512]
GOALS = {"llama-server": 3.0, "torch": 2.0}


def sentences(n=1024):
    """Returns lines of words from the documents of this project."""
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs"
    words = " ".join(p.read_text() for p in sorted(docs.rglob("*.md"))).split()
    rng = random.Random(7)
    starts = [(rng.randrange(len(words) - 60), rng.randint(4, 60)) for _ in range(n)]
    return [re.sub(r"[\x00-\x1f]", " ", " ".join(words[i:i + k])) for i, k in starts]


def ours(bench, model, lines, batch, seconds):
    out = subprocess.run([bench, model, lines, "--batch", str(batch), "--threads", "2",
                          "--seconds", str(seconds)], check=True, capture_output=True, text=True)
    return float(re.search(r"([\d.]+) texts/s", out.stdout)[1])


class Llama:
    def __init__(self, binary, model):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.proc = subprocess.Popen(
            [binary, "--embedding", "-m", model, "-t", "2", "-tb", "2", "--port", str(self.port),
             "-b", "8192", "-ub", "8192", "--no-webui"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        for _ in range(300):
            try:
                if self.get("/health") == 200:
                    return
            except OSError:
                self.conn.close()
            time.sleep(0.1)
        raise SystemExit("llama-server did not start")

    def get(self, path):
        self.conn.request("GET", path)
        r = self.conn.getresponse()
        r.read()
        return r.status

    def post(self, body):
        self.conn.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        return self.conn.getresponse()

    def embed(self, texts):
        body = json.dumps({"input": texts})
        try:
            r = self.post(body)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            self.conn.close()  # llama-server sometimes closes connections
            r = self.post(body)
        body = r.read()
        if r.status != 200:
            raise SystemExit(f"llama-server: {r.status} {body[:200]}")

    def rest(self):
        self.proc.send_signal(signal.SIGSTOP)

    def resume(self):
        self.proc.send_signal(signal.SIGCONT)

    def close(self):
        self.resume()
        self.proc.terminate()
        self.proc.wait()


class Torch:
    """Sorts texts by length, as sentence-transformers does, and pads each to the longest of its
    batch."""

    def __init__(self, directory):
        torch = need.module("torch", "python3-torch", "torch")
        Tokenizer = need.module("tokenizers", pypi="tokenizers").Tokenizer
        AutoModel = need.module("transformers", pypi="transformers").AutoModel
        torch.set_num_threads(2)
        self.torch = torch
        self.tok = Tokenizer.from_file(directory + "/tokenizer.json")
        self.tok.enable_padding()
        self.tok.enable_truncation(256)
        self.model = AutoModel.from_pretrained(directory).eval()

    def embed(self, texts):
        torch = self.torch
        texts = sorted(texts, key=len)
        with torch.inference_mode():
            for i in range(0, len(texts), 32):
                e = self.tok.encode_batch(texts[i:i + 32])
                ids = torch.tensor([x.ids for x in e])
                mask = torch.tensor([x.attention_mask for x in e])
                h = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
                v = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
                torch.nn.functional.normalize(v)

    def rest(self):
        time.sleep(0.3)  # its threads keep spinning for a while

    def resume(self):
        pass

    def close(self):
        pass


def measure(peer, texts, batch, seconds):
    peer.resume()
    peer.embed(texts[:batch])
    begin, done, i = time.monotonic(), 0, 0
    while time.monotonic() - begin < seconds:
        part = texts[i:i + batch]
        peer.embed(part)
        done += len(part)
        i = (i + batch) % len(texts)
    rate = done / (time.monotonic() - begin)
    peer.rest()
    return rate


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("bench")
    p.add_argument("model")
    p.add_argument("--llama")
    p.add_argument("--torch")
    p.add_argument("--seconds", type=float, default=2)
    args = p.parse_args()
    texts = sentences()
    peers = {}
    if args.llama:
        peers["llama-server"] = Llama(args.llama, args.model)
    if args.torch:
        peers["torch"] = Torch(args.torch)
    for peer in peers.values():
        peer.rest()
    failed = False
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("\n".join(texts) + "\n")
        f.flush()
        for batch in BATCHES:
            rate = ours(args.bench, args.model, f.name, batch, args.seconds)
            line = f"batch {batch:4}: {rate:8.1f} texts/s"
            for name, peer in peers.items():
                other = measure(peer, texts, batch, args.seconds)
                failed |= rate < GOALS[name] * other
                line += f", {name} {other:8.1f} ({rate / other:.2f} x, goal {GOALS[name]:g})"
            print(line, flush=True)
    for peer in peers.values():
        peer.close()
    sys.exit(failed)


if __name__ == "__main__":
    main()
