# SPDX-License-Identifier: Apache-2.0
"""Tests that services leave KV blocks in the cache directory, the numbers of requests in the directory of the
history, and nothing else on the disk."""
import json

import pytest

from client import chat_body
from services import SERVICES

SYSTEM = "/var/cache/private/sconce-cache"
USER = "/home/ada/.cache/sconce-cache"
# The directories of the history; systemd before version 254 uses the last one.
HISTORY = ("/var/lib/private/sconce-history", "/home/ada/.local/state/sconce-history",
           "/home/ada/.config/sconce-history")
# Paths that systemd and its journal write, with or without sconce.
MANAGERS = ("/run/systemd/", "/run/log/", "/run/udev/", "/run/user/", "/var/log/", "/var/lib/systemd/",
            "/var/lib/dbus/")


def changed(machine):
    """Returns files that were made or changed since the stamp, with their modes."""
    out = machine.run("find / /tmp /var/tmp /dev/shm /run -xdev -type f -cnewer /var/stamp "
                      "-printf '%m %p\\n' | sort -u").stdout
    rows = [line.split(" ", 1) for line in out.splitlines()]
    return {path: mode for mode, path in rows
            if not path.startswith(MANAGERS) and path != "/var/stamp"}


def stamp(machine):
    machine.run("touch /var/stamp; sleep 0.05")


def post(machine, user, path, command):
    """Posts the output of a command and returns the HTTP status. The command runs as the user,
    because a user's gateway does not know root and shares no cache with root."""
    return machine.run("%s | curl -sS -m 60 -o /dev/null -w '%%{http_code}' --data-binary @- "
                       "-H 'Content-Type: application/json' --unix-socket %s http://localhost%s"
                       % (command, machine.socket_path("gateway", user), path), user=user).stdout


def work(machine, user):
    """Sends requests of every kind, long enough that blocks are stored, and large enough to use
    much memory."""
    text = "Hello there, this is a story about a lamp. " * 60
    for stream in (False, True):
        body = json.dumps(chat_body(8, stream=stream, prompt=text))
        assert post(machine, user, "/v1/chat/completions", "echo '%s'" % body) == "200"
    for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/audio/transcriptions"):
        assert post(machine, user, path, "head -c 12M /dev/zero") in ("400", "404", "413", "415")


@pytest.fixture(params=[None, "ada"], ids=["system", "user"])
def user(request, machine):
    if request.param:
        if machine.run(["id", "-u", "ada"], check=False).returncode:
            machine.add_user("ada")
        machine.systemctl("start", "sconce.target", user="ada")
    return request.param


def test_services_write_into_the_cache_directory_and_nowhere_else(machine, user):
    home = USER if user else SYSTEM
    stamp(machine)
    work(machine, user)
    machine.wait(lambda: "blocks" in machine.show("sconce-cache.service", "StatusText", user),
                 "blocks to be kept")
    machine.systemctl("stop", "sconce-chat.service", user=user)
    for unit in ("sconce-cache.service", "sconce-gateway.service", "sconce-history.service"):
        machine.systemctl("stop", unit, user=user)
    files = changed(machine)
    assert [path for path in files if not path.startswith((home + "/", *HISTORY))] == []
    assert any(path.endswith(".kv") for path in files)
    assert set(files.values()) == {"600"}
    directories = machine.run(["find", home, "-type", "d", "-printf", "%m\\n"]).stdout.split()
    assert set(directories) == {"700"}
    # Blocks contain keys and values and no text, and their names are hashes.
    assert machine.run(["grep", "-rla", "about a lamp", home], check=False).stdout == ""


def test_nothing_is_written_where_the_cache_is_off(machine, configure):
    configure("cache:\n  enabled: false\nhistory:\n  enabled: false\n")
    stamp(machine)
    work(machine, None)
    for row in SERVICES:
        machine.systemctl("stop", row.unit)
    assert changed(machine) == {}
