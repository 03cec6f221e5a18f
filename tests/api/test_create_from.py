# SPDX-License-Identifier: Apache-2.0
"""Tests what POST /api/create makes of models that were pulled, put or linked into the store, and what it must not
harm."""
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
import yaml

from conftest import BUILD
from store_service import CHANGES, WEIGHTS, Stores

DIGEST = hashlib.sha256(WEIGHTS).hexdigest()
PARAMS = {"temperature": 0.5, "stop": ["###"], "num_ctx": 512}


def path(stores, *parts):
    return os.path.join(stores.path, *parts)


def manifest(stores, name):
    with open(path(stores, name, "manifest.yaml")) as f:
        return yaml.safe_load(f)


def put(name, text):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def create(stores, name, status=200, text="", **fields):
    """Creates a model and compares the answer."""
    got, answer = stores.ask("POST", "/api/create", {"model": name, "stream": False, **fields})
    assert got == status and (status == 200 or text in answer["error"]), answer
    if status == 200:
        # The services can read it.
        out = subprocess.run([BUILD / "services/cli/sconce", "list", "--json", "--models", stores.path],
                             capture_output=True, text=True, check=True)
        assert name in [m["name"] for m in json.loads(out.stdout) if "error" not in m], (out.stdout, out.stderr)


def pull(stores, hub, name="base", params=None):
    hub.put_ollama(name, "latest", WEIGHTS, {"params": json.dumps(params or PARAMS).encode()})
    assert stores.pull(name)[1][-1] == {"status": "success"}


def upload(stores, data=WEIGHTS):
    """Uploads a file; returns the object `files` of a request."""
    with stores.connect_raw() as c:
        c.sendall(b"POST /api/blobs/sha256:%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                  b"Content-Length: %d\r\nConnection: close\r\n\r\n"
                  % (hashlib.sha256(data).hexdigest().encode(), CHANGES.encode(), len(data)) + data)
        answer = c.recv(65536)
    assert answer.split()[1] in (b"200", b"201"), answer
    return {"m.gguf": "sha256:" + hashlib.sha256(data).hexdigest()}


def read_bytes(stores):
    """Returns the number of bytes that the store service has read."""
    with open("/proc/%d/io" % stores.store.wait_pid()) as f:
        return int(f.readline().split()[1])


# --- manifests that the services can read ---

def test_a_model_of_ollamas_registry_keeps_its_parameters_once(stores, hub):
    pull(stores, hub)
    create(stores, "child", **{"from": "base"})
    assert manifest(stores, "child")["sampling"] == {"temperature": 0.5}
    create(stores, "child", **{"from": "base", "parameters": {"temperature": 0.25}})
    child = manifest(stores, "child")
    assert child["sampling"] == {"temperature": 0.25} and child["stop"] == ["###"] and child["context"] == 512
    create(stores, "base", **{"from": "base", "parameters": {"top_k": 3}})
    assert manifest(stores, "base")["sampling"] == {"temperature": 0.5, "top_k": 3}


@pytest.mark.parametrize("outside", [False, True])
def test_a_template_in_a_file_is_copied(hub, certificate, tmp_path, outside):
    stores = Stores(hub, certificate[0], directories=[str(tmp_path)])
    try:
        top = str(tmp_path) if outside else stores.path
        put(os.path.join(top, "base/m.gguf"), WEIGHTS)
        put(os.path.join(top, "base/t.jinja"), "{{ messages }}")
        put(os.path.join(top, "base/manifest.yaml"), "path: m.gguf\ntemplate: t.jinja\n")
        create(stores, "child", **{"from": "base"})
        child = manifest(stores, "child")
        assert child["template"] == "t.jinja"
        assert child["path"] == (os.path.join(top, "base/m.gguf") if outside else "m.gguf")
        shutil.rmtree(path(stores, "base"), ignore_errors=True)
        with open(path(stores, "child/t.jinja")) as f:
            assert f.read() == "{{ messages }}"
        # A child of the child has the file as well, and another template takes its place.
        create(stores, "next", **{"from": "child"})
        assert os.path.exists(path(stores, "next/t.jinja"))
        create(stores, "next", template="chatml", **{"from": "child"})
        assert manifest(stores, "next")["template"] == "chatml"
    finally:
        stores.close()


