# SPDX-License-Identifier: Apache-2.0
"""Tests the life of the keep service: its first use by the chat service starts it, responses on the
disk outlive it, and nobody else reads them."""
import json

import pytest

from client import MODEL, PROMPT, ask

UNIT = "sconce-keep.service"
DISK = "keep:\n  storage: disk\n  idle_timeout: 300ms\n"


@pytest.fixture(params=[None, "ada"], ids=["system", "user"])
def user(request, machine):
    if request.param:
        if machine.run(["id", "-u", "ada"], check=False).returncode:
            machine.add_user("ada")
        machine.systemctl("start", "sconce.target", user="ada")
    return request.param


def call(machine, user, path, body=None, who=None):
    """Returns (status, answer) of a request at the gateway of @user, or of the machine for None.
    @who sends the request; the default is @user, or root."""
    post = ["--data-binary", "@-", "-H", "Content-Type: application/json"] if body else []
    r = machine.run(["curl", "-sS", "-m", "60", "-w", "\n%{http_code}", "--unix-socket",
                     machine.socket_path("gateway", user), "http://localhost" + path, *post],
                    user=who or user, input=json.dumps(body) if body else None)
    text, _, status = r.stdout.rpartition("\n")
    return int(status), json.loads(text)


def respond(machine, user, text=PROMPT, **more):
    status, answer = call(machine, user, "/v1/responses",
                          {"model": MODEL, "input": text, "max_output_tokens": 16, **more})
    assert status == 200, answer
    return answer


def directory(machine, user):
    """Returns the directory that systemd makes for the service."""
    if not user:
        return "/var/lib/private/sconce-keep"
    version = int(machine.run(["systemctl", "--version"]).stdout.split()[1].partition(".")[0])
    return "/home/%s/%s/sconce-keep" % (user, ".local/state" if version >= 254 else ".config")


def files(machine, user):
    """Returns (mode, owner, path) of each file and directory of the service."""
    out = machine.run(["find", directory(machine, user), "-printf", "%y%m %u %P\n"], check=False)
    return [tuple(line.split(" ", 2)) for line in out.stdout.splitlines()]


def test_the_first_response_starts_it(machine, user):
    assert ask(machine, user=user).status == 200
    respond(machine, user, store=False)
    assert not machine.is_active(UNIT, user)
    first = respond(machine, user)
    assert machine.is_active(UNIT, user)
    assert call(machine, user, "/v1/responses/" + first["id"])[1]["output"] == first["output"]
    # Entries in memory are lost when the service ends, and nothing is on the disk.
    machine.systemctl("stop", UNIT, user=user)
    assert machine.show(UNIT, "Result", user) == "success"
    assert call(machine, user, "/v1/responses/" + first["id"])[0] == 404
    assert [row for row in files(machine, user) if row[0].startswith("f")] == []


def test_responses_on_the_disk_outlive_it(machine, user, configure):
    configure(DISK)
    if user:
        machine.systemctl("stop", "sconce-chat.service", UNIT, user=user)
    first = respond(machine, user)
    second = respond(machine, user, "And how?", previous_response_id=first["id"])
    # The service exits when it is idle, although it has entries.
    machine.wait_inactive(UNIT, user=user, timeout=15)
    assert machine.show(UNIT, "Result", user) == "success"
    assert call(machine, user, "/v1/responses/" + second["id"])[1]["output"] == second["output"]
    machine.systemctl("restart", "sconce.target", user=user)
    third = respond(machine, user, "Why?", previous_response_id=second["id"])
    assert third["previous_response_id"] == second["id"]
    rows = files(machine, user)
    assert ("d700", "") in [(mode, path) for mode, _, path in rows]
    assert {mode for mode, _, path in rows if path} == {"f600"}
    assert "kept.db" in [path for _, _, path in rows]
    assert "root" not in [owner for _, owner, _ in rows]
    machine.systemctl("stop", UNIT, user=user)
    if not user:
        # Another user of the same gateway does not find the response.
        machine.run("id member || useradd -m -G sconce member")
        assert call(machine, None, "/v1/responses/" + first["id"], who="member")[0] == 404
        assert machine.run(["cat", directory(machine, user) + "/kept.db"], user="member",
                           check=False).returncode == 1
    machine.systemctl("stop", UNIT, user=user)
    machine.run("rm -f %s/*" % directory(machine, user))
