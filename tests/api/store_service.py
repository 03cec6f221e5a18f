# SPDX-License-Identifier: Apache-2.0
"""Runs the store service for tests, with the gateway and the activator of sconce-fetch."""
import http.client
import json
import os
import shutil
import tempfile
import time

from activator import Program, Service, listen_tcp, listen_unix
from conftest import BUILD, GATEWAY, ROOT, SLOW

STORE = BUILD / "services/store/sconce-store"
FETCH = BUILD / "services/fetch/sconce-fetch"
ASKS, CHANGES = "sk-" + "a" * 40, "sk-" + "b" * 40
WEIGHTS = (ROOT / "packaging/guide/sconce-guide.gguf").read_bytes()


class Stores:
    """Runs the gateway, the store service and the activator of sconce-fetch on private sockets."""

    def __init__(self, hub, certificate, store="", pull="", directories=(), gateway=""):
        self.dir = tempfile.mkdtemp(prefix="sconce-")
        self.path = os.path.join(self.dir, "models")
        os.mkdir(self.path)
        self.log = open(os.path.join(self.dir, "log"), "ab")
        config = os.path.join(self.dir, "sconce.yaml")
        with open(config, "w") as f:
            f.write("models:\n  directories: [%s]\ngateway:\n  api_keys:\n"
                    "    - {key: %s, rights: [infer, observe]}\n    - {key: %s, rights: [manage]}\n%s"
                    "store:\n  idle_timeout: 60s\n%s"
                    "pull:\n  mirror: %s\n  ollama_mirror: %s\n  certificates: %s\n%s"
                    % (", ".join([self.path, *directories]), ASKS, CHANGES, gateway, store, hub.url, hub.url, certificate, pull))
        env = {"XDG_RUNTIME_DIR": self.dir, "HOME": self.dir, "HF_TOKEN": ""}
        self.sock = os.path.join(self.dir, "store.sock")
        fetch_sock = os.path.join(self.dir, "fetch.sock")
        tcp = listen_tcp()
        self.port = tcp.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        self.fetch = Program([str(FETCH)], [listen_unix(fetch_sock)], log=self.log)
        self.store = Service([str(STORE), "--config", config, "--fetch-socket", fetch_sock],
                             [listen_unix(self.sock)], env, self.log)
        self.gateway = Service([str(GATEWAY), "--config", config, "--store-socket", self.sock],
                               [tcp], env, self.log)

    def close(self):
        for service in (self.gateway, self.store, self.fetch):
            service.close()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def send(self, method, path, body, key=CHANGES):
        """Sends a request; returns its connection and its answer."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60 * SLOW)
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = "Bearer " + key
        c.request(method, path, json.dumps(body) if not isinstance(body, str) else body, headers)
        return c, c.getresponse()

    def ask(self, method, path, body, key=CHANGES):
        c, r = self.send(method, path, body, key)
        with r:
            text = r.read()
        c.close()
        return r.status, json.loads(text) if text else None

    def pull(self, name, **fields):
        """Pulls a model; returns the status and the objects of the stream."""
        c, r = self.send("POST", "/api/pull", {"model": name, **fields})
        with r:
            lines = [json.loads(line) for line in r.read().splitlines()]
        c.close()
        return r.status, lines

    def has(self, name):
        return os.path.exists(os.path.join(self.path, name, "manifest.yaml"))

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)
