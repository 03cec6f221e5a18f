# SPDX-License-Identifier: Apache-2.0
"""Tests upgrade, removal and purge under a running systemd, with clients connected."""
import threading

import pytest

import packages
from client import Crowd, Stream, ask, chat_body, long_body, wake
from conftest import LATER
from services import SERVICES, all_units, service

SOCKETS = tuple(unit for row in SERVICES for unit in row.socket_units)
OLLAMA = "sconce-gateway-ollama.socket"  # closed until somebody opens it


def apt(machine, command):
    return machine.run("cd /root && apt-get -y --no-install-recommends %s </dev/null 2>&1" % command,
                       env={"DEBIAN_FRONTEND": "noninteractive"}, timeout=300).stdout


def upgrade(machine, later):
    for deb in later:
        machine.write("/root/" + deb.name, deb.read_bytes())
    return apt(machine, "install " + " ".join("./" + deb.name for deb in later))


@pytest.fixture
def own(make_machine):
    return make_machine()


def test_an_upgrade_loses_no_request_and_no_socket(own, later):
    machine = own
    # The default answer of debconf also opens the TCP endpoint.
    opened = {unit: machine.show(unit, "ActiveEnterTimestampMonotonic") for unit in SOCKETS}
    assert ask(machine).status == 200
    pids = {row: wake(machine, row) for row in SERVICES}

    def work():
        answer = ask(machine, chat_body(4))
        return None if answer.status == 200 else repr(answer)

    stream = Stream(machine, long_body(300, stream=True)).first()
    # A client that stopped reading would be disconnected.
    reader = threading.Thread(target=stream.rest)
    reader.start()
    with Crowd(work, threads=3, pause=lambda: 0.05) as crowd:
        out = upgrade(machine, later)
        done, wrong = crowd.stop()
    assert done > 5 and wrong == []
    reader.join(60)
    assert stream.whole, stream.data[-300:]
    for word in ("error", "failed", "disabled or a static"):
        assert word not in out.lower(), out
    for unit in SOCKETS:
        assert machine.show(unit, "ActiveEnterTimestampMonotonic") == opened[unit], unit
    assert ask(machine).status == 200
    for row, pid in pids.items():
        assert wake(machine, row) != pid, row.unit
    for pid, _ in machine.processes():
        try:
            with open("/proc/%d/maps" % pid, encoding="utf-8") as maps:
                assert "sconce" not in "".join(line for line in maps if "(deleted)" in line)
        except OSError:
            continue
    assert LATER in machine.run(["dpkg-query", "-W", "sconce"]).stdout


def test_an_upgrade_starts_nothing_that_was_idle_or_stopped(own, later):
    machine = own
    machine.systemctl("stop", "sconce.target")
    machine.systemctl("disable", "sconce.target")
    for unit in SOCKETS:
        machine.systemctl("stop", unit)
    upgrade(machine, later)
    assert machine.programs() == []
    assert not machine.is_active("sconce.target")


def test_removal_stops_everything_and_purge_leaves_nothing(own):
    machine = own
    machine.add_user("ada")
    machine.systemctl("start", "sconce.target", user="ada")
    assert ask(machine).status == 200
    assert ask(machine, user="ada").status == 200
    assert len(machine.servers()) == 4
    out = apt(machine, "remove sconce")
    assert "failed" not in out.lower(), out
    machine.wait(lambda: machine.programs() == [], "all services to end")
    listening = machine.run(["ss", "-xltn"]).stdout
    assert "sconce" not in listening and ":7266" not in listening
    for unit in all_units():
        if "@." in unit:  # a template is never active itself
            continue
        assert not machine.is_active(unit), unit
        assert not machine.is_active(unit, user="ada"), unit
    out = apt(machine, "purge sconce sconce-audio libinfer0")
    found = machine.run("find /etc /run /usr /var/lib /var/cache -xdev -name '*sconce*' "
                        "-not -path '/var/cache/apt/*'").stdout.split()
    # Users keep their files: their runtime directories are removed when they log out.
    assert [path for path in found if not path.startswith("/run/user/")] == []
    assert machine.systemctl("--failed", "--no-legend").stdout == ""


def test_endpoints_open_again_after_a_new_installation(own, debs):
    machine = own
    apt(machine, "remove sconce")
    apt(machine, "install " + " ".join("./" + deb.name for deb in packages.runtime(debs)))
    assert ask(machine).status == 200


def test_the_audio_service_starts_and_stops_with_its_package(own, debs):
    machine = own
    assert wake(machine, service("audio"))
    apt(machine, "remove sconce-audio")
    assert "sconce-audio" not in machine.programs()
    assert not machine.is_active("sconce-audio.socket") and machine.is_active("sconce.target")
    audio = next(deb for deb in packages.runtime(debs) if deb.name.startswith("sconce-audio_"))
    assert ask(machine).status == 200
    apt(machine, "install ./" + audio.name)
    assert machine.is_active("sconce-audio.socket")
    assert wake(machine, service("audio"))


def test_a_policy_that_forbids_starting_is_obeyed(make_machine, debs):
    machine = make_machine(packages=False)
    machine.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", mode=0o755)
    for deb in packages.runtime(debs):
        machine.write("/root/" + deb.name, deb.read_bytes())
    apt(machine, "install " + " ".join("./" + deb.name for deb in packages.runtime(debs)))
    for unit in ("sconce.target", *SOCKETS):
        assert not machine.is_active(unit), unit
        state = machine.systemctl("is-enabled", unit, check=False).stdout.strip()
        assert state == ("disabled" if unit == OLLAMA else "enabled"), unit
    machine.remove("/usr/sbin/policy-rc.d")
    machine.systemctl("start", "sconce.target")
    assert ask(machine).status == 200
