# SPDX-License-Identifier: Apache-2.0
"""Tests the way from a system without sconce to a first answer. Until the first request, no process
runs."""
import re
import shlex

import pytest

from client import MODEL, ask, chat_body, get
from services import COMMON_UNITS, OPTIONAL_SOCKETS, SERVICES, all_units


@pytest.fixture
def packaged(debs):
    if not debs:
        pytest.skip("no packages: a build directory stands in for them")


def test_apt_installs_without_a_complaint(installed, packaged):
    for word in ("warning", "error", "cannot", "failed", "not found"):
        lines = [line for line in installed.output.splitlines() if word in line.lower()]
        # In these machines apt itself prints messages about its sandbox user and debconf's
        # frontends.
        assert [line for line in lines if "_apt" not in line and "debconf" not in line] == []


def test_endpoints_are_enabled_and_users_are_asked_first(installed):
    machine = installed.machine

    def state(unit, *options):
        return machine.run(["systemctl", *options, "is-enabled", unit], check=False).stdout.strip()

    assert state("sconce.target") == "enabled"
    for row in SERVICES:
        assert state(row.unit) in ("static", "disabled", "indirect")
        for socket in row.socket_units:
            assert socket in OPTIONAL_SOCKETS or machine.is_active(socket)
    for unit in all_units():
        assert state(unit, "--user", "--global") != "enabled", unit


def test_nothing_of_ours_runs_until_somebody_connects(machine):
    assert machine.programs() == []
    slices = machine.run("find /sys/fs/cgroup/sconce.slice -name cgroup.procs -exec cat {} +",
                         check=False).stdout
    assert slices == ""
    # Only systemd holds the listening sockets.
    listening = machine.run(["ss", "-xlp"]).stdout
    lines = [line for line in listening.splitlines() if "/run/sconce/" in line]
    n_sockets = len(SERVICES) + sum(bool(row.starts) for row in SERVICES)
    assert len(lines) == n_sockets and all('"systemd",pid=1' in line for line in lines), listening


def test_first_connection_starts_gateway_and_then_chat(machine):
    cursor = machine.cursor()
    answer = ask(machine)
    assert answer.status == 200 and answer.json["choices"][0]["message"]["content"]
    assert machine.servers() == ["sconce-chat", "sconce-gateway"]
    started = [entry["UNIT"] for entry in machine.journal(cursor)
               if entry.get("UNIT") in [row.unit for row in SERVICES if row.answers]
               and entry["MESSAGE"].startswith("Started ")]
    assert started == ["sconce-gateway.service", "sconce-chat.service"]


def test_health_and_metrics_start_the_gateway_alone(machine):
    assert get(machine, "/health").status == 200
    assert b"sconce_gateway" in get(machine, "/metrics").data
    assert machine.servers() == ["sconce-gateway"]


def test_the_group_opens_the_unix_socket(machine):
    machine.run("id member || useradd -m -G sconce member; id other || useradd -m other")
    curl = ["curl", "-sS", "-m", "30", "--unix-socket", "/run/sconce/gateway.sock",
            "http://localhost/v1/models"]
    assert MODEL in machine.run(curl, user="member").stdout
    refused = machine.run(curl, user="other", check=False)
    assert refused.returncode == 7 and refused.stdout == ""
    # Only the chat service and root may use the cache.
    status = ["sconce", "cache", "status"]
    assert machine.run(status, user="member", check=False).returncode == 1
    assert "/var/cache/sconce-cache" in machine.run(status).stdout
    # Root proves to the service that it can open the directory, which belongs to another user.
    for words in (["ls", "--sessions"], ["verify"], ["purge", "--older-than", "9d"]):
        machine.run(["sconce", "cache", *words])


@pytest.mark.parametrize("row", [row for row in SERVICES if row.name != "gateway"],
                         ids=lambda row: row.name)
def test_members_of_the_group_reach_no_service_behind_the_gateway(machine, row):
    """Tests that connecting fails, because these services would tell the members of the group which users have data in
    the caches."""
    machine.run("id member || useradd -m -G sconce member")
    refused = machine.run(["python3", "-c", CONNECT, "/run/sconce/" + row.socket_file,
                           str(int(row.socket_type))], user="member").stdout
    assert refused == "PermissionError\n"
    assert not machine.is_active(row.unit)


