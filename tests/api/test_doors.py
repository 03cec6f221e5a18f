# SPDX-License-Identifier: Apache-2.0
"""Tests the access control of each endpoint, and what clients see of an invalid configuration."""
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

from activator import listen_unix
from conftest import CHAT, GATEWAY, SLOW, Suite, check_log, read_all

MODELS = "/v1/models"

pytestmark = pytest.mark.sanitize


def ask(suite, door, key=None, path=MODELS, scheme="Bearer"):
    """Returns (status, decoded body) of a GET over one of the endpoints."""
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=30 * SLOW)
    if door == "unix":
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(30 * SLOW)
        c.sock.connect(suite.gateway_sock)
    headers = {}
    if key:
        headers = {"x-api-key": key} if scheme == "x" else {"Authorization": scheme + " " + key}
    c.request("GET", path, headers=headers)
    r = c.getresponse()
    body = r.read()
    c.close()
    return r.status, json.loads(body) if body.startswith(b"{") else body


@pytest.fixture
def make_keyed(model_dir):
    """Provides a suite whose gateway finds a key file in systemd's credentials directory or in the
    home."""
    suites = []

    def make(keys=None, credentials=False, gateway="  tcp_access: key\n", args=()):
        suite = Suite(model_dir, gateway=gateway)
        suites.append(suite)
        home = os.path.join(suite.dir, "xdg/sconce")
        os.makedirs(home)
        env = {"XDG_CONFIG_HOME": os.path.dirname(home)}
        if credentials:
            env = {"CREDENTIALS_DIRECTORY": home, "XDG_CONFIG_HOME": "/nonexistent"}
        if keys is not None:
            with open(os.path.join(home, "api-keys"), "wb") as f:
                f.write(keys)
        suite.key_file = os.path.join(home, "api-keys")
        suite.gateway.env.update(env)
        suite.gateway.argv += args
        return suite

    yield make
    for suite in suites:
        check_log(suite.close())


def test_tcp_is_closed_until_there_is_a_key(make_keyed):
    suite = make_keyed()
    status, body = ask(suite, "tcp")
    assert status == 401 and body["error"]["code"] == "no_api_key_configured"
    assert "sconce setup tcp" in body["error"]["message"]
    assert ask(suite, "tcp", "anything")[0] == 401
    assert ask(suite, "tcp", path="/health")[0] == 200
    # Without a key nobody starts a service through the gateway, or learns its state.
    assert ask(suite, "tcp", path="/health?deep=1")[0] == 401 and suite.chat.starts == 0
    assert ask(suite, "unix", path="/health?deep=1")[0] == 200
    assert ask(suite, "unix")[0] == 200


@pytest.mark.parametrize("credentials", [False, True], ids=["home", "credential"])
def test_keys_come_from_a_file(make_keyed, credentials):
    suite = make_keyed(b"# of the house\n\nfirst-key\n  second-key  the laptop of Ada \n",
                       credentials)
    assert ask(suite, "tcp")[0] == 401
    assert ask(suite, "tcp", "wrong")[1]["error"]["code"] == "invalid_api_key"
    assert ask(suite, "tcp", "the")[0] == 401
    assert ask(suite, "tcp", "first-key")[0] == 200
    assert ask(suite, "tcp", "second-key", scheme="x")[0] == 200
    assert ask(suite, "unix")[0] == 200


def test_keys_of_file_and_configuration_stand_together(make_keyed):
    suite = make_keyed(b"of-file\n", gateway="  api_keys: [of-yaml]\n")
    for key, status in (("of-file", 200), ("of-yaml", 200), ("of-both", 401)):
        assert ask(suite, "tcp", key)[0] == status


def lacks(answer, right):
    """Returns whether a request was refused because this right is missing."""
    status, body = answer
    return status == 403 and body["error"]["code"] == "insufficient_rights" and \
        body["error"]["type"] == "permission_error" and \
        'needs the right "%s"' % right in body["error"]["message"]


def test_a_key_has_the_rights_of_its_line(make_keyed):
    suite = make_keyed(b"old\nask rights=infer laptop\ngraphs rights=observe prometheus\n"
                       b"nothing rights=manage\n",
                       gateway="  api_keys: [of-yaml, {key: few, rights: [infer]}]\n")
    for key, infers, observes in (("old", True, True), ("ask", True, False), ("few", True, False),
                                  ("graphs", False, True), ("of-yaml", True, True),
                                  ("nothing", False, False)):
        for path in ("/metrics", "/health?deep=1"):
            answer = ask(suite, "tcp", key, path)
            assert answer[0] == 200 if observes else lacks(answer, "observe"), (key, path, answer)
        for path in (MODELS, "/v1/models/tiny"):
            answer = ask(suite, "tcp", key, path)
            assert answer[0] == 200 if infers else lacks(answer, "infer"), (key, path, answer)
        # Routes that do not exist and public routes need no right.
        assert ask(suite, "tcp", key, "/nothing")[0] == 404
        assert ask(suite, "tcp", key, "/health")[0] == 200
    # An unknown key gets no more than a request without a key.
    assert ask(suite, "tcp", "wrong", "/metrics")[0] == 401


