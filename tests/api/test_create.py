# SPDX-License-Identifier: Apache-2.0
"""Tests POST /api/create, and HEAD and POST /api/blobs, which upload the files of models, with Ollama's own
client."""
import hashlib
import json
import os
import select
import socket
import subprocess
import threading
import time

import ollama
import pytest
import yaml

from activator import listen_unix
from conftest import BUILD, ROOT, SLOW
from store_service import ASKS, CHANGES, WEIGHTS, Stores

DIGEST = hashlib.sha256(WEIGHTS).hexdigest()


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


def client_of(stores, key=CHANGES):
    return ollama.Client(host=stores.url, headers={"Authorization": "Bearer " + key})


@pytest.fixture
def client(stores):
    return client_of(stores)


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.gguf"
    path.write_bytes(WEIGHTS)
    return path


def manifest(stores, name):
    with open(os.path.join(stores.path, name, "manifest.yaml")) as f:
        return yaml.safe_load(f)


def verified(stores, name):
    out = subprocess.run([BUILD / "services/cli/sconce", "verify", "--models", stores.path, name],
                         capture_output=True, text=True)
    return out.returncode == 0 and " 0 bad, 0 without" in out.stdout


def uploads(stores):
    path = os.path.join(stores.path, ".uploads")
    return sorted(os.listdir(path)) if os.path.exists(path) else []


def head(stores, digest, key=CHANGES):
    c, r = stores.send("HEAD", "/api/blobs/" + digest, "", key)
    r.read()
    c.close()
    return r.status


# --- uploads and models of them ---

def test_a_model_is_made_of_an_uploaded_file(stores, client, weights):
    assert head(stores, "sha256:" + DIGEST) == 404
    digest = client.create_blob(weights)
    assert digest == "sha256:" + DIGEST
    assert head(stores, digest) == 200 and uploads(stores) == ["sha256-" + DIGEST]
    assert client.create_blob(weights) == digest  # it is there already
    parts = list(client.create("mine:latest", files={"weights.gguf": digest}, license="apache-2.0\nand more",
                               parameters={"temperature": 0.25, "stop": ["###"], "num_ctx": 512},
                               template="<|im_start|>{{ .Prompt }}<|im_end|>", stream=True))
    assert parts[-1].status == "success"
    assert uploads(stores) == [] and verified(stores, "mine")
    made = manifest(stores, "mine")
    assert made["path"] == "weights.gguf" and made["sampling"] == {"temperature": 0.25}
    assert made["stop"] == ["###"] and made["context"] == 512 and made["template"] == "chatml"
    assert made["licence"] == "apache-2.0" and made["files"][0]["sha256"] == DIGEST
    assert os.listdir(os.path.join(stores.path, ".incoming")) == []
    mode = os.stat(os.path.join(stores.path, "mine/weights.gguf")).st_mode & 0o777
    assert mode == 0o644
    # The blob is still known, because the model has it, and the next model shares the file.
    assert head(stores, digest) == 200
    assert client.create("other", files={"weights.gguf": digest}).status == "success"
    assert os.stat(os.path.join(stores.path, "mine/weights.gguf")).st_ino == os.stat(
        os.path.join(stores.path, "other/weights.gguf")).st_ino


def test_a_model_of_another_one_takes_its_files_and_settings(stores, client, weights):
    digest = client.create_blob(weights)
    client.create("base", files={"w.gguf": digest}, template="chatml",
                  parameters={"temperature": 0.5, "top_k": 7, "stop": "a"})
    assert client.create("child", from_="base", parameters={"temperature": 0.1}).status == "success"
    child = manifest(stores, "child")
    assert child["sampling"] == {"temperature": 0.1, "top_k": 7} and child["stop"] == ["a"]
    assert child["template"] == "chatml" and child["files"] == manifest(stores, "base")["files"]
    client.delete("base")
    assert verified(stores, "child") and not stores.has("base")
    # A second creation replaces the model.
    client.create("child", from_="child", parameters={"temperature": 0.9})
    assert manifest(stores, "child")["sampling"] == {"temperature": 0.9, "top_k": 7}
    with pytest.raises(ollama.ResponseError) as e:
        client.create("next", from_="none")
    assert e.value.status_code == 404 and "model 'none' not found" in e.value.error


