# SPDX-License-Identifier: Apache-2.0
"""Tests model files that are truncated or overwritten while services use them. Requests to such a
model fail with a reason, other requests continue, and the service stays up. The next request gets
the new file."""
import http.client
import json
import os
import pathlib
import shutil
import time

import pytest

from conftest import ROOT, SLOW, Suite, check_log
from test_audio import post as post_form
from test_embed import GOLDEN, post

LONG = {"prompt": "Once upon a time", "max_tokens": 1900, "ignore_eos": True, "temperature": 0}
SHORT = {**LONG, "max_tokens": 8}
SOUND = ROOT / "tests/golden/audio/ears"


@pytest.fixture
def suite(tmp_path, model_dir):
    """Provides a copy of the models, which tests may damage."""
    models = tmp_path / "models"
    shutil.copytree(model_dir, models)
    shutil.copytree(GOLDEN / "bert-mean", models / "bert")
    shutil.copytree(GOLDEN / "bert-cls-dense", models / "other")
    shutil.copytree(ROOT / "packaging/ears/sconce-ears", models / "ears")
    for path in models.rglob("*"):
        if path.is_file():  # an old mtime, so that any write shows
            os.utime(path, (1000000000, 1000000000))
    suite = Suite(models, chat="  max_models: 2\n  context: 2048\n", embed="  max_models: 2\n")
    suite.models = models
    yield suite
    check_log(suite.close())


class Stream:
    """Represents one streamed completion: `text` and `error` are what was received, and `over` says
    whether the stream ended properly."""

    def __init__(self, suite, body):
        self.http = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
        self.http.request("POST", "/v1/completions", json.dumps({**body, "stream": True}))
        self.answer = self.http.getresponse()
        assert self.answer.status == 200, self.answer.read()
        self.text, self.error, self.over = "", None, False

    def read(self, n):
        """Reads up to n events, or all."""
        while n:
            try:
                line = self.answer.readline()
            except http.client.IncompleteRead:
                return self
            if not line:
                return self
            if not line.startswith(b"data: "):
                continue
            if line == b"data: [DONE]\n":
                self.over = True
                continue
            event = json.loads(line[6:])
            if "error" in event:
                self.error = event["error"]
            else:
                self.text += event["choices"][0]["text"]
            n -= 1
        return self


def complete(suite, **body):
    return post(suite, "/v1/completions", {**SHORT, **body})


def spoil(path, size=40000):
    """Does what `cp` does first with an existing file: makes it shorter, with the same inode."""
    whole = path.read_bytes()
    os.truncate(path, size)
    return whole


def told(suite, text):
    return [line for line in pathlib.Path(suite.log_path).read_text().splitlines() if text in line]


def test_a_stream_whose_model_is_cut_short_ends_with_an_error_and_others_go_on(suite):
    tiny = suite.models / "tiny.gguf"
    expected = complete(suite, model="tiny")[1]["choices"][0]["text"]
    other = complete(suite, model="plain", max_tokens=600)[1]["choices"][0]["text"]
    lost, goes_on = Stream(suite, {**LONG, "model": "tiny"}), \
        Stream(suite, {**LONG, "model": "plain", "max_tokens": 600})
    lost.read(5)
    goes_on.read(5)
    pid = suite.chat.pid
    whole = spoil(tiny)
    lost.read(-1)
    assert not lost.over
    assert lost.error["code"] == "model_changed", lost.error
    assert "tiny.gguf was cut short while it was in use" in lost.error["message"]
    goes_on.read(-1)
    assert goes_on.over and goes_on.error is None and goes_on.text == other
    # The model cannot be loaded while its file is truncated.
    status, answer, _ = complete(suite, model="tiny")
    assert (status, answer["error"]["code"]) == (400, "model_unusable"), answer
    assert complete(suite, model="plain")[0] == 200
    tiny.write_bytes(whole)
    status, answer, _ = complete(suite, model="tiny")
    assert status == 200 and answer["choices"][0]["text"] == expected
    assert suite.chat.pid == pid and suite.chat.starts == 1
    assert len(told(suite, "unloading tiny: tiny.gguf was cut short while it was in use")) == 1


def test_a_request_that_is_no_stream_is_told_to_try_again(suite):
    connection = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
    assert complete(suite, model="tiny")[0] == 200
    connection.request("POST", "/v1/completions", json.dumps({**LONG, "model": "tiny", "n": 4}))
    end = time.monotonic() + 20 * SLOW
    while not suite.chat_metrics()["sconce_chat_sequences_running"]:
        assert time.monotonic() < end
    whole = spoil(suite.models / "tiny.gguf")
    answer = connection.getresponse()
    error = json.loads(answer.read())["error"]
    assert (answer.status, error["code"]) == (503, "model_changed"), error
    assert answer.getheader("retry-after")
    (suite.models / "tiny.gguf").write_bytes(whole)
    assert complete(suite, model="tiny")[0] == 200
    assert suite.chat.starts == 1


def test_a_file_that_was_written_to_is_loaded_again(suite):
    """The file is overwritten in place with weights of the same size: no answer uses the old
    weights."""
    tiny, plain = suite.models / "tiny.gguf", suite.models / "plain.gguf"
    expected = complete(suite, model="tiny")[1]["choices"][0]["text"]
    data = bytearray(tiny.read_bytes())
    half = len(data) // 2
    data[half:] = bytes(len(data) - half)
    with open(tiny, "r+b") as f:
        f.write(data)
    status, answer, _ = complete(suite, model="tiny")
    assert status != 200 or answer["choices"][0]["text"] != expected
    with open(tiny, "r+b") as f:
        f.write(plain.read_bytes().ljust(len(data), b"\0"))
    assert complete(suite, model="tiny")[1]["choices"][0]["text"] == expected
    assert len(told(suite, "unloading tiny: tiny.gguf was written to while it was in use")) >= 1
    assert suite.chat.starts == 1


def test_a_file_that_is_replaced_by_renaming_disturbs_nobody(suite):
    tiny = suite.models / "tiny.gguf"
    stream = Stream(suite, {**LONG, "model": "tiny", "max_tokens": 600}).read(5)
    shutil.copy(suite.models / "plain.gguf", suite.models / "new")
    os.rename(suite.models / "new", tiny)
    stream.read(-1)
    assert stream.over and stream.error is None
    assert complete(suite, model="tiny")[0] == 200


def test_vectors(suite):
    def vector(model):
        status, answer, _ = post(suite, "/v1/embeddings", {"model": model, "input": "ab"})
        return answer["data"][0]["embedding"] if status == 200 else (status, answer["error"]["code"])

    weights = suite.models / "bert/model.safetensors"
    expected, other = vector("bert"), vector("other")
    whole = spoil(weights, 8192)
    assert vector("bert") == (400, "model_unusable")
    assert vector("other") == other
    weights.write_bytes(whole)
    assert vector("bert") == expected
    assert suite.embed.starts == 1


def test_speech(suite):
    name = sorted(json.loads((SOUND / "texts.json").read_text()))[0]
    sound = next(SOUND.glob(name + "*")).read_bytes()

    def hear():
        status, _, body = post_form(suite, [("file", ("a", sound)), ("model", "ears")])
        return status, body

    weights = next((suite.models / "ears").glob("*.safetensors"))
    status, expected = hear()
    if status == 503:
        pytest.skip("a build without libav")
    assert status == 200, expected
    whole = spoil(weights, 8192)
    status, body = hear()
    assert status == 400 and b"model_unusable" in body
    weights.write_bytes(whole)
    assert hear() == (200, expected)
    assert suite.audio.starts == 1
