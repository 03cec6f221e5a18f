# SPDX-License-Identifier: Apache-2.0
"""Starts a sconce-cache for each test, and makes blocks to store in it."""
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import pytest

from activator import Service, listen_unix
from cache_wire import Client, names
from conftest import BUILD, SLOW, check_log

CACHE = BUILD / "services/cache/sconce-cache"
SCONCE = BUILD / "services/cli/sconce"
MIB = 1 << 20


class Cache:
    def __init__(self, settings="", idle="60s"):
        if not CACHE.exists():
            pytest.skip("no build in %s (set SCONCE_BUILD)" % BUILD)
        self.dir = tempfile.mkdtemp(prefix="sconce-")
        self.blocks = os.path.join(self.dir, "blocks")
        self.config = os.path.join(self.dir, "sconce.yaml")
        self.configure("cache:\n  directory: %s\n  min_free: 0\n  idle_timeout: %s\n%s"
                       % (self.blocks, idle, settings))
        self.path = os.path.join(self.dir, "cache.sock")
        self.log_path = os.path.join(self.dir, "log")
        self.log = open(self.log_path, "ab")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.dir, "notify"))
        self.notify.settimeout(20 * SLOW)
        self.service = Service(
            [str(CACHE), "--config", self.config],
            [listen_unix(self.path, socket.SOCK_SEQPACKET)],
            {"HOME": self.dir, "NOTIFY_SOCKET": os.path.join(self.dir, "notify")}, self.log)

    def configure(self, text):
        with open(self.config, "w") as f:
            f.write(text)

    def client(self, **how):
        return Client(self.path, timeout=20 * SLOW, **how)

    def wait_written(self, client, n, timeout=20):
        end = time.monotonic() + timeout * SLOW
        while client.status()["blocks"] != n:
            assert time.monotonic() < end, client.status()
            time.sleep(0.01)

    def wait_starts(self, n):
        """Waits until the activator has counted the starts; it counts them with a short delay."""
        end = time.monotonic() + 10 * SLOW
        while self.service.starts != n:
            assert time.monotonic() < end
            time.sleep(0.01)

    def wait_word(self, word):
        while word not in self.notify.recv(4096):
            pass

    def run(self, *argv):
        return subprocess.run([str(SCONCE), "cache", *argv, "--socket", self.path],
                              capture_output=True, text=True, timeout=60 * SLOW)

    def close(self):
        self.service.close()
        self.log.close()
        self.notify.close()
        text = open(self.log_path, errors="replace").read()
        shutil.rmtree(self.dir, ignore_errors=True)
        return text


@pytest.fixture
def make_cache():
    caches = []

    def make(**how):
        caches.append(Cache(**how))
        return caches[-1]

    yield make
    for cache in caches:
        check_log(cache.close())


@pytest.fixture
def cache(make_cache):
    return make_cache()


def data_of(name, size=100000):
    return random.Random(name).randbytes(size)


def chain(n, salt=0, size=100000):
    return [(name, data_of(name, size)) for name in names(n, salt)]