def test_without_a_key_a_port_lets_nobody_observe(make_keyed):
    suite = make_keyed(b"graphs rights=observe\n", gateway="  tcp_access: open\n")
    assert ask(suite, "tcp")[0] == 200
    for path in ("/metrics", "/health?deep=1"):
        assert lacks(ask(suite, "tcp", path=path), "observe")
        assert lacks(ask(suite, "tcp", "wrong", path), "observe")
        # A key also counts at an endpoint that requires none.
        assert ask(suite, "tcp", "graphs", path)[0] == 200
    assert lacks(ask(suite, "tcp", "graphs"), "infer")
    # Requests without the right did not start the service.
    assert suite.embed.starts == 1


def test_missing_rights_are_reported_as_in_rfc_6750(make_keyed):
    suite = make_keyed(b"ask rights=infer\n")
    with suite.connect() as s:
        s.sendall(b"GET /metrics HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer ask\r\n\r\n")
        head = read_all(s).split(b"\r\n\r\n")[0].lower()
    assert b'www-authenticate: bearer error="insufficient_scope", scope="observe"' in head


def connect_as(suite, uid):
    """Connects to the unix socket as another user of this machine, and returns the connection."""
    os.chmod(suite.dir, 0o711)
    os.chmod(suite.gateway_sock, 0o666)
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(60 * SLOW)
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            s.connect(suite.gateway_sock)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    return s


def ask_as(suite, uid, path, body=None):
    """Returns (status, body) of a request over the unix socket by another user of this machine."""
    c = http.client.HTTPConnection("localhost")
    c.sock = connect_as(suite, uid)
    c.request("POST" if body else "GET", path, json.dumps(body) if body else None)
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, json.loads(text) if text.startswith(b"{") else text


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")


def in_user_namespace(suite, option):
    """Changes a suite so that its gateway runs in a user namespace. @option: the option of unshare
    that sets the map of UIDs."""
    words = [shutil.which("unshare"), "--user", option]
    if not words[0] or subprocess.run([*words, "true"]).returncode:
        pytest.skip("no user namespaces here")
    suite.gateway.argv = [*words, *suite.gateway.argv]


@needs_root
def test_at_the_unix_socket_root_and_the_owner_observe_and_others_only_infer(make_keyed):
    for owner in (None, 4321):
        suite = make_keyed()
        if owner:  # in the namespace, the machine's root has this UID
            in_user_namespace(suite, "--map-user=%d" % owner)
        assert ask_as(suite, 0, "/metrics")[0] == 200
        assert ask_as(suite, 0, "/health?deep=1")[0] == 200
        assert lacks(ask_as(suite, 1235, "/metrics"), "observe")
        assert lacks(ask_as(suite, 1235, "/health?deep=1"), "observe")
        assert ask_as(suite, 1235, MODELS)[0] == 200


WORDS = "Once upon a time there was a little girl named Lily. She loved to play outside. " * 4


def cached_for(suite, uid):
    status, answer = ask_as(suite, uid, "/v1/completions",
                            {"model": "plain", "prompt": WORDS, "max_tokens": 1})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@needs_root
def test_users_at_the_unix_socket_find_their_own_prompts_alone(make_keyed):
    suite = make_keyed()
    assert cached_for(suite, 1234) == 0
    assert cached_for(suite, 1235) == 0
    assert cached_for(suite, 1234) > 0 and cached_for(suite, 1235) > 0


@needs_root
def test_users_who_cannot_be_distinguished_share_no_cache(make_keyed):
    """In a user namespace that maps only root, all other users have the same UID."""
    suite = make_keyed()
    in_user_namespace(suite, "--map-root-user")
    assert [cached_for(suite, uid) for uid in (1234, 1235, 1234)] == [0, 0, 0]
    # A user with a distinct UID finds the prefix that this user cached, and may use all routes.
    assert [cached_for(suite, 0), cached_for(suite, 0) > 0] == [0, True]
    assert ask_as(suite, 0, "/metrics")[0] == 200
    assert lacks(ask_as(suite, 1234, "/metrics"), "observe")


