# SPDX-License-Identifier: Apache-2.0
"""Tests model directories with links, manifests and other files. Models work wherever their files
are. The service reports other files, and they do not disturb the models.

The services are confined as in production, so an answer proves that they could open the file.
"""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, ROOT, SLOW, Suite, check_log
from test_embed import GOLDEN, post

GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
MODELS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def as_hub(source, hub):
    """Stores a model as in Hugging Face's cache: all files are links to blobs. Returns its
    snapshot."""
    top = hub / ("models--test--" + source.name)
    snapshot = top / "snapshots/0123abc"
    (top / "blobs").mkdir(parents=True)
    for path in source.rglob("*"):
        if not path.is_file():
            continue
        blob = top / "blobs" / hashlib.sha256(path.read_bytes()).hexdigest()
        link = snapshot / path.relative_to(source)
        shutil.copy(path, blob)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))
    return snapshot


def listed(models):
    r = subprocess.run([str(BUILD / "services/cli/sconce"), "list", "--json", "--models", str(models)],
                       capture_output=True, text=True, timeout=30)
    assert r.returncode == 0, r.stderr
    entries = [e for e in json.loads(r.stdout) if e["path"].startswith(str(models))]
    return ({e["name"]: e for e in entries if "error" not in e},
            {e["name"]: e["error"] for e in entries if "error" in e})


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Provides models on another disk, the model directory, and files that must stay unreadable."""
    top = tmp_path_factory.mktemp("links")
    disk, models, hub = top / "disk", top / "models", top / "hub"
    shutil.copytree(GOLDEN, disk)
    models.mkdir()
    for name in MODELS:
        (models / name).symlink_to(disk / name)
        (models / (name + "-hub")).symlink_to(str(as_hub(disk / name, hub)) + "/")
    (models / "one-by-one").mkdir()
    for path in (disk / "bert-mean").iterdir():
        (models / "one-by-one" / path.name).symlink_to(path)
    shutil.copy(GUIDE, disk / "guide.gguf")
    blob = top / "ollama/blobs" / ("sha256-" + "5" * 64)
    blob.parent.mkdir(parents=True)
    shutil.copy(GUIDE, blob)
    (models / "tiny.gguf").symlink_to(disk / "guide.gguf")
    (models / "blob.gguf").symlink_to(blob)
    (models / "chain.gguf").symlink_to(models / "blob.gguf")
    (models / "far.yaml").write_text("path: ../disk/guide.gguf\naliases: [remote]\n")
    return top


def put_broken(top):
    models = top / "models"
    (top / "secret").write_text("secret\n")
    for name, target in {"root": "/", "etc": "/etc", "secret.gguf": top / "secret",
                         "lost.gguf": "nowhere", "circle": models / "circle", "up": models,
                         "folder": top, "fifo.gguf": top / "fifo", "zero.gguf": "/dev/zero"}.items():
        (models / name).symlink_to(target)
    os.mkfifo(top / "fifo")
    shutil.copytree(GOLDEN / "bert-mean", models / "greedy")
    (models / "greedy/tokenizer.json").unlink()
    (models / "greedy/tokenizer.json").symlink_to(top / "secret")
    (models / "compose.yaml").write_text("services:\n  db: {}\n")
    (models / "cut.yaml").write_text("path: [\n")
    (models / "gone.yaml").write_text("path: gone.gguf\n")


BROKEN = {
    "root": "leads to the directory /, which is not a model",
    "etc": "leads to the directory /etc, which is not a model",
    "secret": "which is not a GGUF file",
    "lost": "lost.gguf leads to nowhere, which is not there",
    "circle": "is part of a loop of links",
    "up": "leads back to a model directory",
    "folder": "which is not a model: it needs config.json and *.safetensors",
    "fifo": "fifo.gguf is not a regular file",
    "zero": "zero.gguf is not a regular file",
    "greedy": "greedy has a file tokenizer.json that leads to ",
    "compose": 'compose.yaml:1:1: "services" is not a key of a manifest',
    "cut": "cut.yaml:2:1: ",
    "gone": "gone.yaml:1:7: gone.gguf is not there",
}


@pytest.fixture(scope="module")
def suite(places):
    put_broken(places)
    suite = Suite(places / "models", embed="  max_models: 2\n")
    yield suite
    check_log(suite.close())


def use(suite, name):
    """Sends a request that fits one of the golden models; returns the status."""
    if "rank" in name:
        return post(suite, "/rerank", {"model": name, "query": "a", "texts": ["a"]})[:2]
    body = {"model": name, "input": "a"}
    if "colbert" in name:
        body["return_multivector"] = True
    return post(suite, "/v1/embeddings", body)[:2]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["", "-hub"])
def test_a_linked_directory_is_read_file_by_file(suite, name, kind):
    status, answer = use(suite, name + kind)
    if name in ("qwen3-rank", "xlmr-rank"):  # they load, but cannot rank pairs
        assert (status, answer["code"]) == (400, "unsupported_model"), answer
    else:
        assert status == 200, answer


def test_links_of_single_files_are_followed(suite):
    assert use(suite, "one-by-one")[1]["data"] == use(suite, "bert-mean")[1]["data"]
    for name in ("tiny", "blob", "chain", "far", "remote"):
        status, answer, _ = post(suite, "/v1/completions",
                                 {"model": name, "prompt": "a", "max_tokens": 1})
        assert status == 200, answer


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_models_are_refused_with_a_reason(suite, places, name):
    status, answer, _ = post(suite, "/v1/completions", {"model": name, "prompt": "a"})
    assert (status, answer["error"]["code"]) == (404, "model_not_found"), answer
    assert BROKEN[name] in answer["error"]["message"]
    assert post(suite, "/v1/embeddings", {"model": name, "input": "a"})[0] == 404


def test_the_list_tells_each_reason(suite, places):
    models, broken = listed(places / "models")
    assert set(models) == {*MODELS, *(name + "-hub" for name in MODELS), "one-by-one", "tiny",
                           "blob", "chain", "far"}
    assert set(broken) == set(BROKEN)
    for name, reason in BROKEN.items():
        assert reason in broken[name]
    text = subprocess.run([str(BUILD / "services/cli/sconce"), "list", "--models",
                           str(places / "models")], capture_output=True, text=True).stdout
    assert "These entries cannot be used:" in text and all(why in text for why in broken.values())


def test_the_log_tells_each_reason_once(suite):
    post(suite, "/v1/completions", {"model": "root", "prompt": "a"})
    time.sleep(1.1)  # the list of models is valid for a second
    post(suite, "/v1/completions", {"model": "root", "prompt": "a"})
    log = pathlib.Path(suite.log_path).read_text(errors="replace")
    told = [line for line in log.splitlines()
            if "the model compose cannot be used: " in line and "chat" in line]
    assert len(told) == 1, told


def is_confined(suite):
    """Returns whether the services of this build confine themselves; sanitizer builds do not."""
    return "built without confinement" not in pathlib.Path(suite.log_path).read_text(errors="replace")


def test_a_linked_directory_that_comes_later_is_opened_by_the_next_service(tmp_path):
    shutil.copytree(GOLDEN / "bert-mean", tmp_path / "disk")
    (tmp_path / "models").mkdir()
    suite = Suite(tmp_path / "models")
    try:
        assert use(suite, "late")[0] == 404
        (tmp_path / "models/late").symlink_to(tmp_path / "disk")
        time.sleep(0.3)
        status, answer = use(suite, "late")
        if is_confined(suite):
            assert (status, answer["error"]["code"]) == (503, "model_load_failed"), answer
            assert "leads out of the model directories" in answer["error"]["message"]
            suite.embed.wait_gone(10 * SLOW)
            status, answer = use(suite, "late")
        assert status == 200, answer
    finally:
        check_log(suite.close())
