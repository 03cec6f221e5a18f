# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce embed`: vectors of files through the gateway, errors with line numbers, resumed
runs."""
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import time

import pytest

from conftest import BUILD, ROOT, SLOW, Suite, check_log
from test_embed import add_config

SCONCE = BUILD / "services/cli/sconce"


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    models = tmp_path_factory.mktemp("models")
    shutil.copytree(ROOT / "tests/golden/embed/bert-mean", models / "bert-mean")
    (models / "bert-mean/config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "find: "}}))
    add_config(models / "bert-mean", is_matryoshka=True)
    shutil.copytree(ROOT / "tests/golden/embed/bert-cls-dense", models / "other")
    suite = Suite(models, embed="  default_model: bert-mean\n")
    yield suite
    check_log(suite.close())


def argv(suite, *words):
    return [str(SCONCE), "embed", "--address", "unix:" + suite.gateway_sock, *map(str, words)]


def run(suite, *words, text=None):
    return subprocess.run(argv(suite, *words), capture_output=True, text=True, input=text,
                          timeout=60 * SLOW)


def rows(path):
    """Reads a NumPy array file by its published format, without NumPy."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    n_head, = struct.unpack("<H", data[8:10])
    assert (10 + n_head) % 64 == 0 and data[10 + n_head - 1:10 + n_head] == b"\n"
    head = eval(data[10:10 + n_head], {"__builtins__": {}})
    assert head["descr"] == "<f4" and head["fortran_order"] is False
    n, width = head["shape"]
    assert len(data) == 10 + n_head + n * width * 4
    values = struct.unpack("<%df" % (n * width), data[10 + n_head:])
    return [values[i * width:(i + 1) * width] for i in range(n)]


def test_one_text(suite):
    r = run(suite, "abc def")
    assert r.returncode == 0 and len(json.loads(r.stdout)) == 32
    assert run(suite, "abc", "--prompt-name", "query").stdout == run(suite, "find: abc").stdout
    assert len(json.loads(run(suite, "abc", "--dimensions", 5).stdout)) == 5
    assert len(json.loads(run(suite, "abc", "-m", "other").stdout)) == 16
    r = run(suite, "a" * 200)
    assert r.returncode == 1 and "80 tokens" in r.stderr
    assert run(suite, "a" * 200, "--truncate").returncode == 0


