# SPDX-License-Identifier: Apache-2.0
"""Checks that policies allow exactly the system calls that services need.

Every service runs under strace, from its start to its exit. If a service makes a call that its
policy does not allow, the test fails (and the policy would have killed the service). The test also
fails if a rule was never needed and the policy does not say why the call is rare.
"""
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/api"), str(ROOT / "tests/lib"),
                os.path.dirname(__file__)]
import recorder  # noqa: E402
import cache_wire as wire  # noqa: E402
import hub as hubs  # noqa: E402
from activator import Program, Service, listen_tcp, listen_unix  # noqa: E402
from lib.services import SERVICES, service  # noqa: E402

BUILD = pathlib.Path(os.environ.get("SCONCE_BUILD", ROOT / "build"))
DATA = pathlib.Path(os.environ.get("SCONCE_DATA", ROOT.parent / "shared" / "data"))
SHORT = {"model": "tiny", "prompt": "What is sconce?", "max_tokens": 4}
LONG = {**SHORT, "max_tokens": 1500, "ignore_eos": True, "temperature": 1, "stream": True}
CONFIG = """models:
  directories: [%s/models]
gateway:
  idle_timeout: 1s
  tcp_access: open
  probe_interval: 200ms
cache:
  idle_timeout: 1s
  min_free: 0
  max_bytes: 8MiB
keep:
  idle_timeout: 1s
  expiry: 2s
history:
  enabled: true
  idle_timeout: 1s
embed:
  idle_timeout: 4s
  threads: 2
store:
  idle_timeout: 2s
audio:
  idle_timeout: 4s
  threads: 2
chat:
  idle_timeout: 4s
  threads: 2
"""
# Vulkan uses the GPU if there is one, else lavapipe. Lavapipe is slow, and even slower under
# strace. Without `probe_interval` the gateway waits longer before it treats the slow service as one
# that hangs.
VULKAN = CONFIG.replace("  probe_interval: 200ms\n", "") + "  device: vulkan\n"
PATIENCE = 60  # seconds for an answer; only a hanging service takes longer
VULKAN_PATIENCE = 300
DRIVERS = tuple("seccomp/fragments/%s" % name for name in
                ("drivers", "gpu", "nvidia", "lavapipe"))


def form(file, **fields):
    """Returns a multipart form with a file, as the audio service expects it."""
    parts = [("file\"; filename=\"a", file)] + [(k, v.encode()) for k, v in fields.items()]
    return b"".join(b"--drift\r\ncontent-disposition: form-data; name=\"%s\"\r\n\r\n%s\r\n" %
                    (name.encode(), data) for name, data in parts) + b"--drift--\r\n"


SOUND = (ROOT / "tests/fuzz/corpus/decode/opus.ogg").read_bytes()
HEAR = "/v1/audio/transcriptions"


class Life:
    """Runs all services on private sockets, each under strace, with their notification sockets."""

    def __init__(self, path, traces, config, journal=False, patience=PATIENCE):
        self.path = path
        self.patience = patience
        (path / "models").mkdir(parents=True)
        shutil.copy(ROOT / "packaging/guide/sconce-guide.gguf", path / "models/tiny.gguf")
        for name in ("bert-mean", "bert-rank"):
            shutil.copytree(ROOT / "tests/golden/embed" / name, path / "models" / name)
        shutil.copytree(ROOT / "tests/golden/audio/whisper", path / "models/whisper")
        if (DATA / "vad/silero_vad_16k.safetensors").exists():
            shutil.copy(DATA / "vad/silero_vad_16k.safetensors", path / "models")
        (path / "sconce.yaml").write_text(config % path if "%s" in config else config)
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(str(path / "notify"))
        self.words = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.log = open(path / "log", "ab")
        env = {"XDG_RUNTIME_DIR": str(path), "HOME": str(path), "WATCHDOG_USEC": "400000",
               "NOTIFY_SOCKET": str(path / "notify")}
        if journal:
            self.log = socket.socketpair()[0].makefile("wb")
            info = os.fstat(self.log.fileno())
            env["JOURNAL_STREAM"] = "%d:%d" % (info.st_dev, info.st_ino)
        tcp = listen_tcp()
        self.port = tcp.getsockname()[1]
        self.services = {}
        self.programs = []
        for row in SERVICES:
            argv = [str(BUILD / row.build_path), "--config", str(path / "sconce.yaml")]
            for other in row.may_connect:
                argv += ["--%s-socket" % other, str(path / service(other).socket_file)]
            if row.starts:
                door = str(path / (row.starts + ".sock"))
                argv += ["--%s-socket" % row.starts, door]
                self.programs.append(Program(
                    [str(BUILD / ("services/%s/sconce-%s" % (row.starts, row.starts)))],
                    [listen_unix(door)], log=self.log))
            sockets = [listen_unix(str(path / row.socket_file), row.socket_type)]
            if row.name == "gateway":
                sockets.append(tcp)
            self.services[row.name] = Service(recorder.wrap(argv, traces / row.name), sockets, env,
                                              self.log)

    def _listen(self):
        while True:
            word = self.notify.recv(4096)
            if word == b"end":
                return
            self.words.append(word)

    def request(self, method, path, body=None, unix=None, chunked=False):
        if unix:
            c = http.client.HTTPConnection("unix")
            c.sock = socket.socket(socket.AF_UNIX)
            c.sock.settimeout(self.patience)
            c.sock.connect(str(self.path / unix))
        else:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        if isinstance(body, dict):
            body = json.dumps(body)
        headers = {"transfer-encoding": "chunked"} if chunked else {}
        if path.startswith("/v1/audio/"):
            headers["content-type"] = "multipart/form-data; boundary=drift"
        try:
            c.request(method, path, body, encode_chunked=chunked, headers=headers)
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def stream(self, body):
        s = socket.create_connection(("127.0.0.1", self.port), self.patience)
        data = json.dumps(body).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" %
                  len(data) + data)
        while b'"text"' not in s.recv(65536):
            pass
        return s

    def wait_gone(self):
        for service in self.services.values():
            service.wait_gone(self.patience)

    def close(self):
        for service in (*self.services.values(), *self.programs):
            service.close()
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"end", str(self.path / "notify"))
        self.log.close()


