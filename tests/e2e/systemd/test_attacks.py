# SPDX-License-Identifier: Apache-2.0
"""Tests that an attacker who has taken over a service can do no harm: two walls deny each attack. A
wall is one independent mechanism that confines a service.

tests/attack makes the running service itself try the attacks; tests/lib/walls.py judges the results
and prints a table per service, in system and user mode. The state is read from the process and not
from its unit, because systemd may silently ignore settings of a unit.
"""
import os
import pathlib
import socket as socket_module
import subprocess

import pytest

import walls
from client import ask, wake
from serve import Serve
from services import SERVICES

USER = "bob"
PROGRAM = "/usr/lib/sconce-attack"
TCP = "sconce-gateway-tcp.socket"
MODES = ("system", "user")
# A service that exits because it is idle would look like a service that an attack ended.
STAY_FILE = "/etc/sconce/sconce.d/90-stay.yaml"
STAY = "".join("%s:\n  idle_timeout: 0\n" % row.name for row in SERVICES)
EACH = [pytest.param(mode, row, id="%s-%s" % (mode, row.name))
        for mode in MODES for row in SERVICES]


def excuses(row):
    return {**(walls.CONNECTING if row.may_connect or row.starts else {}),
            **(walls.KEEPING if row.keeps_files else {}),
            **(walls.HANDING if row.makes_memory else {})}


# This program is the peer at the other end of a virtual cable. It first prints its PID, for
# attaching the cable.
OUTSIDE = """
import os, socket
print(os.getpid(), flush=True)
input()
s = socket.create_server(("192.0.2.2", 7777))
print("ready", flush=True)
while True:
    s.accept()[0].close()
"""


class Field:
    """Represents a machine with files to attack, and running services."""

    def __init__(self, machine):
        self.machine = machine

    def user(self, mode):
        return USER if mode == "user" else None

    def pid(self, mode, row):
        """Returns the PID of the service in the machine; starts the service if it is not
        running."""
        return wake(self.machine, row, self.user(mode))

    def socket(self, mode, row):
        runtime = "/run/user/%d" % self.machine.uid(USER) if self.user(mode) else "/run"
        return "%s/sconce/%s" % (runtime, row.socket_file)

    def options(self, mode, row):
        other = next(r for r in SERVICES if r != row)
        user = self.user(mode)
        forbidden = [r for r in SERVICES if r != row and r.name not in row.may_connect and
                     r.socket_type == socket_module.SOCK_STREAM]
        socket = self.socket(mode, forbidden[0]) if forbidden else None
        home = "/home/%s" % USER
        return {
            "out": "192.0.2.2:7777",
            "other_file": "/home/alice/private", "home_file": "/home/alice/public",
            "homes": "/home", "root_file": "/root/.secret", "cache": "/var/cache/test",
            "state_dir": home + "/.local/state/other" if user else "/var/lib/sconce/other",
            "outside": "/tmp", "neighbor": self.pid(mode, other), "neighbor_socket": socket,
            "bus": "/run/dbus/system_bus_socket", "own_file": home + "/private" if user else None,
            "user_cache": (home if user else "/home/alice") + "/.cache",
            "store": self.models(mode),
            # The service that changes the store attacks another directory.
            **({"store": home + "/.local/state/other" if user else "/var/lib/sconce/other"}
               if row.changes_store else {}),
        }

    def models(self, mode):
        return "/home/%s/.local/share/sconce/models" % USER if self.user(mode) else "/var/lib/sconce/models"

    def attack(self, mode, row, **more):
        options = {**self.options(mode, row), **more}
        return walls.attack(PROGRAM, self.pid(mode, row), self.machine.run, **options)

    def alone(self, mode, row, **more):
        """Runs the same attacks on the service without a unit, as root."""
        directory = "/run/attack"
        self.machine.run(["mkdir", "-p", directory])
        options = self.options(mode, row)
        with Serve("sconce", directory, self.models(mode), self.machine.run,
                   self.machine.popen) as serve:
            other = next(r for r in SERVICES if r != row)
            options.update(neighbor=serve.pid(other.name), **more)
            return walls.attack(PROGRAM, serve.pid(row.name), self.machine.run, **options)

    def status(self, mode, row):
        """Returns /proc/PID/status of the service as a dictionary."""
        text = self.machine.path("/proc/%d/status" % self.pid(mode, row)).read_text()
        return {line.partition(":")[0]: line.partition(":")[2].split()
                for line in text.splitlines()}

    def namespace(self, pid, name):
        return os.readlink(self.machine.path("/proc/%d/ns/%s" % (pid, name)))