# Connects to a unix socket of a given type, and prints the result.
CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX, int(sys.argv[2])).connect(sys.argv[1])
    print("connected")
except OSError as e:
    print(type(e).__name__)
"""


def api_key(machine):
    for line in machine.path("/etc/sconce/api-keys").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            return line.split()[0]
    raise AssertionError("no key in /etc/sconce/api-keys")


def test_tcp_asks_for_the_key_of_the_installation(machine, packaged):
    key = api_key(machine)
    assert machine.path("/etc/sconce/api-keys").stat().st_mode & 0o777 == 0o600
    for wrong in (None, "x" + key[1:], key + "x", ""):
        refused = ask(machine, port=7266, key=wrong)
        assert refused.status == 401 and "API key" in refused.json["error"]["message"], refused
    assert machine.servers() == ["sconce-gateway"]
    assert ask(machine, port=7266, key=key).status == 200
    # The port is open only on the loopback address.
    assert "127.0.0.1:7266" in machine.run(["ss", "-tln"]).stdout
    assert not re.search(r"(0\.0\.0\.0|\*|\[::\]):7266", machine.run(["ss", "-tln"]).stdout)


def test_three_commands_from_a_bare_system_to_the_first_token(make_machine, debs, packaged):
    """Takes the steps of a new user: apt install, joining the group, a first question."""
    import packages
    machine = make_machine(packages=False)
    machine.run("useradd -m ada")
    names = []
    for deb in packages.runtime(debs):
        machine.write("/root/" + deb.name, deb.read_bytes())
        names.append("./" + deb.name)
    commands = [
        "apt-get -y --no-install-recommends install " + " ".join(names),
        "usermod -aG sconce ada",
        "runuser -u ada -- sconce run %s %s </dev/null" % (MODEL, shlex.quote("What is sconce?")),
    ]
    for command in commands:
        out = machine.run("cd /root && " + command, env={"DEBIAN_FRONTEND": "noninteractive"})
    assert len(out.stdout.split()) > 3, out
    # Sends a question over HTTP, as any client does.
    body = '{"model":"%s","messages":[{"role":"user","content":"Hello"}]}' % MODEL
    out = machine.run(["curl", "-sS", "--unix-socket", "/run/sconce/gateway.sock", "-d", body,
                       "http://localhost/v1/chat/completions"], user="ada")
    assert '"finish_reason"' in out.stdout
    assert machine.servers() == ["sconce-chat", "sconce-gateway"]
    assert ask(machine, chat_body(4)).status == 200


def test_units_of_the_suite_are_all_there(installed):
    listed = installed.machine.run(["systemctl", "list-unit-files", "--no-legend",
                                    "sconce*"]).stdout
    names = {line.split()[0] for line in listed.splitlines()}
    assert names == set(all_units())
    assert set(COMMON_UNITS) <= names
    failed = installed.machine.run(["systemctl", "--failed", "--no-legend"]).stdout
    assert failed == ""


def test_a_long_prompt_is_kept_and_the_cache_ends_after_chat(machine):
    body = {**chat_body(4), "messages": [{"role": "user", "content": "Hello there, " * 200}]}
    assert ask(machine, body).status == 200
    machine.wait(lambda: "blocks" in machine.show("sconce-cache.service", "StatusText"),
                 "blocks to be kept")
    groups = machine.run("grep Groups /proc/%s/status" %
                         machine.show("sconce-chat.service", "MainPID")).stdout.split()
    assert machine.run("getent group sconce-kv").stdout.split(":")[2] in groups
    cursor = machine.cursor()
    machine.systemctl("stop", "sconce.target")
    machine.wait_inactive(*[row.unit for row in SERVICES])
    ended = [entry["UNIT"] for entry in machine.journal(cursor)
             if entry.get("UNIT") in [row.unit for row in SERVICES]
             and entry["MESSAGE"].startswith("Stopped ")]
    assert ended.index("sconce-chat.service") < ended.index("sconce-cache.service")
    for unit in ended:
        assert machine.show(unit, "Result") == "success"
    machine.systemctl("start", "sconce.target")
