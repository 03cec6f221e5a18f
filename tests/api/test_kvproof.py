# SPDX-License-Identifier: Apache-2.0
"""Tests that no text of sconce depends on its caches, and that tests/bench/kvproof finds the wrong
texts that a server returns."""
import json
import os
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, SLOW, STORIES

TOOL = ROOT / "tests/bench/kvproof"
GOLDEN = ROOT / "tests/golden/models"
GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
SHORT = [GOLDEN / name for name in ("llama-gqa", "mistral-mix", "qwen2-tied", "qwen3-norm")]
pytestmark = pytest.mark.long

# A program with the options of llama-server. Its answers depend on the whole request. With caches,
# every fifth answer to a known prompt is wrong; each wrong answer adds a line to the file $WRONG.
FAKE = r'''#!%s
import hashlib, http.server, json, os, sys
cold = "--no-cache-prompt" in sys.argv
known = {}

class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.answer({})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "prompt" not in body:
            return self.answer({})
        if body["max_tokens"] == 200:  # its connection will be closed
            return self.answer({})
        key = json.dumps([body[k] for k in ("prompt", "seed", "temperature", "max_tokens")])
        n = 0 if cold else known.get(key, 0)
        known[key] = n + 1
        text = hashlib.sha256(key.encode()).hexdigest()[:body["max_tokens"]]
        if n %% 5 == 1:
            text = "wrong" + text
            with open(os.environ["WRONG"], "a") as f:
                f.write("wrong\n")
        texts = [text] * body.get("n", 1)
        n_prompt = len(body["prompt"]) // 4
        usage = {"prompt_tokens": n_prompt,
                 "prompt_tokens_details": {"cached_tokens": n_prompt // 2 if n else 0}}
        choices = [{"index": i, "text": t} for i, t in enumerate(texts)]
        if not body.get("stream"):
            return self.answer({"choices": choices, "usage": usage})
        self.send_response(200)
        self.end_headers()
        for event in ({"choices": choices}, {"choices": [], "usage": usage}):
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

address = sys.argv[sys.argv.index("--host") + 1], int(sys.argv[sys.argv.index("--port") + 1])
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
''' % sys.executable


def kvproof(tmp_path, *argv, timeout=300, **env):
    """Runs the tool; returns its exit status, its counts and its output."""
    counts = tmp_path / "counts.json"
    r = subprocess.run([sys.executable, str(TOOL), *map(str, argv), "--directory", str(tmp_path),
                        "--json", str(counts)], capture_output=True, text=True,
                       timeout=timeout * SLOW, env={**os.environ, **env})
    assert counts.exists(), r.stdout[-3000:] + r.stderr[-6000:]
    return r.returncode, json.loads(counts.read_text()), r.stdout[-3000:] + r.stderr[-6000:]


def check(tmp_path, models, n_texts, *more, **how):
    if not (BUILD / "services/cache/sconce-cache").exists():
        pytest.skip("no cache service in this build")
    status, counts, output = kvproof(tmp_path, "--bin", BUILD, "--model", *models, "--texts", n_texts,
                                     "--threads", 1, *more, **how)
    total = counts["all"]
    assert total["differing"] == total["other_numbers"] == total["errors"] == 0, output
    assert total["compared"] >= n_texts and status == 0, output
    assert total["n_cached"] > 0 and total["cancelled"] > 0 and total["controls"] > 0, output
    assert total["restored"] > 0, output


def test_no_text_depends_on_a_cache(tmp_path):
    check(tmp_path, SHORT, 300, "--controls", 5)


@pytest.mark.full
def test_no_text_of_any_family_depends_on_a_cache(tmp_path):
    stories = [STORIES] if STORIES.exists() else []
    n_texts = 20000 if SLOW == 1 else 2000  # sanitizers make the long run too slow
    check(tmp_path, [*sorted(GOLDEN.iterdir()), GUIDE, *stories], n_texts, timeout=7200)


def test_wrong_texts_are_counted(tmp_path):
    fake, wrong, docs = tmp_path / "fake", tmp_path / "wrong", tmp_path / "docs.md"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    docs.write_text("<!-- compare: kvproof-llama -->\nto be replaced\n<!-- end -->\n")
    status, counts, output = kvproof(tmp_path, "--server", "llama", "--bin", fake, "--model", GUIDE,
                                     "--texts", 200, "--docs", docs, WRONG=str(wrong))
    total = counts["all"]
    assert status == 0, output  # only sconce promises equal texts
    assert 0 < total["differing"] <= len(wrong.read_text().splitlines()), output
    assert total["noisy"] == 0 and total["crashes"] == 0, output
    assert total["restored"] + total["recomputed"] > 0 and total["n_cached"] > 0, output
    assert "to be replaced" not in docs.read_text()
    real = (ROOT / "docs/benchmarks.md").read_text()
    for section in ("kvproof-sconce", "kvproof-sconce-faults", "kvproof-llama",
                    "kvproof-llama-faults"):
        assert "<!-- compare: %s -->" % section in real