@pytest.fixture(scope="module")
def field(installed, program):
    machine = installed.machine
    machine.add_user("alice", linger=False)
    machine.add_user(USER)
    machine.run(["chmod", "755", "/home/alice", "/home/" + USER])
    machine.write("/home/alice/private", "secret\n", 0o600, "alice")
    machine.write("/home/alice/public", "secret\n", 0o644, "alice")
    machine.write("/home/alice/.cache/entry", "secret\n", 0o644, "alice")
    machine.write("/home/%s/private" % USER, "secret\n", 0o600, USER)
    machine.write("/home/%s/.cache/entry" % USER, "secret\n", 0o600, USER)
    machine.write("/home/%s/.local/share/sconce/models/README" % USER, "models\n", 0o644, USER)
    machine.write("/root/.secret", "secret\n", 0o600)
    machine.write("/var/cache/test/entry", "secret\n")
    machine.write("/var/lib/sconce/other/entry", "secret\n")
    machine.write("/home/%s/.local/state/other/entry" % USER, "secret\n", 0o600, USER)
    machine.write(PROGRAM, program.read_bytes(), 0o755)
    # Makes the node of a graphics device without a driver, which suffices for permissions and
    # namespaces.
    machine.run("mkdir /dev/dri && mknod -m 666 /dev/dri/renderD128 c 226 128")
    machine.write(STAY_FILE, STAY)
    stop_services(machine)  # the next processes read the configuration
    machine.systemctl("start", "sconce.target", user=USER)
    outside = lay_cable(machine)
    yield Field(machine)
    outside.kill()
    outside.wait()
    machine.run("ip link del out0; rm -r /dev/dri", check=False)
    # A file that is not a model would be reported as a broken one.
    machine.run("rm -f /var/lib/sconce/models/decoy.gguf "
                "/home/%s/.local/share/sconce/models/decoy.gguf" % USER)
    machine.remove(STAY_FILE)
    stop_services(machine)
    machine.systemctl("stop", "sconce.target", user=USER)


def stop_services(machine):
    for user in (None, USER):
        machine.systemctl("stop", *(row.unit for row in SERVICES), user=user)


def lay_cable(machine):
    """Connects the machine to a neighbor at 192.0.2.2."""
    outside = machine.popen(["unshare", "-n", "python3", "-c", OUTSIDE], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    there = outside.stdout.readline().strip()
    machine.run("ip link add out0 type veth peer name out1 netns %s && "
                "ip addr add 192.0.2.1/24 dev out0 && ip link set out0 up && "
                "nsenter -t %s -n sh -c 'ip addr add 192.0.2.2/24 dev out1 && ip link set out1 up'"
                % (there, there))
    outside.stdin.write("go\n")
    outside.stdin.flush()
    assert outside.stdout.readline() == "ready\n"
    return outside


@pytest.fixture(scope="session")
def program():
    build = pathlib.Path(os.environ.get("SCONCE_BUILD_USR") or os.environ.get("SCONCE_BUILD", ""))
    path = build / "tests/attack/attack"
    if not path.exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % build)
    return path


