# SPDX-License-Identifier: Apache-2.0
"""Compares `sconce pull` with the hub's own client `huggingface_hub` and with curl, at the server of the tests.

All three have to agree about the server. This also checks the server itself: the clients were not written for it.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys

import hub as hubs
import pytest

pytest.importorskip("huggingface_hub")
REPOSITORY, FILE = "org/m", "m-Q8_0.gguf"
# Prints what the client of the hub knows about a repository, and the path of the file that it has fetched.
CLIENT = """
import json, sys
import huggingface_hub as client
repository, name = sys.argv[1:]
info = client.HfApi().model_info(repository, revision="main", files_metadata=True)
about = client.get_hf_file_metadata(client.hf_hub_url(repository, name))
files = {s.rfilename: [s.size, s.lfs.sha256 if s.lfs else None] for s in info.siblings}
print(json.dumps({"revision": info.sha, "licence": info.card_data["license"], "files": files,
                  "commit": about.commit_hash, "etag": about.etag, "size": about.size,
                  "path": client.hf_hub_download(repository, name)}))
"""


class Clients:
    """Runs the three clients at one server. Each method returns a finished process."""

    def __init__(self, sconce, home, hub, certificate):
        self.sconce, self.home, self.hub, self.certificate = sconce, home, hub, certificate
        (home / "config/sconce").mkdir()
        (home / "config/sconce/sconce.yaml").write_text(
            f"pull:\n  mirror: {hub.url}\n  certificates: {certificate}\n")
        self.store = home / "data/sconce/models"
        self.store.mkdir(parents=True)
        self.copy = home / "copy"

    def run(self, *argv, **variables):
        environment = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and not k.startswith("HF_")}
        return subprocess.run(argv, env={**environment, **variables}, capture_output=True, text=True, timeout=90)

    def pull(self):
        return self.run(self.sconce, "pull", "--json", REPOSITORY)

    def huggingface(self):
        return self.run(sys.executable, "-c", CLIENT, REPOSITORY, FILE, HF_ENDPOINT=self.hub.url,
                        HF_HOME=str(self.home / "hf"), SSL_CERT_FILE=str(self.certificate),
                        HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1")

    def curl(self):
        return self.run("curl", "-sS", "--fail", "-L", "--cacert", str(self.certificate), "-o", str(self.copy),
                        f"{self.hub.url}/{REPOSITORY}/resolve/main/{FILE}")


@pytest.fixture
def clients(sconce, build, home, hub, certificate):
    if not (build / "services/fetch/sconce-fetch").exists():
        pytest.skip("no sconce-fetch")
    return Clients(sconce, home, hub, certificate[0])


def redirect_to(other, hub):
    """Lets the hub send its clients to another server for the content, with the headers that identify the file."""
    def answer(handler):
        headers = {name.replace("-", "_"): value for name, value in hub.identity(handler.path).items()}
        return handler.answer(302, b"", Location=other.url + "/content", **headers) is None
    return answer


@pytest.mark.parametrize("content", ["here", "elsewhere"])
def test_three_clients_get_the_same_model(clients, hub, guide, certificate, content):
    weights = pathlib.Path(guide).read_bytes()
    hub.put_repository(REPOSITORY, {FILE: weights, "README.md": b"# A model\n"})
    other = hubs.Hub(*certificate)
    other.files["/content"] = weights
    if content == "elsewhere":
        hub.faults.append(("resolve", redirect_to(other, hub)))
        # The configuration allows a private address only to a mirror.
        with open(clients.home / "config/sconce/sconce.yaml", "a") as f:
            f.write(f"  ollama_mirror: {other.url}\n")
    results = [clients.pull(), clients.huggingface(), clients.curl()]
    other.close()
    for result in results:
        assert result.returncode == 0, result.stderr
    pulled, known = (json.loads(result.stdout) for result in results[:2])
    model = clients.store / pulled["name"]
    digest = hashlib.sha256(weights).hexdigest()
    assert {hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (model / FILE, pathlib.Path(known["path"]), clients.copy)} == {digest}
    # The hub's client reads the same metadata as the manifest tells.
    shown = json.loads(clients.run(clients.sconce, "show", "--json", pulled["name"]).stdout)
    assert known["files"][FILE] == [len(weights), digest]
    assert (known["etag"], known["size"], known["commit"]) == (digest, len(weights), known["revision"])
    assert (shown["revision"], shown["licence"]) == (known["revision"], known["licence"])
    assert [(f["name"], f["bytes"], f["sha256"]) for f in shown["files"]] == [(FILE, len(weights), digest)]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_three_clients_are_refused_alike(clients, hub, guide, status):
    hub.put_repository(REPOSITORY, {FILE: pathlib.Path(guide).read_bytes()})
    hub.faults.append((REPOSITORY, lambda handler: handler.answer(status, b"{}") is None))
    for result in (clients.pull(), clients.huggingface(), clients.curl()):
        assert result.returncode != 0 and str(status) in result.stdout + result.stderr, result
    assert not [path for path in clients.store.iterdir() if not path.name.startswith(".")]
    assert not clients.copy.exists()


def test_a_connection_that_breaks_is_continued_by_both_clients_of_the_hub(clients, hub, guide):
    weights = pathlib.Path(guide).read_bytes()
    hub.put_repository(REPOSITORY, {FILE: weights})
    cut = []

    def fault(handler):
        if handler.command == "HEAD" or (handler.headers["Range"] or "").endswith("=0-0") or cut:
            return False
        cut.append(handler.path)
        return handler.send_file(weights, cut=300000) is None

    hub.faults.append(("resolve", fault))
    pulled = clients.pull()
    assert pulled.returncode == 0 and len(cut) == 1, pulled.stderr
    cut.clear()
    known = clients.huggingface()
    assert known.returncode == 0 and len(cut) == 1, known.stderr
    assert pathlib.Path(json.loads(known.stdout)["path"]).read_bytes() == weights
    assert (clients.store / json.loads(pulled.stdout)["name"] / FILE).read_bytes() == weights