def test_a_model_outside_of_the_store_keeps_its_file(hub, certificate, tmp_path, weights):
    other = tmp_path / "other"
    other.mkdir()
    weights.rename(other / "far.gguf")
    stores = Stores(hub, certificate[0], directories=[str(other)])
    try:
        assert client_of(stores).create("near", from_="far", parameters={"top_p": 0.5}).status == "success"
        assert manifest(stores, "near") == {"path": str(other / "far.gguf"), "sampling": {"top_p": 0.5}}
        with pytest.raises(ollama.ResponseError) as e:
            client_of(stores).create("far", from_="near")
        assert e.value.status_code == 400 and "is a name of" in e.value.error
    finally:
        stores.close()


def test_safetensors_are_uploaded_with_their_configuration(stores, client):
    tree = ROOT / "tests/golden/embed/bert-mean"
    files = {str(p.relative_to(tree)): client.create_blob(p) for p in tree.rglob("*") if p.is_file()}
    assert client.create("bert", files=files).status == "success"
    assert verified(stores, "bert")
    out = subprocess.run([BUILD / "services/cli/sconce", "list", "--json", "--models", stores.path],
                         capture_output=True, text=True, check=True)
    (bert,) = [m for m in json.loads(out.stdout) if m["name"] == "bert"]
    assert bert["runs"] and bert["task"] == "embedding"
    del files["config.json"]
    with pytest.raises(ollama.ResponseError) as e:
        client.create("half", files=files)
    assert e.value.status_code == 400 and "the files are not a model" in e.value.error


# --- refusals ---

