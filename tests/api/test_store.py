# SPDX-License-Identifier: Apache-2.0
"""Tests the routes that change the store, POST /api/pull, DELETE /api/delete and POST /api/copy,
with a hub on this machine, which gives false answers in some tests."""
import hashlib
import json
import os
import threading

import pytest

from store_service import ASKS, CHANGES, WEIGHTS, Stores

# --- pulls ---

def test_a_pull_tells_its_progress_as_ollama_does(stores, hub):
    hub.put_repository("org/small-GGUF", {"small-Q8_0.gguf": WEIGHTS})
    status, lines = stores.pull("org/small-GGUF:Q8_0")
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    assert status == 200
    assert lines[0] == {"status": "pulling manifest"}
    files = [line for line in lines if line["status"] == "pulling " + digest[:12]]
    assert files and all(f["digest"] == "sha256:" + digest and f["total"] == len(WEIGHTS) for f in files)
    counts = [f["completed"] for f in files]
    assert counts == sorted(counts) and counts[-1] == len(WEIGHTS)
    assert lines[-3]["status"] == "verifying sha256 digest"
    assert lines[-2:] == [{"status": "writing manifest"}, {"status": "success"}]
    assert stores.has("small-Q8_0")
    mode = os.stat(os.path.join(stores.path, "small-Q8_0/small-Q8_0.gguf")).st_mode & 0o777
    assert mode == 0o644
    assert os.listdir(os.path.join(stores.path, ".incoming")) == []
    # The second pull finds the files.
    n = len(hub.requests)
    assert stores.pull("hf.co/org/small-GGUF:Q8_0")[1][-1] == {"status": "success"}
    assert len(hub.requests) == n + 1


def test_without_a_stream_the_answer_is_one_object(stores, hub):
    hub.put_ollama("small", "latest", WEIGHTS)
    assert stores.ask("POST", "/api/pull", {"name": "small", "stream": False}) == \
        (200, {"status": "success"})
    assert stores.has("small")
    status, body = stores.ask("POST", "/api/pull", {"model": "absent", "stream": False})
    assert status == 404 and "no such model" in body["error"]


def test_the_client_of_ollama_pulls_copies_and_deletes(stores, hub):
    ollama = pytest.importorskip("ollama")
    client = ollama.Client(host=stores.url, headers={"Authorization": "Bearer " + CHANGES})
    hub.put_ollama("small", "1b", WEIGHTS)
    told = [p.status for p in client.pull("small:1b", stream=True)]
    assert told[0] == "pulling manifest" and told[-1] == "success"
    assert client.pull("small:1b").status == "success"
    assert client.copy("small:1b", "mine").status == "success"
    assert client.delete("mine").status == "success"
    assert stores.has("small:1b")
    assert client.delete("small:1b").status == "success"
    assert not stores.has("small:1b")
    with pytest.raises(ollama.ResponseError) as e:
        client.delete("small:1b")
    assert e.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="no such model"):
        list(client.pull("absent", stream=True))