def test_services_see_no_key_and_few_fields_of_a_head(make_keyed):
    """Checks the head that a backend receives; a client cannot forge the fields that the gateway
    adds."""
    suite = make_keyed(b"secret-key\n")
    suite.chat.close()
    os.unlink(suite.chat_sock)
    listener = listen_unix(suite.chat_sock)
    with suite.connect() as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                  b"Authorization: Bearer secret-key\r\nX-Api-Key: secret-key\r\nCookie: c=1\r\n"
                  b"X-Sconce-Tenant: uid 0\r\nX-Forwarded-For: 10.0.0.1\r\nOrigin: http://o\r\n"
                  b"Content-Type: application/json\r\nAccept: */*\r\nX-Session-Id: story\r\n"
                  b"User-Agent: u\r\nReferer: http://r\r\nContent-Length: 2\r\n\r\n{}")
        service, _ = listener.accept()
        with service:
            service.settimeout(30 * SLOW)
            head = b""
            while not head.endswith(b"\r\n\r\n{}"):
                head += service.recv(65536)
            service.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert b" 200 " in read_all(s).split(b"\r\n")[0]
    listener.close()
    lines = head.split(b"\r\n\r\n")[0].lower().split(b"\r\n")
    fields = dict(line.split(b": ", 1) for line in lines[1:])
    assert set(fields) - {b"host", b"connection"} == {
        b"content-type", b"accept", b"x-session-id", b"x-request-id", b"x-sconce-tenant",
        b"content-length"}
    assert fields[b"x-sconce-tenant"].startswith(b"key ")
    assert b"secret" not in head


def test_logs_have_no_key_at_any_level(make_keyed):
    suite = make_keyed(b"secret-key rights=infer laptop\n", gateway="  api_keys: [secret-two]\n")
    suite.gateway.env["SCONCE_LOG"] = suite.chat.env["SCONCE_LOG"] = "debug"
    for key in ("secret-key", "secret-two", "secret-wrong"):
        for path in (MODELS, "/metrics", "/nothing", "/" + "x" * 300):
            ask(suite, "tcp", key, path)
            ask(suite, "unix", key, path, scheme="x")
    for service in (suite.gateway, suite.chat):
        service.kill()
        service.wait_gone(20 * SLOW)
    text = open(suite.log_path, errors="replace").read()
    assert "GET /v1/models 200" in text and "secret" not in text


def test_the_unix_socket_may_require_a_key(make_keyed):
    suite = make_keyed(b"k1\n", gateway="  unix_access: key\n  tcp_access: open\n")
    assert ask(suite, "unix")[0] == 401
    assert ask(suite, "unix", "k1")[0] == 200
    assert ask(suite, "tcp")[0] == 200


def test_the_option_opens_tcp(make_keyed):
    assert ask(make_keyed(args=["--tcp-access", "open"]), "tcp")[0] == 200


@pytest.mark.parametrize("keys, word", [
    (b"ok\nbad\x01key\n", "api-keys:2: a key must consist of printable"),
    (b"a\0b\n", "must be text"),
    (b"x" * 600, "at most 512"),
    (b"k\n" * 1025, "more than 1024"),
])
def test_bad_key_files_are_reported_and_let_nobody_in(make_keyed, keys, word):
    suite = make_keyed(keys)
    for door in ("tcp", "unix"):
        status, body = ask(suite, door, "ok")
        assert status == 503 and word in body["error"]["message"]
        assert "bad" not in body["error"]["message"].split("api-keys", 1)[1]


def test_an_unreadable_key_file_lets_nobody_in(make_keyed):
    suite = make_keyed()
    os.mkdir(suite.key_file)
    status, body = ask(suite, "unix")
    assert status == 503 and body["error"]["code"] == "misconfigured"
    os.rmdir(suite.key_file)
    wait_left(suite.gateway)
    assert ask(suite, "unix")[0] == 200


def wait_left(service):
    """Waits until a misconfigured service, which has just answered, has exited."""
    end = time.monotonic() + 10 * SLOW
    # The service may answer before the activator's thread has recorded its start.
    while service.pid is None and time.monotonic() < end:
        time.sleep(0.005)
    service.wait_gone(10 * SLOW)


def write_config(suite, text):
    with open(os.path.join(suite.dir, "sconce.yaml"), "w") as f:
        f.write(text)