@pytest.mark.parametrize("fields, status, text", [
    ({"from": "base", "adapters": {"a": "sha256:" + DIGEST}}, 400, "'adapters'"),
    ({"from": "base", "system": "x" * 65537}, 400, "'system': it has 65537 bytes"),
    ({"from": "base", "system": "a\0b"}, 400, "'system'"),
    ({"from": "base", "system": ["x"]}, 400, "'system'"),
    ({"from": "base", "messages": "x"}, 400, "'messages'"),
    ({"from": "base", "messages": ["x"]}, 400, "'messages'"),
    ({"from": "base", "messages": [{"role": "user", "content": ""}]}, 400, "messages[0].content"),
    ({"from": "base", "messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role"),
    ({"from": "base", "messages": [{"role": "user", "content": "x", "images": ["x"]}]}, 400, "messages[0].images"),
    ({"from": "base", "messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "x"}]}, 400,
     "messages[1].role"),
    ({"from": "base", "system": "a", "messages": [{"role": "system", "content": "x"}]}, 400, "messages[0].role"),
    ({"from": "base", "messages": [{"role": "system", "content": "x" * 65537}]}, 400, "content has 65537 bytes"),
    ({"from": "base", "messages": [{"role": "user", "content": "x"}] * 65}, 400, "'messages'"),
    ({"from": "base", "messages": [{"role": "user", "content": "x" * 33000}] * 2}, 400, "66000 bytes"),
    ({"from": "base", "quantize": "q4_0"}, 400, "'quantize'"),
    ({"from": "base", "template": "{{ .Prompt }}"}, 400, "'template'"),
    ({"from": "base", "modelfile": "FROM x"}, 400, "'modelfile' must be absent: the instructions FROM"),
    ({"from": "base", "renderer": "qwen3"}, 400, "'renderer'"),
    ({"from": "base", "parser": "qwen3"}, 400, "'parser'"),
    ({"from": "base", "remote_host": "https://example.com"}, 400, "remote_host"),
    ({"from": "base", "parameters": {"num_gpu": 1}}, 400, "'parameters.num_gpu'"),
    ({"from": "base", "parameters": {"top_p": 2}}, 400, "'parameters.top_p'"),
    ({"from": "base", "parameters": {"stop": 3}}, 400, "'parameters.stop'"),
    ({"from": "base", "files": {"a.gguf": "sha256:" + DIGEST}}, 400, "both 'from' and 'files'"),
    ({}, 400, "'from'"),
    ({"files": {"a.gguf": "sha256:" + "0" * 64}}, 404, "has not been uploaded"),
    ({"files": {"a.gguf": "sha256:../../x"}}, 400, "digest of 'a.gguf'"),
    ({"files": {"../a.gguf": "sha256:" + DIGEST}}, 400, "'../a.gguf'"),
    ({"files": {"manifest.yaml": "sha256:" + DIGEST}}, 400, "'manifest.yaml'"),
    ({"from": "base", "model": "../up"}, 400, "'../up'"),
    ({"from": "base", "model": ".hidden"}, 400, "'.hidden'"),
])
def test_what_cannot_be_made_is_refused_by_name(stores, fields, status, text):
    got, answer = stores.ask("POST", "/api/create", {"model": "new", **fields})
    assert (got, text in answer["error"]) == (status, True), answer
    assert not stores.has("new")


def test_a_file_that_is_no_model_is_refused(stores, client, tmp_path):
    path = tmp_path / "text.gguf"
    path.write_bytes(b"no weights")
    digest = client.create_blob(path)
    with pytest.raises(ollama.ResponseError) as e:
        client.create("bad", files={"text.gguf": digest})
    assert e.value.status_code == 400 and "is not a GGUF file" in e.value.error
    assert not stores.has("bad") and os.listdir(os.path.join(stores.path, ".incoming")) == []


def test_only_a_key_with_the_right_uploads_and_creates(stores, weights):
    asks = client_of(stores, ASKS)
    for call in (lambda: asks.create_blob(weights), lambda: asks.create("x", from_="y")):
        with pytest.raises(ollama.ResponseError) as e:
            call()
        assert e.value.status_code == 403
    assert head(stores, "sha256:" + DIGEST, ASKS) == 403
    assert uploads(stores) == []


def test_a_push_is_refused_with_a_reason(stores):
    with pytest.raises(ollama.ResponseError) as e:
        client_of(stores, ASKS).push("mine")
    assert e.value.status_code == 501 and "nothing leaves this machine" in e.value.error


def test_a_wrong_digest_and_wrong_paths_are_refused(stores):
    status, answer = upload(stores, "sha256:" + "0" * 64, [b"abc"])
    assert status == 400 and "has the digest sha256:" + digest_of(b"abc") in answer
    for digest in ("sha256:abc", "sha1:" + "0" * 40, "sha256:" + "A" * 64, "sha256:" + "0" * 64 + "/x"):
        assert upload(stores, digest, [b"abc"])[0] == 400
        assert head(stores, digest) == 400
    status, answer = stores.ask("GET", "/api/blobs/sha256:" + DIGEST, {})
    assert status == 405 and uploads(stores) == []


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_of_an_upload_are_no_request(stores, chunked, elsewhere):
    """The service answers in the middle of an upload, first with its head and later with its body. The
    bytes that the client sends between them look like a request, but are a part of the upload."""
    path = os.path.join(stores.dir, "early.sock")
    stores.gateway.argv[stores.gateway.argv.index("--store-socket") + 1] = path
    begun, ends = threading.Event(), threading.Event()

    def answer(listener):
        with listener, listener.accept()[0] as s:
            data = b""
            while not data.endswith(b"first"):
                data += s.recv(65536).rstrip(b"\r\n")
            s.sendall(b"HTTP/1.1 421 Misdirected Request\r\n%sContent-Length: 2\r\n\r\n" %
                      (b"x-sconce-service: chat\r\n" if elsewhere else b""))
            begun.set()
            ends.wait(20 * SLOW)
            s.sendall(b"{}")

    thread = threading.Thread(target=answer, args=(listen_unix(path),))
    thread.start()
    length = "Transfer-Encoding: chunked\r\n" if chunked else "Content-Length: 1000000\r\n"
    with connect(stores, "sha256:" + DIGEST, length) as s:
        s.sendall(b"f4240\r\nfirst" if chunked else b"first")
        assert begun.wait(20 * SLOW)
        time.sleep(0.5 * SLOW)
        s.sendall((b"0\r\n\r\n" if chunked else b"") + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.5 * SLOW)
        ends.set()
        data = b""
        while part := s.recv(65536):
            data += part
    thread.join()
    assert data.startswith(b"HTTP/1.1 421 ") and data.endswith(b"\r\n\r\n{}"), data
    assert data.count(b"HTTP/1.1 ") == 1, data


# --- limits ---

def connect(stores, digest, head):
    s = socket.create_connection(("127.0.0.1", stores.port), timeout=60 * SLOW)
    s.sendall(("POST /api/blobs/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s\r\n" %
               (digest, CHANGES, head)).encode())
    return s


def read_answer(s):
    data = b""
    while b"\r\n\r\n" not in data:
        part = s.recv(65536)
        if not part:
            break
        data += part
    s.settimeout(0.5)
    try:
        while part := s.recv(65536):
            data += part
    except OSError:
        pass
    return int(data.split()[1]), data.partition(b"\r\n\r\n")[2].decode()


def upload(stores, digest, parts):
    """Uploads the parts as chunks; returns the status and the body of the answer."""
    with connect(stores, digest, "Transfer-Encoding: chunked\r\n") as s:
        try:
            for part in parts:
                s.sendall(b"%x\r\n%s\r\n" % (len(part), part))
            s.sendall(b"0\r\n\r\n")
        except OSError:
            pass  # the answer came before the end
        return read_answer(s)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_upload_takes_little_memory(stores, tmp_path, chunked):
    part, n = os.urandom(1 << 20), 300
    digest = hashlib.sha256()
    for _ in range(n):
        digest.update(part)
    name = "sha256:" + digest.hexdigest()
    before = [memory(s) for s in (stores.gateway, stores.store)]
    if chunked:
        assert upload(stores, name, [part] * n)[0] == 201
    else:
        with connect(stores, name, "Content-Length: %d\r\n" % (n << 20)) as s:
            for _ in range(n):
                s.sendall(part)
            assert read_answer(s)[0] == 201
    assert head(stores, name) == 200
    after = [memory(s) for s in (stores.gateway, stores.store)]
    assert all(b - a < 32 << 20 for a, b in zip(before, after)), (before, after)


def memory(service):
    """Returns the most bytes of memory that a process has had; 0: it does not run."""
    if not service.pid:
        return 0
    with open("/proc/%d/status" % service.pid) as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM"))


def test_the_uploads_together_have_a_limit(hub, certificate):
    stores = Stores(hub, certificate[0], store="  max_uploads: 40MiB\n")
    try:
        data = [bytes([i]) * (20 << 20) for i in range(3)]
        assert upload(stores, "sha256:" + digest_of(data[0]), [data[0]])[0] == 201
        with connect(stores, "sha256:" + digest_of(data[1]), "Content-Length: %d\r\n" % (21 << 20)) as s:
            status, answer = read_answer(s)
        assert status == 507 and "store.max_uploads" in answer
        status, answer = upload(stores, "sha256:" + digest_of(data[1] + data[2]), [data[1], data[2]])
        assert status == 507 and "store.max_uploads" in answer
        stores.wait(lambda: len(uploads(stores)) == 1)
        # A file that is older than a day is removed when the service starts.
        old = time.time() - 25 * 3600
        os.utime(os.path.join(stores.path, ".uploads/sha256-" + digest_of(data[0])), (old, old))
        stores.store.kill()
        stores.store.wait_gone()
        head(stores, "sha256:" + DIGEST)
        stores.wait(lambda: not uploads(stores))
        assert upload(stores, "sha256:" + digest_of(data[2]), [data[2]])[0] == 201
        assert uploads(stores) == ["sha256-" + digest_of(data[2])]
    finally:
        stores.close()


def test_small_uploads_count_with_four_kibibytes(hub, certificate):
    stores = Stores(hub, certificate[0], store="  max_uploads: 40KiB\n")
    try:
        statuses = [upload(stores, "sha256:" + digest_of(b"%d" % i), [b"%d" % i])[0] for i in range(11)]
        assert statuses == [201] * 10 + [507]
    finally:
        stores.close()


def test_uploaded_files_have_a_largest_number(stores):
    path = os.path.join(stores.path, ".uploads/sha256-%064x")
    os.mkdir(os.path.dirname(path))
    for i in range(4096):
        open(path % i, "w").close()
    status, answer = upload(stores, "sha256:" + digest_of(b"x"), [b"x"])
    assert status == 507 and "at most 4096 uploaded files" in answer
    # A file that is older than a day is removed when the service starts.
    os.utime(path % 0, (0, 0))
    stores.store.kill()
    stores.store.wait_gone()
    assert upload(stores, "sha256:" + digest_of(b"x"), [b"x"])[0] == 201


def test_a_model_frees_the_limit_for_the_next_upload(hub, certificate, weights):
    stores = Stores(hub, certificate[0], store="  max_uploads: %d\n" % (len(WEIGHTS) + 8000))
    try:
        client = client_of(stores)
        data = [WEIGHTS + b"%d" % i for i in range(4)]
        for i in range(4):
            weights.write_bytes(data[i])
            digest = client.create_blob(weights)
            status, answer = upload(stores, "sha256:" + digest_of(data[i - 1] + b"x"), [data[i - 1], b"x"])
            assert status == 507, answer
            assert client.create("m%d" % i, files={"w.gguf": digest}).status == "success"
    finally:
        stores.close()


def test_a_client_that_sends_too_slowly_loses_its_turn(hub, certificate):
    stores = Stores(hub, certificate[0], gateway="  body_timeout: 2s\n")
    try:
        for head in ("Content-Length: 1000000\r\n", "Transfer-Encoding: chunked\r\n"):
            with connect(stores, "sha256:" + DIGEST, head) as s:
                end = time.monotonic() + 15 * SLOW
                while time.monotonic() < end and not select.select([s], [], [], 0.2)[0]:
                    s.sendall(b"x" if head.startswith("C") else b"1\r\nx\r\n")
                assert time.monotonic() < end
                status, answer = read_answer(s)
            assert status == 408 and "bytes per second" in answer
        stores.wait(lambda: not uploads(stores))
    finally:
        stores.close()


def test_a_running_service_removes_a_file_that_is_a_day_old(stores):
    path = os.path.join(stores.path, ".uploads/sha256-" + "0" * 64)
    os.mkdir(os.path.dirname(path))
    for name, left in (("0", 6 * SLOW), ("1", 3600)):
        path = path[:-64] + name * 64
        open(path, "w").close()
        made = time.time() - 24 * 3600 + left
        os.utime(path, (made, made))
    assert head(stores, "sha256:" + "0" * 64) == 200  # starts the service
    stores.wait(lambda: uploads(stores) == ["sha256-" + "1" * 64])
    assert stores.store.starts == 1


def test_a_client_that_leaves_leaves_nothing(stores):
    with connect(stores, "sha256:" + DIGEST, "Content-Length: 10000000\r\n") as s:
        s.sendall(b"x" * 3000000)
        stores.wait(lambda: uploads(stores))
    stores.wait(lambda: not uploads(stores))
    # The service still works.
    assert upload(stores, "sha256:" + digest_of(b""), [])[0] == 201


def test_five_uploads_at_once_are_too_many(stores):
    open_ = [connect(stores, "sha256:%064d" % i, "Content-Length: 1000000\r\n") for i in range(4)]
    for s in open_:
        s.sendall(b"x" * 600000)
    stores.wait(lambda: len(uploads(stores)) == 4)
    status, answer = upload(stores, "sha256:" + "9" * 64, [b"x"])
    assert status == 503
    for s in open_:
        s.close()
    stores.wait(lambda: not uploads(stores))


def test_what_killed_processes_left_is_removed_at_the_next_start(stores, weights):
    removed = os.path.join(stores.path, ".removed.Ab12Cd/model")
    os.makedirs(removed)
    open(os.path.join(removed, "weights.gguf"), "w").close()
    os.makedirs(os.path.join(stores.path, ".uploads"))
    open(os.path.join(stores.path, ".uploads/.x12345"), "w").close()
    assert head(stores, "sha256:" + DIGEST) == 404  # starts the service
    stores.wait(lambda: not os.path.exists(os.path.dirname(removed)) and not uploads(stores))