def test_lines_of_text_and_json(suite, tmp_path):
    texts = ["abc", "b", "a \"quoted\" text", "döner", "x" * 50] * 31
    (tmp_path / "in.txt").write_text("".join(t + "\n" for t in texts))
    (tmp_path / "in.jsonl").write_text("".join(
        json.dumps(t if i % 2 else {"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
    one = run(suite, tmp_path / "in.txt")
    assert one.returncode == 0, one.stderr
    lines = [json.loads(line) for line in one.stdout.splitlines()]
    assert [line["line"] for line in lines] == list(range(1, len(texts) + 1))
    other = [json.loads(line) for line in run(suite, tmp_path / "in.jsonl").stdout.splitlines()]
    assert [line["embedding"] for line in other] == [line["embedding"] for line in lines]
    assert [line.get("id") for line in other[:3]] == [0, None, 2]
    piped = run(suite, "-", "-b", 7, text="".join(t + "\n" for t in texts))
    assert piped.stdout == one.stdout
    r = run(suite, tmp_path / "in.txt", "-o", tmp_path / "out.npy")
    assert r.returncode == 0 and r.stderr == ""
    for row, line in zip(rows(tmp_path / "out.npy"), lines):
        assert struct.pack("32f", *row) == struct.pack("32f", *line["embedding"])
    assert not (tmp_path / "out.npy.part").exists()
    (tmp_path / "body.jsonl").write_text('{"body": "abc"}\n')
    assert "embedding" in run(suite, "--field", "body", tmp_path / "body.jsonl").stdout


def test_numpy_reads_it(suite, tmp_path):
    numpy = pytest.importorskip("numpy")
    (tmp_path / "in.txt").write_text("abc\ndef\n")
    assert run(suite, tmp_path / "in.txt", "-o", tmp_path / "out.npy").returncode == 0
    array = numpy.load(tmp_path / "out.npy")
    assert array.shape == (2, 32) and array.dtype == numpy.float32


def test_errors_are_reported_by_line(suite, tmp_path):
    lines = ['"abc"', "{", "", '{"body": 1}', '"%s"' % ("y" * 200), '"def"', '""']
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    r = run(suite, tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl")
    assert r.returncode == 1 and "5 lines have no vector" in r.stderr
    for number in (2, 3, 4, 5, 7):
        assert "in.jsonl:%d: " % number in r.stderr
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [o["line"] for o in out] == list(range(1, 8))
    assert ["embedding" in o for o in out] == [True, False, False, False, False, True, False]
    assert "80 tokens" in out[4]["error"]
    r = run(suite, tmp_path / "in.jsonl", "-o", tmp_path / "out.npy", "-b", 1)
    array = rows(tmp_path / "out.npy")
    assert [row[0] == row[0] for row in array] == [True, False, False, False, False, True, False]
    first = ["{", '"abc"']
    (tmp_path / "in.jsonl").write_text("\n".join(first) + "\n")
    run(suite, tmp_path / "in.jsonl", "-o", tmp_path / "late.npy", "-b", 1)
    assert [row[0] == row[0] for row in rows(tmp_path / "late.npy")] == [False, True]


@pytest.mark.parametrize("kind", ["npy", "jsonl"])
def test_an_interrupted_run_goes_on(suite, tmp_path, kind):
    texts = ["abc %d" % i for i in range(400)]
    (tmp_path / "in.txt").write_text("".join(t + "\n" for t in texts))
    out, whole = tmp_path / ("out." + kind), tmp_path / ("whole." + kind)
    assert run(suite, tmp_path / "in.txt", "-o", whole).returncode == 0
    p = subprocess.Popen(argv(suite, tmp_path / "in.txt", "-o", out, "-b", 1),
                         stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20 * SLOW
    while not out.exists() or out.stat().st_size < 3000:
        assert time.monotonic() < end
    p.send_signal(signal.SIGKILL)
    p.wait()
    size = out.stat().st_size
    assert size < whole.stat().st_size and out.with_suffix("." + kind + ".part").exists()
    # A run with another model refuses to continue this file. A run with the same model first removes
    # an incomplete row or line.
    r = run(suite, tmp_path / "in.txt", "-o", out, "-m", "other")
    assert r.returncode == 1 and "--anew" in r.stderr
    with open(out, "ab") as f:
        f.write(b"xyz")
    r = run(suite, tmp_path / "in.txt", "-o", out)
    assert r.returncode == 0 and "Continuing after line" in r.stderr
    assert out.read_bytes() == whole.read_bytes()
    r = run(suite, tmp_path / "in.txt", "-o", out)
    assert r.returncode == 1 and "complete" in r.stderr
    assert run(suite, tmp_path / "in.txt", "-o", out, "--anew", "--dimensions", 4).returncode == 0


def test_wrong_usage(suite, tmp_path):
    for words in ([], ["a", "b"], ["--batch", "0", "a"], ["--dimensions", "x", "a"],
                  ["a b", "-o", "x.npy"], ["-", "-o", "x.csv"]):
        assert run(suite, *words, text="").returncode == 2, words
    r = run(suite, tmp_path / "none.txt")
    assert r.returncode == 1 and "none.txt" in r.stderr
    r = run(suite, "abc", "-m", "none")
    assert r.returncode == 1 and "does not exist here" in r.stderr
    r = subprocess.run([SCONCE, "embed", "--address", "unix:/nowhere", "abc"], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 1 and "sconce serve" in r.stderr


def test_a_terminal_sees_progress(suite, tmp_path):
    (tmp_path / "in.txt").write_text("abc def ghi jkl mno pqr stu\n" * 40000)
    own, theirs = pty.openpty()
    p = subprocess.Popen(argv(suite, tmp_path / "in.txt", "-o", tmp_path / "out.npy"), stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while b"%" not in seen:
            seen += os.read(own, 1000)
    finally:
        p.kill()
        p.wait()
        os.close(own)
    assert b"embedding [" in seen