def test_two_clients_share_one_pull(stores, hub):
    hub.put_ollama("slow", "latest", WEIGHTS)
    hub.pace = 0.02
    found = []
    threads = [threading.Thread(target=lambda: found.append(stores.pull(name)))
               for name in ("slow", "ollama:slow")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [lines[-1] for _, lines in found] == [{"status": "success"}] * 2
    assert stores.fetch.starts == 1
    assert len([path for path, _ in hub.requests if "/manifests/" in path]) == 1


def test_pulls_wait_for_each_other_and_are_bounded(hub, certificate):
    s = Stores(hub, certificate[0], store="  max_pulls: 2\n")
    try:
        hub.pace = 0.02
        for name in "abc":
            hub.put_ollama(name, "latest", WEIGHTS + name.encode())
        first, second = (s.send("POST", "/api/pull", {"model": name}) for name in "ab")
        status, body = s.ask("POST", "/api/pull", {"model": "c"})
        assert status == 503 and "2 models" in body["error"]
        for _, r in (first, second):
            assert json.loads(r.read().splitlines()[-1]) == {"status": "success"}
        assert s.fetch.starts == 2
    finally:
        s.close()


def test_a_pull_without_clients_stops_and_goes_on_later(stores, hub):
    data = WEIGHTS * (40 * 1024 * 1024 // len(WEIGHTS))
    hub.put_ollama("big", "latest", data)
    hub.pace = 0.01
    c, r = stores.send("POST", "/api/pull", {"model": "big"})
    # Three connections fetch chunks of 16, 16 and 8 MiB. Then the smallest one is complete.
    while json.loads(r.readline()).get("completed", 0) < 28 << 20:
        pass
    r.close()
    c.close()
    stores.wait(lambda: stores.running() == 0)
    assert not stores.has("big")
    hub.pace = 0
    hub.requests.clear()
    status, lines = stores.pull("big")
    assert lines[-1] == {"status": "success"} and stores.has("big")
    ranges = [headers["Range"] for path, headers in hub.requests if "Range" in headers and
              headers["Range"] != "bytes=0-0"]
    # A chunk had arrived already.
    assert ranges and len(ranges) < -(-len(data) // (16 << 20))


# --- removals and names ---

def test_a_copy_is_a_name_and_its_removal_keeps_the_model(stores, hub):
    hub.put_repository("org/m", {"m-Q8_0.gguf": WEIGHTS})
    assert stores.pull("org/m:Q8_0")[1][-1] == {"status": "success"}
    assert stores.ask("POST", "/api/copy", {"source": "org/m:Q8_0", "destination": "mine"}) == (200, None)
    assert stores.ask("POST", "/api/copy", {"source": "mine", "destination": "mine"}) == (200, None)
    assert stores.ask("DELETE", "/api/delete", {"model": "mine"}) == (200, None)
    assert stores.has("m-Q8_0")
    assert stores.ask("DELETE", "/api/delete", {"model": "mine"})[0] == 404
    # The name by which a model was pulled stands for the model.
    assert stores.ask("DELETE", "/api/delete", {"name": "hf.co/org/m:Q8_0"}) == (200, None)
    assert not stores.has("m-Q8_0")
    assert os.listdir(os.path.join(stores.path, ".blobs")) == []


def test_wrong_changes_are_refused(stores, hub):
    for name in "ab":
        hub.put_ollama(name, "latest", WEIGHTS + name.encode())
        assert stores.pull(name)[1][-1] == {"status": "success"}
    refused = [
        ("POST", "/api/copy", {"source": "a", "destination": "b"}, 400, "a name of b"),
        ("POST", "/api/copy", {"source": "a", "destination": "../b"}, 400, "cannot be a name"),
        ("POST", "/api/copy", {"source": "a", "destination": ".b"}, 400, "cannot be a name"),
        ("POST", "/api/copy", {"source": "a"}, 400, "destination"),
        ("POST", "/api/copy", {"source": "c", "destination": "d"}, 404, "'c' not found"),
        ("DELETE", "/api/delete", {}, 400, "model"),
        ("DELETE", "/api/delete", {"model": "../models/a"}, 404, "not found"),
        ("DELETE", "/api/delete", {"model": "a", "force": True}, 400, "force"),
        ("DELETE", "/api/delete", "{", 400, "JSON"),
    ]
    for method, path, body, status, text in refused:
        got, answer = stores.ask(method, path, body)
        assert got == status and text in answer["error"], (path, body, answer)
    assert stores.has("a") and stores.has("b")


# --- attacks ---

@pytest.mark.parametrize("method, path", [("POST", "/api/pull"), ("DELETE", "/api/delete"),
                                          ("POST", "/api/copy")])
def test_only_a_key_with_the_right_changes_the_store(stores, method, path):
    status, body = stores.ask(method, path, {"model": "a"}, key=ASKS)
    assert status == 403 and '"manage"' in body["error"]
    assert stores.ask(method, path, {"model": "a"}, key=None)[0] == 401
    assert stores.ask(method, path, {"model": "a"}, key="sk-" + "c" * 40)[0] == 401
    assert stores.store.starts == 0 and stores.fetch.starts == 0


def test_an_empty_request_tells_that_pulls_are_possible(stores):
    status, body = stores.ask("POST", "/api/pull", {})
    assert status == 400 and "'model'" in body["error"]


@pytest.mark.parametrize("name", [
    "https://example.org/m.gguf", "http://127.0.0.1/m.gguf", "file:///etc/passwd", "/etc/passwd", "./m",
    "../m", "org/../m", "org/m:../../x", "a/b/c", "hf.co/a", "hf.co/a/b/c", "a b", "a\nb", "org/.m",
    "ollama:../x", "m:a/b", "-" * 400, "", 7, None, ["m"],
])
def test_names_that_are_no_models_are_refused(stores, name):
    status, body = stores.ask("POST", "/api/pull", {"model": name})
    assert status == 400, body
    assert stores.fetch.starts == 0 and os.listdir(stores.path) == []


def test_models_are_fetched_with_certificates_alone(stores):
    assert stores.ask("POST", "/api/pull", {"model": "m", "insecure": True})[0] == 400


def error_of(stores, name):
    """Pulls a model; returns the error, which must be the last line."""
    status, lines = stores.pull(name)
    assert status == 200 and list(lines[-1]) == ["error"], lines
    found = [n for n in os.listdir(stores.path) if not n.startswith(".")]
    assert found == [], found
    return lines[-1]["error"]


@pytest.mark.parametrize("target", ["https://127.0.0.1:9/x", "https://169.254.169.254/latest/meta-data",
                                    "https://[::1]/x", "http://example.org/x", "file:///etc/passwd"])
def test_a_redirect_out_of_the_internet_is_refused(stores, hub, target):
    hub.put_ollama("m", "latest", WEIGHTS)
    hub.faults.append(("/blobs/", lambda h: h.answer(302, b"", Location=target) or True))
    assert error_of(stores, "m")


def test_a_hub_that_lies_installs_nothing(stores, hub):
    hub.put_repository("org/m", {"m-Q8_0.gguf": WEIGHTS})
    path = next(p for p in hub.files if p.endswith(".gguf"))
    hub.files[path] = WEIGHTS[:-1] + b"x"
    assert "digest" in error_of(stores, "org/m:Q8_0")
    # The hub sends the right bytes again.
    hub.files[path] = WEIGHTS
    assert stores.pull("org/m:Q8_0")[1][-1] == {"status": "success"}


@pytest.mark.parametrize("file", ["../m.safetensors", "/etc/m.safetensors", "a/../../m.safetensors"])
def test_names_that_climb_are_refused(stores, hub, file):
    hub.put_repository("org/m", {"config.json": b"{}", "model.safetensors": b"x", file: b"x"})
    status, lines = stores.pull("org/m")
    assert list(lines[-1]) == ["error"] or not [
        n for n in os.listdir(os.path.dirname(stores.path)) if n.endswith(".safetensors")]


def test_the_server_stays_when_the_hub_fails(stores, hub):
    hub.put_ollama("m", "latest", WEIGHTS)
    hub.faults.append(("/manifests/", lambda h: h.answer(403, b"no") or True))
    assert "403" in error_of(stores, "m")
    hub.faults.clear()
    assert stores.pull("m")[1][-1] == {"status": "success"}
    assert stores.store.starts == 1
