# SPDX-License-Identifier: Apache-2.0
"""Runs the store service for tests, with the gateway and the activator of sconce-fetch."""
import http.client
import json
import os
import shutil
import socket
import tempfile
import time

from activator import Program, Service, listen_tcp, listen_unix
from conftest import BUILD, CHAT, GATEWAY, ROOT, SLOW

STORE = BUILD / "services/store/sconce-store"
FETCH = BUILD / "services/fetch/sconce-fetch"
ASKS, CHANGES, ALL = ("sk-" + letter * 40 for letter in "abd")
WEIGHTS = (ROOT / "packaging/guide/sconce-guide.gguf").read_bytes()


class Stores:
    """Runs the gateway, the store service and the activator of sconce-fetch on private sockets, and
    the chat service if @chat says so. The keys ASKS, CHANGES and ALL have different rights."""

    def __init__(self, hub, certificate, store="", pull="", directories=(), chat=False, gateway=""):
        self.dir = tempfile.mkdtemp(prefix="sconce-")
        self.path = os.path.join(self.dir, "models")
        os.mkdir(self.path)
        self.log = open(os.path.join(self.dir, "log"), "ab")
        config = os.path.join(self.dir, "sconce.yaml")
        with open(config, "w") as f:
            f.write("models:\n  directories: [%s]\ngateway:\n  api_keys:\n"
                    "    - {key: %s, rights: [infer, observe]}\n    - {key: %s, rights: [manage]}\n"
                    "    - {key: %s, rights: [infer, observe, manage]}\n%s"
                    "store:\n  idle_timeout: 60s\n%s"
                    "pull:\n  mirror: %s\n  ollama_mirror: %s\n  certificates: %s\n%s"
                    % (", ".join([self.path, *directories]), ASKS, CHANGES, ALL, gateway, store, hub.url, hub.url,
                       certificate, pull))
        env = {"XDG_RUNTIME_DIR": self.dir, "HOME": self.dir, "HF_TOKEN": ""}
        self.sock = os.path.join(self.dir, "store.sock")
        fetch_sock = os.path.join(self.dir, "fetch.sock")
        tcp = listen_tcp()
        self.port = tcp.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        self.fetch = Program([str(FETCH)], [listen_unix(fetch_sock)], log=self.log)
        self.store = Service([str(STORE), "--config", config, "--fetch-socket", fetch_sock],
                             [listen_unix(self.sock)], env, self.log)
        chat_sock = os.path.join(self.dir, "chat.sock")
        self.chat = chat and Service([str(CHAT), "--config", config], [listen_unix(chat_sock)], env, self.log)
        self.gateway = Service([str(GATEWAY), "--config", config, "--store-socket", self.sock,
                                *(["--chat-socket", chat_sock] if chat else [])], [tcp], env, self.log)

    def close(self):
        for service in (self.gateway, self.chat, self.store, self.fetch):
            if service:
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

    def connect_raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60 * SLOW)

    def has(self, name):
        return os.path.exists(os.path.join(self.path, name, "manifest.yaml"))

    def running(self):
        """Returns the number of pulls that run."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10 * SLOW)
            s.connect(self.sock)
            s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := s.recv(65536):
                data += piece
        return json.loads(data.partition(b"\r\n\r\n")[2])["running"]

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds * SLOW
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)