@pytest.mark.parametrize("mode, row", EACH)
def test_walls_as_the_process_sees_them(field, mode, row):
    machine = field.machine
    pid = field.pid(mode, row)
    status = field.status(mode, row)
    state = walls.state(PROGRAM, pid, machine.run)

    assert state["interfaces"] == "lo"
    assert (state["dumpable"], state["no-new-privs"]) == ("0", "1")
    assert state["mdwe"] in ("1", "-22")  # EINVAL: kernels before 6.3
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name][0], 16) == 0, name
    assert status["NoNewPrivs"] == ["1"]
    # TasksMax limits processes, because seccomp cannot distinguish them from threads in every case.
    assert machine.show(row.unit, "TasksMax", field.user(mode)) not in ("infinity", "")
    assert "0" not in status["Uid"]
    for space in row.namespaces(field.user(mode)):
        here = field.namespace(pid, space)
        others = [field.namespace(1, space), os.readlink("/proc/self/ns/" + space)]
        others += [field.namespace(field.pid(mode, r), space) for r in SERVICES if r != row]
        assert here not in others, space


@pytest.mark.parametrize("mode, row", EACH)
def test_every_thread_is_sealed(field, mode, row):
    pid = field.pid(mode, row)
    for task in field.machine.path("/proc/%d/task" % pid).iterdir():
        lines = dict(line.split(":\t") for line in (task / "status").read_text().splitlines()
                     if line.startswith(("Seccomp", "NoNewPrivs")))
        assert lines["Seccomp"] == "2" and lines["NoNewPrivs"] == "1", task
        # The unit has one filter, and the service two.
        assert int(lines["Seccomp_filters"]) > len(row.phases), task


@pytest.mark.parametrize("mode, row", EACH)
def test_each_attack_meets_two_walls(field, mode, row, capsys):
    pid = field.pid(mode, row)
    result = field.attack(mode, row)
    alone = field.alone(mode, row)
    table = walls.Table("%s, %s" % (row.name, mode), result, alone)
    with capsys.disabled():
        table.show()
    assert table.problems(excuses(row)) == []
    missing = [name for name in (*walls.PROMISED, "dev-gpu") if name not in table.rows]
    assert missing == []
    # Copies of the service ran the attacks; the service itself still works.
    assert ask(field.machine, user=field.user(mode)).status == 200
    assert field.pid(mode, row) == pid


@pytest.mark.parametrize("mode", MODES)
def test_a_graphics_device_opens_no_other_wall(field, mode):
    row = next(r for r in SERVICES if r.needs_models)
    machine, user = field.machine, field.user(mode)
    machine.run(["sconce", "setup", "gpu"], user=user)
    try:
        machine.systemctl("stop", row.unit, user=user)
        table = walls.Table("%s, %s, gpu" % (row.name, mode), field.attack(mode, row),
                            field.alone(mode, row))
    finally:
        machine.run(["sconce", "setup", "gpu", "--off"], user=user)
        machine.systemctl("stop", row.unit, user=user)
    table.show()
    assert table.rows["dev-gpu"]["spaces"] == "done"
    assert [p for p in table.problems(excuses(row)) if not p.startswith("dev-gpu")] == []


@pytest.mark.parametrize("mode", MODES)
def test_inherited_tcp_listener_leads_nowhere(field, mode, capsys):
    """The TCP listening socket belongs to the machine's network, in which it was created."""
    row = next(r for r in SERVICES if "gateway-tcp" in r.sockets)
    machine, user = field.machine, field.user(mode)
    machine.systemctl("stop", row.unit, user=user)
    machine.systemctl("start", TCP, user=user)
    try:
        only = "listener,listener-local"
        result = field.attack(mode, row, only=only, break_listener=True)
        alone = field.alone(mode, row, only=only, break_listener=True)
    finally:
        machine.systemctl("stop", row.unit, TCP, user=user)
    table = walls.Table("%s, %s, listener" % (row.name, mode), result, alone)
    with capsys.disabled():
        table.show()
    # No connection leaves the machine from the address to which this socket is bound.
    assert list(table.rows) == ["listener-local"]
    assert table.problems() == []


@pytest.mark.parametrize("mode, row", EACH)
def test_a_forbidden_call_ends_the_service_and_not_the_socket(field, mode, row):
    machine, user = field.machine, field.user(mode)
    pid = field.pid(mode, row)
    assert walls.run(PROGRAM, pid, machine.run, kill_self=True).strip() == "SIGSYS"
    assert ask(machine, user=user).status == 200
    assert field.pid(mode, row) != pid
