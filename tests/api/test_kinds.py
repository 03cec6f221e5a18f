# SPDX-License-Identifier: Apache-2.0
"""Tests models of the wrong kind and unusable models: the error comes immediately, and no model is
unloaded."""
import http.client
import json
import math
import shutil
import struct
import time

import pytest

from conftest import ROOT, SLOW, Suite, check_log

pytestmark = pytest.mark.sanitize

CHAT, EMBED, AUDIO = "chat", "embed", "audio"
UNSUPPORTED, UNUSABLE = "unsupported_model", "model_unusable"


def wav():
    samples = b"".join(struct.pack("<h", int(9000 * math.sin(i / 9))) for i in range(8000))
    return (b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " +
            struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16) + b"data" +
            struct.pack("<I", len(samples)) + samples)


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    """Provides valid models of each kind, and some that no build of this tree supports."""
    path = tmp_path_factory.mktemp("kinds")
    for name in ("bert-mean", "bert-rank"):
        shutil.copytree(ROOT / "tests/golden/embed" / name, path / name)
    shutil.copytree(ROOT / "packaging/ears/sconce-ears", path / "ears")
    shutil.copy(model_dir / "tiny.gguf", path)
    data = (path / "tiny.gguf").read_bytes()
    arch = b"general.architecture" + struct.pack("<IQ", 8, 5)
    name = data.index(arch) + len(arch)
    (path / "other.gguf").write_bytes(data[:name] + b"mamba" + data[name + 5:])
    (path / "old.gguf").write_bytes(data[:4] + b"\x01" + data[5:])
    (path / "cut.gguf").write_bytes(data[:len(data) // 2])
    (path / "noise.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    (path / "empty.gguf").write_bytes(b"")
    for name in ("other-dir", "cut-dir", "bare-dir", "words-dir"):
        shutil.copytree(ROOT / "tests/golden/embed/bert-mean", path / name)
    config = json.loads((path / "other-dir/config.json").read_text())
    config.update(architectures=["MambaForCausalLM"], model_type="mamba")
    (path / "other-dir/config.json").write_text(json.dumps(config))
    weights = path / "cut-dir/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    (path / "bare-dir/tokenizer.json").unlink()
    (path / "words-dir/config.json").write_text("{")
    (path / "ggml-cut.bin").write_bytes(b"lmgg" + b"\0" * 60)
    return path


@pytest.fixture(scope="module")
def suite(models):
    suite = Suite(models, embed="  max_models: 1\n")
    yield suite
    check_log(suite.close())


def send(suite, path, body, content_type="application/json"):
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=60 * SLOW)
    c.request("POST", path, body, {"content-type": content_type})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, json.loads(data)


def chat(suite, model):
    return send(suite, "/v1/chat/completions", json.dumps(
        {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}))


def tokenize(suite, model):
    return send(suite, "/tokenize", json.dumps({"model": model, "content": "Hi"}))


def vectors(suite, model):
    return send(suite, "/v1/embeddings", json.dumps({"model": model, "input": "abc"}))


def rank(suite, model):
    return send(suite, "/v1/rerank", json.dumps({"model": model, "query": "a",
                                                 "documents": ["b", "c"]}))


def hear(suite, model):
    body = b"".join(b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % part
                    for part in ((b"model", b"", model.encode()),
                                 (b"file", b'; filename="a.wav"', wav())))
    return send(suite, "/v1/audio/transcriptions", body + b"--x--\r\n",
                "multipart/form-data; boundary=x")


# For each kind of request: the function that sends it, the service, and a model that can answer it.
ASKS = {"chat": (chat, CHAT, "tiny"), "tokenize": (tokenize, CHAT, "tiny"),
        "vectors": (vectors, EMBED, "bert-mean"), "rank": (rank, EMBED, "bert-rank"),
        "hear": (hear, AUDIO, "ears")}

# Unusable models, with the expected error message.
BROKEN = {
    "other": (UNSUPPORTED, ("mamba", "llama", "qwen3", "bert")),
    "old": (UNSUPPORTED, ("version 1",)),
    "other-dir": (UNSUPPORTED, ("MambaForCausalLM", "llama", "qwen3", "gemma4_text", "gpt_oss", "bitnet")),
    "cut": (UNUSABLE, ()), "noise": (UNUSABLE, ()), "empty": (UNUSABLE, ()),
    "cut-dir": (UNUSABLE, ()), "bare-dir": (UNUSABLE, ("tokenizer.json",)),
    "words-dir": (UNUSABLE, ("config.json",)), "ggml-cut": (UNUSABLE, ()),
}

OF_OTHER_KINDS = [
    ("chat", "bert-mean", "vectors"), ("chat", "bert-rank", ""), ("chat", "ears", "speech"),
    ("tokenize", "bert-mean", "vectors"), ("tokenize", "ears", "speech"),
    ("vectors", "ears", "speech"), ("rank", "ears", "speech"), ("rank", "tiny", "rank"),
    ("rank", "bert-mean", "rank"),
    ("hear", "tiny", "speech"), ("hear", "bert-mean", "speech"), ("hear", "bert-rank", "speech"),
]


def loads(suite, service):
    return getattr(suite, service + "_metrics")()["sconce_%s_model_loads_total" % service]


def check_refused(suite, ask, model, code, words):
    """Checks that the error does not make clients retry, and that the loaded model stays loaded."""
    run, service, good = ASKS[ask]
    assert run(suite, good)[0] == 200
    before = loads(suite, service)
    status, answer = run(suite, model)
    error = answer["error"]
    assert (status, error["code"], error["param"]) == (400, code, "model"), answer
    assert error["type"] == "invalid_request_error"
    assert "'%s'" % model in error["message"]
    for word in words:
        assert word in error["message"]
    assert run(suite, good)[0] == 200
    assert loads(suite, service) == before


@pytest.mark.parametrize("ask, model, word", OF_OTHER_KINDS)
def test_a_model_of_another_kind_is_refused(suite, ask, model, word):
    check_refused(suite, ask, model, UNSUPPORTED, (word,))


@pytest.mark.parametrize("model", BROKEN)
@pytest.mark.parametrize("ask", ("chat", "vectors", "rank", "hear"))
def test_a_model_that_cannot_be_used_is_refused(suite, ask, model):
    check_refused(suite, ask, model, *BROKEN[model])


def test_what_a_decoder_can_do_it_may(suite):
    """A decoder makes vectors when a request names it, although the list calls it a chat model."""
    status, answer = vectors(suite, "tiny")
    assert status == 200 and answer["data"][0]["embedding"]


def test_clients_do_not_try_again(suite):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=3, timeout=60)
    before = suite.chat_metrics()["sconce_chat_requests_total"]
    for model in ("bert-mean", "other", "cut"):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model=model, prompt="a")
    assert suite.chat_metrics()["sconce_chat_requests_total"] == before + 3


@pytest.mark.parametrize("ask", ("chat", "vectors", "hear"))
def test_a_model_that_was_just_installed_is_found(suite, models, ask):
    """A list of models is valid for a second, but a name that is not in it makes the service scan
    again."""
    run, _, good = ASKS[ask]
    name = "new-" + ask
    assert run(suite, good)[0] == 200
    assert run(suite, name)[0] == 404
    time.sleep(0.3)
    source = next(p for p in (models / good, models / (good + ".gguf")) if p.exists())
    target = models / source.name.replace(good, name)
    target.symlink_to(source.name)
    try:
        assert run(suite, name)[0] == 200
    finally:
        target.unlink()
