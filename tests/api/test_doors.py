# SPDX-License-Identifier: Apache-2.0
"""Who may ask, by door; and what clients see of a configuration that is wrong."""
import http.client
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from conftest import CHAT, GATEWAY, SLOW, Suite, check_log, read_all

MODELS = "/v1/models"


def ask(suite, door, key=None, path=MODELS, scheme="Bearer"):
    """(status, decoded body) of a GET by one of the doors."""
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
    """A suite whose gateway finds a key file where systemd puts credentials, or at home."""
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
    # Nobody wakes a service, or learns what it does, through a closed door.
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


def test_the_unix_door_may_ask_too(make_keyed):
    suite = make_keyed(b"k1\n", gateway="  unix_access: key\n  tcp_access: open\n")
    assert ask(suite, "unix")[0] == 401
    assert ask(suite, "unix", "k1")[0] == 200
    assert ask(suite, "tcp")[0] == 200


def test_the_option_opens_tcp(make_keyed):
    assert ask(make_keyed(args=["--tcp-access", "open"]), "tcp")[0] == 200


@pytest.mark.parametrize("keys, word", [
    (b"ok\nbad\x01key\n", "api-keys:2: a key is of printable"),
    (b"a\0b\n", "is text"),
    (b"x" * 600, "at most 512"),
    (b"k\n" * 1025, "more than 1024"),
])
def test_bad_key_files_are_told_and_let_nobody_in(make_keyed, keys, word):
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
    """Until a misconfigured service, which answered just now, has left."""
    end = time.monotonic() + 10 * SLOW
    # It may answer before the activator's thread has seen it start.
    while service.pid is None and time.monotonic() < end:
        time.sleep(0.005)
    service.wait_gone(10 * SLOW)


def write_config(suite, text):
    with open(os.path.join(suite.dir, "sconce.yaml"), "w") as f:
        f.write(text)


def test_a_wrong_configuration_is_told_and_mended_without_a_restart(make_suite):
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
    # A client that would keep its connection does not keep the mistake.
    with suite.connect() as s:
        s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"connection: close" in read_all(s).lower()
    assert suite.gateway.starts == 1
    write_config(suite, good)
    wait_left(suite.gateway)
    assert suite.gateway.status == 0
    assert ask(suite, "tcp")[0] == 200
    assert "the configuration is wrong" in open(suite.log_path).read()


def test_chat_tells_its_own_mistakes_by_the_gateway(make_suite):
    suite = make_suite()
    good = open(os.path.join(suite.dir, "sconce.yaml")).read()
    assert ask(suite, "tcp", path="/health")[0] == 200  # the gateway read the good one
    write_config(suite, good + "  threads: 1\n")
    status, body = ask(suite, "tcp")
    assert status == 503 and "chat.threads" in body["error"]["message"]
    write_config(suite, good)
    wait_left(suite.chat)
    status, body = ask(suite, "tcp")
    assert status == 200, body


# Has landlock_create_ruleset() fail as in a container that refuses it, then becomes the service.
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


def test_without_landlock_clients_are_told(make_suite):
    """A policy that cannot be applied is no crash loop behind a door that never answers."""
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
    """Whether the gateway filters its system calls."""
    assert ask(suite, "tcp", path="/health")[0] == 200
    return "Seccomp:\t2" in open("/proc/%d/status" % suite.gateway.wait_pid()).read()


@pytest.mark.parametrize("program", [GATEWAY, CHAT], ids=["gateway", "chat"])
def test_without_sockets_a_wrong_configuration_ends_at_once(model_dir, tmp_path, program):
    (tmp_path / "c.yaml").write_text("a: 1\n")
    r = subprocess.run([str(program), "--config", str(tmp_path / "c.yaml")], capture_output=True,
                       text=True, timeout=30 * SLOW)
    assert r.returncode == 78 and "c.yaml:1:1: unknown section" in r.stderr