def ordinary(life):
    """Sends requests to every kind of route."""
    assert life.request("GET", "/health")[0] == 200
    assert life.request("GET", "/v1/models")[0] == 200
    assert life.request("POST", "/v1/completions", SHORT)[0] == 200
    assert life.request("POST", "/v1/completions", {**SHORT, "stream": True})[0] == 200
    chat = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    assert life.request("POST", "/v1/chat/completions", chat)[0] == 200
    assert life.request("POST", "/v1/completions", SHORT, unix="gateway.sock")[0] == 200
    items = {"model": "tiny", "input": "Hello", "max_output_tokens": 4}
    status, text = life.request("POST", "/v1/responses", items)
    assert status == 200 and json.loads(text)["store"], text
    more = {**items, "previous_response_id": json.loads(text)["id"]}
    assert life.request("POST", "/v1/responses", more)[0] == 200
    assert life.request("DELETE", "/v1/responses/" + json.loads(text)["id"])[0] == 200
    talk = {"items": [{"role": "user", "content": "x" * 300000}]}
    assert life.request("POST", "/v1/conversations", talk)[0] == 200
    texts = {"input": ["a", "bc"] * 40}
    assert life.request("POST", "/v1/embeddings", texts)[0] == 200
    assert life.request("POST", "/v1/embeddings", {"input": ["abc " * 5] * 1000})[0] == 200
    ranked = {"query": "a", "documents": ["b", "c"] * 200}
    assert life.request("POST", "/v1/rerank", ranked)[0] == 200
    assert life.request("POST", "/v1/rerank", ranked, unix="embed.sock")[0] == 200
    assert life.request("POST", HEAR, form(SOUND))[0] == 200
    assert life.request("POST", HEAR, form(SOUND, stream="true"), unix="audio.sock")[0] == 200
    assert life.request("POST", HEAR, form(SOUND, chunking_strategy="auto"))[0] == 200
    # The cache service stores the blocks of this prompt, and the next chat process finds them.
    story = {**SHORT, "prompt": "Once upon a time there was a lamp. " * 60}
    assert life.request("POST", "/v1/completions", story)[0] == 200
    for unix in ("gateway.sock", "chat.sock", "embed.sock", "audio.sock", "store.sock", "history.sock"):
        status, text = life.request("GET", "/metrics", unix=unix)
        assert status == 200 and b"_open_fds" in text and b"_resident_memory_bytes" in text
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for status, _ in pool.map(lambda _: life.request("POST", "/v1/completions", SHORT),
                                  range(16)):
            assert status == 200


