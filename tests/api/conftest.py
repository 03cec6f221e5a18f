# SPDX-License-Identifier: Apache-2.0
"""Starts sconce-chat, sconce-embed and sconce-gateway on private sockets, per module or per test.

SCONCE_BUILD names the build directory. The model is SCONCE_TEST_MODEL (GGUF), or stories260K from
the data directory (SCONCE_DATA), or the bundled model.
"""
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
sys.path.insert(0, os.path.dirname(__file__))
from activator import Service, listen_tcp, listen_unix  # noqa: E402
from gguf_template import CHATML, set_chat_template  # noqa: E402
from services import service  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SCONCE_BUILD", ROOT / "build"))
DATA = pathlib.Path(os.environ.get("SCONCE_DATA", ROOT.parent / "shared" / "data"))
GATEWAY = BUILD / "services/gateway/sconce-gateway"
CHAT = BUILD / "services/chat/sconce-chat"
EMBED = BUILD / "services/embed/sconce-embed"
AUDIO = BUILD / "services/audio/sconce-audio"
KEEP = BUILD / "services/keep/sconce-keep"
HISTORY = BUILD / "services/history/sconce-history"
# The tests multiply time limits by this factor, because sanitizers slow everything down.
SLOW = float(os.environ.get("SCONCE_TEST_SLOW", "1"))


def taken(name, args):
    """Returns the options of @args, each with its value, that the service takes."""
    pairs = zip(args[::2], args[1::2])
    return [word for pair in pairs if service(name).takes(pair[0]) for word in pair]


STORIES = DATA / "models/stories260K/stories260K.gguf"


@pytest.fixture
def stories():
    """Skips a test that depends on the texts or the architecture of stories260K, if `model_dir` has
    another model."""
    if os.environ.get("SCONCE_TEST_MODEL") or not STORIES.exists():
        pytest.skip("the model under test is not %s" % STORIES)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    """Provides a directory with one model under two names: `tiny` (with a chat template) and
    `plain` (without one)."""
    if not GATEWAY.exists() or not CHAT.exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % BUILD)
    candidates = [os.environ.get("SCONCE_TEST_MODEL"),
                  STORIES,
                  ROOT / "packaging/guide/sconce-guide.gguf"]
    source = next((c for c in candidates if c and os.path.exists(c)), None)
    if not source:
        pytest.skip("no model (set SCONCE_TEST_MODEL)")
    path = tmp_path_factory.mktemp("models")
    set_chat_template(source, path / "tiny.gguf", CHATML)
    set_chat_template(source, path / "plain.gguf", None)
    return path


