# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce embed` and `sconce transcribe` without a gateway: they start a service of their
own."""

import json
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from conftest import TREE
from mlx_whisper import write_mlx_whisper
from test_cli import Serve, run

VECTORS = TREE / "tests/golden/embed/bert-mean"
SPEECH = TREE / "tests/golden/audio/whisper"
SOUND = TREE / "tests/golden/audio/ears/1.opus"


@pytest.fixture
def installed(home):
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copytree(VECTORS, store / "vectors")
    shutil.copytree(SPEECH, store / "speech")
    return home


def left_in_tmp():
    """Returns the directories of services in /tmp whose owner has ended. Other tests run at the
    same time and have such directories, but their sockets are open, so the kernel lists them."""
    opened = pathlib.Path("/proc/net/unix").read_text()
    return {path for path in pathlib.Path("/tmp").glob("sconce-??????")
            if (path / "notify").exists() and f"{path}/notify" not in opened}


def wait_until_removed(before):
    """Fails if a directory stays that is not in @before. A process that ends closes its socket
    shortly before it removes its directory."""
    deadline = time.monotonic() + 10
    while left_in_tmp() - before:
        assert time.monotonic() < deadline, left_in_tmp() - before
        time.sleep(0.1)


def children_of(pid):
    return [int(c) for c in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_model_is_named_by_its_path(sconce, home):
    before = left_in_tmp()
    out = run(sconce, "embed", "-m", str(VECTORS), "hello")
    assert out.returncode == 0 and out.stderr == "" and len(json.loads(out.stdout)) > 8
    out = run(sconce, "transcribe", "-m", str(SPEECH), str(SOUND))
    assert out.returncode == 0 and out.stderr == "" and out.stdout.strip()
    wait_until_removed(before)


def test_the_file_of_a_model_in_this_directory_is_one(sconce, home, monkeypatch):
    shutil.copy(SPEECH / "ggml.bin", home / "ggml-mine.bin")
    monkeypatch.chdir(home)
    out = run(sconce, "transcribe", "-m", "ggml-mine.bin", str(SOUND))
    assert out.returncode == 0 and out.stdout.strip()


def test_a_model_of_mlx_whisper_hears_the_same(sconce, home):
    plain, mlx = home / "plain", home / "mlx"
    shutil.copytree(TREE / "packaging/ears/sconce-ears", plain)
    write_mlx_whisper(plain, mlx)
    # Models of mlx-whisper have no lists of tokens that are suppressed.
    settings = json.loads((plain / "generation_config.json").read_text())
    for key in ("suppress_tokens", "begin_suppress_tokens"):
        settings.pop(key, None)
    (plain / "generation_config.json").write_text(json.dumps(settings))
    texts = [json.loads(run(sconce, "transcribe", "-m", str(model), str(SOUND), "--words",
                            "-f", "json").stdout) for model in (plain, mlx)]
    assert texts[0]["text"].strip() and texts[0]["text"] == texts[1]["text"]
    # The positions, which only the first model stores, are rounded there to F16.
    for a, b in zip(texts[0]["words"], texts[1]["words"], strict=True):
        assert a["word"] == b["word"] and abs(a["start"] - b["start"]) < 0.05, (a, b)
    (mlx / "tokenizer.json").unlink()
    out = run(sconce, "transcribe", "-m", str(mlx), str(SOUND))
    assert out.returncode == 1 and "copy tokenizer.json of the same model" in out.stderr, out.stderr


def test_without_a_gateway_the_answer_is_the_same_as_with_one(sconce, installed):
    ways = [("embed", "-m", "vectors", "hello"), ("embed", "hello"),
            ("transcribe", "-m", "speech", str(SOUND)), ("transcribe", str(SOUND))]
    alone = [run(sconce, *words) for words in ways]
    assert [out.returncode for out in alone] == [0, 0, 0, 0], alone
    s = Serve(sconce)
    try:
        # The address has the form in which `sconce serve` prints it.
        for words, own in zip(ways, alone):
            out = run(sconce, *words, "--address", s.base + "/v1")
            assert (out.returncode, out.stdout) == (0, own.stdout)
        assert len(s.servers()) == 3
        assert run(sconce, "embed", "hello").stdout == alone[0].stdout
        assert len(s.servers()) == 3
    finally:
        s.stop()


def test_paths_that_are_no_models_are_reported(sconce, home):
    out = run(sconce, "embed", "-m", str(home), "hello")
    assert out.returncode == 1 and f"{home} is not a model" in out.stderr
    out = run(sconce, "embed", "-m", "nothing", "hello")
    assert out.returncode == 1 and "'nothing'" in out.stderr


def test_a_refusal_is_reported_once(sconce, installed, guide):
    """The service does not log an error that its answer already contains."""
    for words, told in ((("transcribe", "-m", guide, str(SOUND)), "is not a speech model"),
                        (("transcribe", "-m", "vectors", str(SOUND)), "is not a speech model"),
                        (("embed", "-m", str(SPEECH), "hello"), "makes no vectors")):
        out = run(sconce, *words)
        assert out.returncode == 1 and out.stdout == "", out
        assert told in out.stderr and len(out.stderr.splitlines()) == 1, out.stderr
    (installed / "config/sconce").mkdir()
    (installed / "config/sconce/sconce.yaml").write_text("audio:\n  thread: 2\n")
    for model in ("speech", str(SPEECH)):
        out = run(sconce, "transcribe", "-m", model, str(SOUND))
        assert out.returncode == 1 and out.stderr.count("audio.thread") == 1, out.stderr


def test_a_directory_of_models_is_named(sconce, installed, home):
    moved = home / "elsewhere"
    (home / "data/sconce/models").rename(moved)
    out = run(sconce, "embed", "--models", str(moved), "-m", "vectors", "hello")
    assert out.returncode == 0 and len(json.loads(out.stdout)) > 8
    out = run(sconce, "embed", "--models", str(moved), "--address", "127.0.0.1:1", "hello")
    assert out.returncode == 2 and "--address" in out.stderr


@pytest.mark.parametrize("sent,status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_service_too(sconce, installed, sent, status):
    before = left_in_tmp()
    p = subprocess.Popen([sconce, "embed", "-b", "1", "-"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    p.stdin.write("one\ntwo\nthree\n")
    p.stdin.flush()
    assert json.loads(p.stdout.readline())["embedding"]
    # The children are the worker and the service.
    children = children_of(p.pid)
    assert len(children) == 2
    p.send_signal(sent)
    assert p.wait(20) == status
    assert not [c for c in children if pathlib.Path(f"/proc/{c}").exists()]
    wait_until_removed(before)


def test_a_service_that_does_not_start_is_reported(build, home, monkeypatch):
    root = home / "programs"
    for name, text in (("cli/sconce", None), ("embed/sconce-embed", "#!/bin/sh\nexit 1\n")):
        (root / name).parent.mkdir(parents=True)
        if text:
            (root / name).write_text(text)
            (root / name).chmod(0o755)
        else:
            shutil.copy(build / "services/cli/sconce", root / name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build / "libinfer"))
    begin = time.monotonic()
    out = run(str(root / "cli/sconce"), "embed", "-m", str(VECTORS), "hello")
    assert out.returncode == 1 and "the embed service does not start" in out.stderr
    assert time.monotonic() - begin < 10


def test_invalid_and_dead_addresses(sconce, home):
    for address in ("http://127.0.0.1/v1", "127.0.0.1", "https://127.0.0.1:7266/v1", "unix:", ":",
                    "127.0.0.1:http", "http://127.0.0.1:7266/v2"):
        for verb in ("embed", "transcribe", "status"):
            out = run(sconce, verb, "--address", address, *(["x"] if verb != "status" else []))
            assert out.returncode == 2 and "--address" in out.stderr, (verb, address)
    for address in ("http://127.0.0.1:1/v1/", "http://[::1]:1", "localhost:1"):
        out = run(sconce, "embed", "--address", address, "x")
        assert out.returncode == 1 and "no gateway listens at " + address in out.stderr, out.stderr