def keep(life):
    """Sends all kinds of requests to the cache service, as a client that is not the chat
    service."""
    blocks = [(name, name * 20000) for name in wire.names(6)]
    file = bytes(40)
    with wire.Client(life.path / "cache.sock") as c:
        for salt in range(4):  # more than the limit
            part = [(name, data + b"%d" % salt) for name, data in zip(wire.names(6, salt), dict(
                blocks).values())]
            assert c.put(part, session="drift") == 6
            while c.status()["pending_blocks"]:
                time.sleep(0.01)
        assert len(c.find(wire.names(6, 3))) == 6
        c.send(c.head(wire.USED, 1) + wire.origin() + wire.names(1, 3)[0])
        c.send(c.head(wire.REJECT, 1) + wire.names(6, 3)[5])
        assert c.call(wire.RECALL, file).status == 0
        assert c.call(wire.REMEMBER, file + bytes(32)).status == 0
        assert c.manage(os.path.join(c.status()["directory"], "lock")) == 0
        assert c.call(wire.LIST, bytes(8 + 40)).n >= 1
        c.steps(wire.VERIFY)
        c.steps(wire.PURGE, bytes(192 + 64) + wire.text("drift", 128) + bytes(8))
        c.send(b"no question")
        assert c.receive() is None
    time.sleep(0.5)  # maintenance runs when there are no requests
    # Rows that are not valid are reported, and many rows take much memory.
    assert life.request("POST", "/history", bytes([255]) * 624000, unix="history.sock")[0] == 200
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(life.patience)
        s.connect(str(life.path / "history.sock"))
        s.sendall(b"POST /history HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 413 " in s.recv(100)


def changes(life):
    """Pulls, names and removes models, also without success."""
    def ask(method, path, **body):
        return life.request(method, "/api/" + path, body, unix="store.sock")

    weights = (ROOT / "packaging/guide/sconce-guide.gguf").read_bytes()
    bert = {path.name: path.read_bytes() for path in (ROOT / "tests/golden/embed/bert-mean").glob("*.*")}
    for name in ("a", "b"):
        life.hub.put_ollama(name, "latest", weights)
        assert b"success" in ask("POST", "pull", model=name)[1]
    life.hub.put_repository("org/bert", bert)
    life.hub.put_repository("org/m", {"m-Q8_0.gguf": weights + b"1"})
    for name in ("org/bert", "org/m", "org/m"):
        assert b"success" in ask("POST", "pull", model=name, stream=False)[1]
    life.hub.put_repository("org/m", {"m-Q8_0.gguf": weights + b"2"})
    assert b"success" in ask("POST", "pull", model="org/m")[1]
    assert ask("POST", "pull", model="absent")[0] == 200
    assert ask("POST", "pull")[0] == 400
    assert ask("POST", "copy", source="a", destination="copy")[0] == 200
    for name, status in (("copy", 200), ("copy", 404), ("org/m", 200), ("org/bert", 200), ("a", 200),
                         ("b", 200)):
        assert ask("DELETE", "delete", model=name)[0] == status, name
    # The client leaves in the middle of a pull.
    life.hub.put_ollama("slow", "latest", weights * 20)
    life.hub.pace = 0.02
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(life.path / "store.sock"))
        s.sendall(b"POST /api/pull HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"model\":\"slow\"}")
        data = b""
        while b"completed" not in data:
            data = s.recv(65536)
            assert data
    life.hub.pace = 0


def errors(life):
    """Sends requests that are rejected, and disconnects early."""
    assert life.request("GET", "/nothing")[0] == 404
    assert life.request("POST", "/v1/completions", "{")[0] == 400
    assert life.request("POST", "/v1/completions", {**SHORT, "model": "none"})[0] == 404
    assert life.request("POST", "/v1/embeddings", "{")[0] == 400
    assert life.request("POST", "/v1/embeddings", {"model": "none", "input": "a"})[0] == 404
    assert life.request("POST", HEAR, form(b"no sound"))[0] == 400
    assert life.request("POST", HEAR, form(SOUND, model="none"))[0] == 404
    long_prompt = {**SHORT, "prompt": "word " * 3000000}
    assert life.request("POST", "/v1/completions", long_prompt)[0] == 400
    chunks = iter([b" " * 100000] * 20 + [json.dumps(SHORT).encode()])
    assert life.request("POST", "/v1/completions", chunks, chunked=True)[0] == 200
    with socket.create_connection(("127.0.0.1", life.port), life.patience) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 413 " in s.recv(100)
    with life.stream(LONG):
        pass


def refuses_link(life, name, path, body):
    """Makes a link that leads out of the model directories, and asks a service for this model.
    Returns the name of the link, its target and the answer. Only a process that started before the
    link was made refuses the link, so the function tries again with another link if the service was
    restarted in between."""
    for n in range(5):
        link = "link-%s-%d" % (name, n)
        target = life.path / (link + ".gguf")
        shutil.copy(life.path / "models/tiny.gguf", target)
        assert life.request("POST", path, body(None))[0] == 200
        pid = life.services[name].pid
        (life.path / "models" / (link + ".gguf")).symlink_to(target)
        time.sleep(1.1)  # a listing is valid for a second
        status, text = life.request("POST", path, body(link))
        if life.services[name].pid == pid:
            assert status == 503 and b"leads out of the model directories" in text, text
            return link, target, text
    raise AssertionError("the %s service was started again and again" % name)