def test_a_wrong_configuration_is_reported_and_mended_without_a_restart(make_suite):
    suite = make_suite()
    path = os.path.join(suite.dir, "sconce.yaml")
    good = open(path).read()
    write_config(suite, good + "gatewy: {}\n")
    status, body = ask(suite, "tcp")
    assert status == 503 and body["error"]["code"] == "misconfigured"
    assert body["error"]["type"] == "server_error"
    assert "sconce.yaml:" in body["error"]["message"] and "gatewy" in body["error"]["message"]
    assert ask(suite, "tcp", path="/health")[0] == 503
    status, body = ask(suite, "unix", path="/v1/messages")
    assert status == 503 and body["type"] == "error" and body["error"]["type"] == "api_error"
    assert "gatewy" in body["error"]["message"]
    # A keep-alive client does not keep the misconfigured service running.
    with suite.connect() as s:
        s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"connection: close" in read_all(s).lower()
    assert suite.gateway.starts == 1
    write_config(suite, good)
    wait_left(suite.gateway)
    assert suite.gateway.status == 0
    assert ask(suite, "tcp")[0] == 200
    assert "the configuration is wrong" in open(suite.log_path).read()


def lines_with(suite, text):
    return [line for line in open(suite.log_path, errors="replace") if text in line]


def test_each_request_is_one_line_of_the_log(make_suite):
    suite = make_suite()
    good = open(os.path.join(suite.dir, "sconce.yaml")).read()
    with suite.connect() as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nx-request-id: first\r\n"
                  b"Connection: close\r\nContent-Length: 2\r\n\r\n{}")
        assert b" 400 " in read_all(s)
    # The gateway, and only the gateway, also logs a request to a misconfigured backend.
    write_config(suite, good + "gatewy: {}\n")
    suite.chat.kill()
    suite.chat.wait_gone(10 * SLOW)
    assert ask(suite, "tcp", path=MODELS + "?behind")[0] == 503
    suite.gateway.kill()
    suite.gateway.wait_gone(10 * SLOW)
    assert ask(suite, "unix", path="/v1/in-front")[0] == 503
    for service in (suite.gateway, suite.chat):
        service.kill()
        service.wait_gone(10 * SLOW)
    assert len(lines_with(suite, "[first]")) == 1
    told = lines_with(suite, "GET /v1/") + lines_with(suite, "POST /v1/")
    assert [line.split()[:4] for line in told] == [
        ["sconce-gateway:", "GET", "/v1/models", "503"],
        ["sconce-gateway:", "GET", "/v1/in-front", "503"],
        ["sconce-gateway:", "POST", "/v1/completions", "400"]]


def test_chat_reports_its_configuration_errors_through_the_gateway(make_suite):
    suite = make_suite()
    good = open(os.path.join(suite.dir, "sconce.yaml")).read()
    assert ask(suite, "tcp", path="/health")[0] == 200  # the gateway started with the valid file
    write_config(suite, good + "  threads: 1\n")
    status, body = ask(suite, "tcp")
    assert status == 503 and "chat.threads" in body["error"]["message"]
    write_config(suite, good)
    wait_left(suite.chat)
    status, body = ask(suite, "tcp")
    assert status == 200, body


# Makes landlock_create_ruleset() fail as it does in some containers, then executes the service.
NO_LANDLOCK = """
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 1), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
class Program(ctypes.Structure):
    _fields_ = [("n", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
p = Program(len(code), ctypes.addressof(program))
assert libc.prctl(22, 2, ctypes.byref(p), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_without_landlock_clients_get_an_error(make_suite):
    """When a policy cannot be applied, clients get an error. The service does not crash in a
    loop."""
    suite = make_suite()
    if not confined(suite):
        pytest.skip("this build does not confine its services")
    path = os.path.join(suite.dir, "sconce.yaml")
    good = open(path).read()
    for service in (suite.gateway, suite.chat):
        service.kill()
        service.wait_gone(10 * SLOW)
        argv = service.argv
        service.argv = [sys.executable, "-c", NO_LANDLOCK, *argv]
        status, body = ask(suite, "tcp")
        assert status == 503 and body["error"]["code"] == "misconfigured"
        assert "Landlock" in body["error"]["message"]
        wait_left(service)
        write_config(suite, good + "confinement:\n  landlock: optional\n")
        assert ask(suite, "tcp")[0] == 200
        write_config(suite, good)
        service.argv = argv


def confined(suite):
    """Returns whether the gateway runs under a seccomp filter."""
    assert ask(suite, "tcp", path="/health")[0] == 200
    return "Seccomp:\t2" in open("/proc/%d/status" % suite.gateway.wait_pid()).read()


@pytest.mark.parametrize("program", [GATEWAY, CHAT], ids=["gateway", "chat"])
def test_without_sockets_a_wrong_configuration_ends_at_once(model_dir, tmp_path, program):
    (tmp_path / "c.yaml").write_text("a: 1\n")
    r = subprocess.run([str(program), "--config", str(tmp_path / "c.yaml")], capture_output=True,
                       text=True, timeout=30 * SLOW)
    assert r.returncode == 78 and "c.yaml:1:1: unknown section" in r.stderr