class Suite:
    """Runs all services together. `url` is the address of the gateway; `chat_sock` is the chat
    service's own socket."""

    def __init__(self, models, gateway="", chat="", args=(), gateway_idle="60s", embed="",
                 audio="", audio_program=None, keep=None, history=None):
        """@keep is the section `keep` of the configuration; with None the keep service does not
        run. @history is the section `history`, in the same way."""
        self.dir = tempfile.mkdtemp(prefix="sconce-")
        self.log_path = os.path.join(self.dir, "log")
        self.log = open(self.log_path, "ab")
        config = os.path.join(self.dir, "sconce.yaml")
        with open(config, "w") as f:
            f.write("models:\n  directories: [%s]\n  default: tiny\n" % models)
            f.write("history:\n%s" % (history or "  enabled: false\n"))
            # As with `sconce serve`, TCP needs no key, except in tests of endpoints and keys.
            if "api_keys" not in gateway and "access" not in gateway:
                gateway += "  tcp_access: open\n"
            f.write("gateway:\n  idle_timeout: %s\n%s" % (gateway_idle, gateway))
            # Most tests expect that a model unloads the one before it.
            if "max_models" not in chat:
                chat = "  max_models: 1\n" + chat
            f.write("embed:\n  threads: 1\n%s" % embed)
            f.write("audio:\n  threads: 1\n%s" % audio)
            f.write("chat:\n  threads: 1\n%s" % chat)
            if keep:
                f.write("keep:\n%s" % keep)
        self.chat_sock = os.path.join(self.dir, "chat.sock")
        self.embed_sock = os.path.join(self.dir, "embed.sock")
        self.audio_sock = os.path.join(self.dir, "audio.sock")
        self.keep_sock = os.path.join(self.dir, "keep.sock")
        self.history_sock = os.path.join(self.dir, "history.sock")
        self.gateway_sock = os.path.join(self.dir, "gateway.sock")
        tcp = listen_tcp()
        self.port = tcp.getsockname()[1]
        self.url = "http://127.0.0.1:%d" % self.port
        env = {"XDG_RUNTIME_DIR": self.dir, "HOME": self.dir}
        self.chat = Service([str(CHAT), "--config", config, "--keep-socket", self.keep_sock,
                             *taken("chat", args)], [listen_unix(self.chat_sock)], env, self.log)
        self.keep = keep is not None and Service(
            [str(KEEP), "--config", config],
            [listen_unix(self.keep_sock, socket.SOCK_SEQPACKET)], env, self.log)
        self.embed = Service([str(EMBED), "--config", config, *taken("embed", args)],
                             [listen_unix(self.embed_sock)], env, self.log)
        self.audio = Service([str(audio_program or AUDIO), "--config", config, *taken("audio", args)],
                             [listen_unix(self.audio_sock)], env, self.log)
        self.history = history is not None and Service(
            [str(HISTORY), "--config", config], [listen_unix(self.history_sock)], env, self.log)
        self.gateway = Service(
            [str(GATEWAY), "--config", config, "--chat-socket", self.chat_sock,
             "--embed-socket", self.embed_sock, "--audio-socket", self.audio_sock,
             "--history-socket", self.history_sock, *taken("gateway", args)],
            [tcp, listen_unix(self.gateway_sock)], env, self.log)

    def close(self):
        self.gateway.close()
        self.chat.close()
        self.embed.close()
        self.audio.close()
        for service in (self.keep, self.history):
            if service:
                service.close()
        self.log.close()
        text = open(self.log_path, errors="replace").read()
        shutil.rmtree(self.dir, ignore_errors=True)
        return text

    def connect(self, timeout=10):
        s = socket.create_connection(("127.0.0.1", self.port), timeout * SLOW)
        return s

    def raw(self, data, timeout=10):
        """Sends bytes and reads until the peer closes the connection."""
        with self.connect(timeout) as s:
            s.sendall(data)
            return read_all(s)

    def observe(self, path):
        """Returns the body of a GET over the unix socket, where the gateway's own user has all
        rights."""
        return get_unix(self.gateway_sock, path)

    def metrics(self):
        """Returns all samples, by name with labels. The samples of chat come from chat's own
        socket."""
        return {**own_metrics(self.gateway_sock), **self.chat_metrics()}

    def chat_metrics(self):
        return own_metrics(self.chat_sock)

    def embed_metrics(self):
        return own_metrics(self.embed_sock)

    def audio_metrics(self):
        return own_metrics(self.audio_sock)

    def wait_metric(self, name, value, timeout=10):
        """Waits until a metric of chat has a value; returns the seconds that it took."""
        start = time.monotonic()
        while True:
            now = self.chat_metrics().get(name)
            if now == value:
                return time.monotonic() - start
            if time.monotonic() - start > timeout * SLOW:
                raise AssertionError("%s is %s, not %s" % (name, now, value))


def read_all(s):
    out = b""
    while True:
        try:
            piece = s.recv(65536)
        except ConnectionResetError:
            return out
        if not piece:
            return out
        out += piece


def get_unix(sock, path):
    """Returns the body of a GET over a unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60 * SLOW)
        s.connect(sock)
        s.sendall(b"GET %s HTTP/1.0\r\nHost: x\r\n\r\n" % path.encode())
        return read_all(s).split(b"\r\n\r\n", 1)[1]


def own_metrics(sock):
    """Returns the metrics of the service at a unix socket."""
    return parse_metrics(get_unix(sock, "/metrics"))


def parse_metrics(text):
    samples = {}
    for line in text.decode().splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            samples[name] = float(value)
    return samples


def check_log(text):
    for word in ("AddressSanitizer", "runtime error", "ThreadSanitizer", "LeakSanitizer",
                 "Assertion"):
        assert word not in text, text[-8000:]


@pytest.fixture
def make_suite(model_dir):
    suites = []

    def make(**kw):
        suites.append(Suite(model_dir, **kw))
        return suites[-1]

    yield make
    for suite in suites:
        check_log(suite.close())


@pytest.fixture(scope="module")
def suite(model_dir):
    suite = Suite(model_dir)
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def client(suite):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture
def stores(hub, certificate):
    """Provides the store service with an empty store, and the hub as its mirror."""
    from store_service import FETCH, STORE, Stores
    if not STORE.exists() or not FETCH.exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % BUILD)
    s = Stores(hub, certificate[0])
    yield s
    s.close()