def test_texts_are_read_as_they_were_given(stores):
    files = upload(stores)
    stops = ["\u0081", "a\u0085b", "\u2028", "\ufeff", "\uffff", "é\"\\\x07"]
    create(stores, "mine", files=files, license="é" * 150, parameters={"stop": stops})
    mine = manifest(stores, "mine")
    assert mine["stop"] == stops and mine["licence"] == "é" * 99


def test_a_manifest_that_would_be_too_large_replaces_nothing(stores):
    files = upload(stores)
    create(stores, "mine", files=files)
    create(stores, "mine", 400, "manifest", **{"from": "mine", "parameters": {"stop": "x" * 1100000}})
    assert "stop" not in manifest(stores, "mine")


# --- what a killed process leaves ---

def test_a_killed_creation_leaves_nothing(stores):
    files = upload(stores)
    create(stores, "base", files=files)
    incoming = path(stores, ".incoming")
    with open(path(stores, ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Thread(target=lambda: stores.send("POST", "/api/create", {"model": "new", "from": "base"}),
                         daemon=True).start()
        stores.wait(lambda: os.listdir(incoming) and os.listdir(os.path.join(incoming, os.listdir(incoming)[0])))
        # The gateway repeats a request that fails within a second on a connection that it had kept.
        time.sleep(1.1)
        pid = stores.store.pid
        stores.store.kill(signal.SIGKILL)
        stores.wait(lambda: stores.store.pid != pid)
        # A directory whose process lives stays.
        held = os.path.join(incoming, "create-held00")
        os.mkdir(held)
        fd = os.open(held, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
    assert stores.ask("DELETE", "/api/delete", {"model": "base"}) == (200, None)
    stores.wait(lambda: os.listdir(incoming) == ["create-held00"])
    stores.wait(lambda: not os.listdir(path(stores, ".blobs")))
    os.close(fd)
    create(stores, "other", files=upload(stores))
    assert os.listdir(incoming) == []


# --- what a creation must not harm ---

@pytest.mark.parametrize("name", ["plain.gguf", "ggml-tiny.bin", "notes.yaml", "link"])
def test_a_file_of_the_store_is_not_replaced(stores, tmp_path, name):
    files = upload(stores)
    if name == "link":
        put(str(tmp_path / "model/manifest.yaml"), "path: /nowhere.gguf\n")
        os.symlink(tmp_path / "model", path(stores, name))
    else:
        put(path(stores, name), WEIGHTS)
    create(stores, name, 400, "", files=files)
    assert os.path.islink(path(stores, name)) or os.path.isfile(path(stores, name))


def test_an_empty_directory_is_replaced(stores):
    os.mkdir(path(stores, "mine"))
    create(stores, "mine", files=upload(stores))
    assert stores.has("mine")


def test_a_model_is_not_made_inside_of_another_one(stores):
    files = upload(stores)
    create(stores, "base", files=files)
    create(stores, "base/sub", 400, "is a model", **{"from": "base"})
    put(path(stores, "file"), "")
    create(stores, "file/sub", 400, "or a file", **{"from": "base"})
    put(path(stores, "tree/config.json"), "{}")
    create(stores, "tree/sub", 400, "is a model", **{"from": "base"})
    create(stores, "org/sub", **{"from": "base"})
    assert stores.has("org/sub") and not stores.has("base/sub")


def test_a_second_removal_finds_nothing(stores, hub):
    pull(stores, hub)
    create(stores, "child", **{"from": "base", "parameters": {"top_k": 3}})
    assert "source" not in manifest(stores, "child")
    assert stores.ask("DELETE", "/api/delete", {"model": "base"})[0] == 200
    assert stores.ask("DELETE", "/api/delete", {"model": "base"})[0] == 404
    assert stores.has("child")


# --- damage ---

def damage(name):
    with open(name, "r+b") as f:
        f.seek(100)
        f.write(b"damaged")


def test_a_damaged_upload_is_sent_again(stores):
    files = upload(stores)
    damage(path(stores, ".uploads/sha256-" + DIGEST))
    create(stores, "mine", 404, "upload it again", files=files)
    assert os.listdir(path(stores, ".uploads")) == []
    create(stores, "mine", files=upload(stores))
    assert stores.has("mine")


def test_a_damaged_blob_is_sent_again(stores):
    create(stores, "old", files=upload(stores))
    damage(path(stores, "old/m.gguf"))
    create(stores, "mine", 404, "upload it again", files={"m.gguf": "sha256:" + DIGEST})
    create(stores, "mine", files=upload(stores))
    with open(path(stores, "mine/m.gguf"), "rb") as f:
        assert f.read() == WEIGHTS


def test_a_damaged_model_is_named(stores):
    put(path(stores, "base/m.gguf"), WEIGHTS)
    put(path(stores, "base/manifest.yaml"), "path: m.gguf\nfiles:\n  - name: m.gguf\n    sha256: %s\n" % ("0" * 64))
    create(stores, "mine", 400, "is damaged", **{"from": "base"})
    assert os.path.exists(path(stores, "base/m.gguf"))


# --- files outside of the store ---

def test_a_file_outside_of_the_store_is_named_and_not_linked(stores, tmp_path):
    far = tmp_path / "far.gguf"
    far.write_bytes(WEIGHTS)
    put(path(stores, "near.yaml"), "path: %s\n" % far)
    os.symlink(far, path(stores, "linked.gguf"))
    for base in ("near", "linked"):
        create(stores, "mine", **{"from": base, "parameters": {"top_k": 3}})
        assert manifest(stores, "mine") == {"path": str(far), "sampling": {"top_k": 3}}
        assert os.listdir(path(stores, "mine")) == ["manifest.yaml"]
    assert os.stat(far).st_nlink == 1


def test_a_link_inside_of_the_store_is_followed(stores):
    put(path(stores, ".files/real.gguf"), WEIGHTS)
    os.symlink(".files/real.gguf", path(stores, "linked.gguf"))
    create(stores, "mine", **{"from": "linked"})
    assert not os.path.islink(path(stores, "mine/linked.gguf"))
    assert manifest(stores, "mine")["files"][0]["sha256"] == DIGEST


# --- bytes that are read ---

def test_files_of_the_store_are_not_read_again(stores):
    data = WEIGHTS + os.urandom(32 << 20)
    files = upload(stores, data)
    before = read_bytes(stores)
    create(stores, "base", files=files)
    create(stores, "child", **{"from": "base", "parameters": {"top_k": 3}})
    assert read_bytes(stores) - before < 4 << 20
    # A file that was changed after its arrival is read.
    put(path(stores, "plain.gguf"), data)
    create(stores, "third", **{"from": "plain"})
    assert read_bytes(stores) - before >= 32 << 20


def test_a_stream_tells_that_a_late_creation_goes_on(stores):
    create(stores, "base", files=upload(stores))
    with open(path(stores, ".lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        c, r = stores.send("POST", "/api/create", {"model": "late", "from": "base"})
        bad, wrong = stores.send("POST", "/api/create", {"model": "late", "from": "none"})
        assert json.loads(r.readline()) == {"status": "verifying sha256 digest"}
        assert wrong.status == 200 and json.loads(wrong.readline()) == {"status": "verifying sha256 digest"}
    lines = [json.loads(line) for line in r.read().splitlines()]
    assert lines[-2:] == [{"status": "writing manifest"}, {"status": "success"}]
    assert "'none' not found" in json.loads(wrong.read().splitlines()[-1])["error"]
    c.close()
    bad.close()
    assert stores.has("late")