def new_models(life):
    """Adds a model, and links that lead out of the model directories."""
    refuses_link(life, "embed", "/v1/embeddings",
                 lambda model: {"input": "a", **({"model": model} if model else {})})
    refuses_link(life, "audio", HEAR,
                 lambda model: form(SOUND, model=model) if model else form(SOUND))
    link, target, text = refuses_link(life, "chat", "/v1/completions",
                                      lambda model: {**SHORT, **({"model": model} if model else {})})
    assert str(target).encode() in text
    shutil.copy(life.path / "models/tiny.gguf", life.path / "models/late.gguf")
    (life.path / "models/broken.gguf").write_bytes(b"GGUF")
    time.sleep(1.1)  # a listing is valid for a second
    assert life.request("POST", "/v1/completions", {**SHORT, "model": "late"})[0] == 200
    assert life.request("POST", "/v1/completions", {**SHORT, "model": "broken"})[0] == 400
    # The idle service exits, and the next process follows the link.
    life.services["chat"].wait_gone(life.patience)
    assert life.request("POST", "/v1/completions", {**SHORT, "model": link})[0] == 200


def silence(life):
    """Makes chat hang, so that the gateway notices it."""
    pid = life.services["chat"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert life.request("POST", "/v1/completions", SHORT)[0] == 503
    finally:
        os.kill(pid, signal.SIGCONT)


def drain(life):
    """Sends SIGTERM during an answer; the answer must be complete."""
    s = life.stream({**LONG, "max_tokens": 100})
    assert life.request("POST", "/v1/embeddings", {"input": "a"})[0] == 200
    assert life.request("POST", HEAR, form(SOUND))[0] == 200
    with wire.Client(life.path / "cache.sock") as c:
        c.put([(name, name * 20000) for name in wire.names(4)])
    assert life.request("POST", "/v1/conversations", {})[0] == 200
    assert life.request("GET", "/v1/history", unix="history.sock")[0] == 200
    assert life.request("GET", "/health", unix="store.sock")[0] == 200
    for service in life.services.values():
        service.kill(signal.SIGTERM)
    data = b""
    while b"[DONE]" not in data:
        piece = s.recv(65536)
        assert piece, data[-200:]
        data += piece
    s.close()
    life.wait_gone()


def skip_unless_possible():
    if not (BUILD / "services/cli/sconce").exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % BUILD)
    if not recorder.available():
        pytest.skip("strace may not trace processes here")


def drain_idle(life):
    """Sends SIGTERM while no request runs."""
    assert life.request("POST", "/v1/completions", SHORT)[0] == 200
    for one in life.services.values():
        one.kill(signal.SIGTERM)
    life.wait_gone()


@pytest.fixture(scope="session")
def traces(tmp_path_factory, certificate):
    skip_unless_possible()
    traces = tmp_path_factory.mktemp("traces")
    hub = hubs.Hub(*certificate)
    life = Life(tmp_path_factory.mktemp("life"), traces,
                CONFIG + "pull: {mirror: '%s', ollama_mirror: '%s', certificates: '%s'}\n" %
                (hub.url, hub.url, certificate[0]))
    life.hub = hub
    try:
        for part in (keep, ordinary, changes, errors, new_models, silence, ordinary, changes, keep):
            part(life)
        life.wait_gone()
        drain(life)
        assert all(service.status == 0 for service in life.services.values())
        assert any(b"READY=1" in w for w in life.words)
        assert any(b"WATCHDOG=1" in w for w in life.words)
        assert any(b"running" in w for w in life.words)
        assert any(b"STATUS=Idle" in w for w in life.words)
    finally:
        life.close()
        hub.close()
    for name, config, journal in (("journal", CONFIG, True), ("wrong", "gateway: 1\n", False)):
        life = Life(tmp_path_factory.mktemp(name), traces, config, journal)
        try:
            with wire.Client(life.path / "cache.sock") as c:
                assert ("mapping" in c.status()["problem"]) == (name == "wrong")
            for unix in (None, "chat.sock"):
                status, _ = life.request("POST", "/v1/completions", SHORT, unix=unix)
                assert status == (503 if name == "wrong" else 200)
            status, _ = life.request("POST", "/v1/embeddings", {"input": "a"}, unix="embed.sock")
            assert status == (503 if name == "wrong" else 200)
            status, _ = life.request("POST", HEAR, form(SOUND), unix="audio.sock")
            assert status == (503 if name == "wrong" else 200)
            status, _ = life.request("GET", "/v1/history", unix="history.sock")
            assert status == (503 if name == "wrong" else 200)
            status, _ = life.request("POST", "/api/pull", "{}", unix="store.sock")
            assert status == (503 if name == "wrong" else 400)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.connect(str(life.path / "keep.sock"))
                s.send(b"no question")
                assert s.recv(100) == b""
            status, text = life.request("POST", "/v1/conversations", "{}", unix="chat.sock")
            assert status == (503 if name == "wrong" else 200)
            assert (b"misconfigured" in text) == (name == "wrong")
            life.wait_gone()
        finally:
            life.close()
    return traces


@pytest.fixture(scope="session")
def vulkan(tmp_path_factory):
    """Provides the traces of processes on a Vulkan device, and the name of chat's policy there."""
    skip_unless_possible()
    devices = json.loads(subprocess.run([str(BUILD / "services/cli/sconce"), "info", "--devices",
                                         "--json"], capture_output=True, check=True).stdout)
    usable = [d for d in devices["devices"] if d["api"] and not d["unusable"]]
    if not usable:
        pytest.skip("no Vulkan device: %s" % devices["no_vulkan"])
    traces = tmp_path_factory.mktemp("vulkan-traces")
    life = Life(tmp_path_factory.mktemp("vulkan"), traces, VULKAN,
                patience=VULKAN_PATIENCE)
    try:
        for part in (ordinary, ordinary):
            part(life)
            life.wait_gone()
        drain_idle(life)
        assert any(b"on vulkan:0" in w for w in life.words)
    finally:
        life.close()
    if usable[0]["kind"] == "software":
        return traces, "chat-lavapipe"
    nvidia = os.access("/dev/nvidiactl", os.R_OK | os.W_OK)
    return traces, "chat-nvidia" if nvidia else "chat-gpu"


def explain(policy, phase):
    return json.loads(subprocess.run(
        [str(BUILD / "services/cli/sconce"), "policy", "explain", policy, "--phase", phase,
         "--json"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("row, phase", [(row, phase) for row in SERVICES for phase in row.phases],
                         ids=lambda value: getattr(value, "name", value))
def test_policy_and_use_are_the_same(traces, row, phase):
    check_policy(traces / row.name, explain(row.name, phase), row, phase, 4)


@pytest.mark.parametrize("phase", ("start", "serve"))
def test_policy_and_use_are_the_same_with_vulkan(vulkan, phase):
    traces, policy = vulkan
    check_policy(traces / "chat", explain(policy, phase), service("chat"), phase, 3, DRIVERS)


def check_policy(trace, explained, row, phase, n_lives, files=""):
    """Compares a policy with the calls. @files: prefixes of the policy files whose rules must be
    needed."""
    policy = recorder.Policy(explained)
    lives = recorder.read(trace)
    assert len(lives) >= n_lives, "the scenario did not run"
    denied = {}
    for life in lives:
        assert not life.end or "SIGSYS" not in life.end, "%s: %s" % (row.name, life.end)
        for (where, name, args), line in life.calls.items():
            # The start phase also allows all calls of the serve phase, so a process in the start
            # phase need not use all rules.
            if where == phase or phase == "start":
                if not policy.allows(name, args, life.pid):
                    denied.setdefault(name, line.strip())
    assert not denied, "calls that no rule allows:\n" + "\n".join(denied.values())
    unused = [recorder.describe(rule) for rule in policy.unused()
              if rule["file"].startswith(files)]
    assert not unused, "rules that nothing needs, and that are not marked rare:\n" + \
        "\n".join(unused)
    if phase == "serve":
        assert explained["allowed"] <= row.max_calls


def test_the_recorder_finds_both_kinds_of_drift(traces):
    """Tests the check itself: it notices a rule that is removed and a rule that is added."""
    explained = json.loads(subprocess.run(
        [str(BUILD / "services/cli/sconce"), "policy", "explain", "gateway", "--json"],
        capture_output=True, text=True, check=True).stdout)
    calls = [c for c in explained["calls"] if c["name"] != "connect"]
    calls.append({"name": "chmod", "conditions": [], "rare": None, "file": "x", "line": 1})
    policy = recorder.Policy({**explained, "calls": calls})
    denied = {name for life in recorder.read(traces / "gateway")
              for (where, name, args) in life.calls
              if where == "serve" and not policy.allows(name, args, life.pid)}
    assert denied == {"connect"}
    assert [rule["name"] for rule in policy.unused()] == ["chmod"]
