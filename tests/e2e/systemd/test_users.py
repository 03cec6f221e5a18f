# SPDX-License-Identifier: Apache-2.0
"""Tests the system's instance and those of two users at the same time: none of them reaches
another's sockets, files or processes."""
import concurrent.futures
import json
import os
import re

import pytest

from client import MODEL, Crowd, ask, chat_body, wake
from services import SERVICES, service

USERS = {"ada": 7301, "bob": 7302}
UNITS = [row.unit for row in SERVICES]


class Instance:
    """Represents one instance of sconce: the system's if it has no user."""

    def __init__(self, machine, user, port):
        self.machine = machine
        self.user = user
        self.port = port
        self.key = None

    def ask(self, tcp=False, key=None, **more):
        how = {"port": self.port, "key": key or self.key} if tcp else {"user": self.user}
        return ask(self.machine, chat_body(8, **more), **how)

    def processes(self):
        return {row.name: self.machine.host_pid(row.unit, self.user) for row in SERVICES}

    def wake(self):
        """Starts all services of the instance."""
        for row in SERVICES:
            wake(self.machine, row, self.user)
        return self.processes()


@pytest.fixture(scope="module")
def instances(installed):
    machine = installed.machine
    found = {None: Instance(machine, None, 7266)}
    out = machine.run(["sconce", "setup", "access", "keys"]).stdout
    found[None].key = machine.path("/etc/sconce/api-keys").read_text().split("\n")[-2].split()[0]
    for user, port in USERS.items():
        if machine.run(["id", "-u", user], check=False).returncode:
            machine.add_user(user)
        machine.run(["sconce", "setup"], user=user)
        out = machine.run(["sconce", "setup", "tcp", "--port", str(port)], user=user).stdout
        assert "http://127.0.0.1:%d" % port in out, out
        keys = machine.path("/home/%s/.config/sconce/api-keys" % user)
        assert keys.stat().st_mode & 0o777 == 0o600
        found[user] = Instance(machine, user, port)
        found[user].key = [line.split()[0] for line in keys.read_text().splitlines()
                           if line.strip() and not line.startswith("#")][0]
        assert found[user].key in out
    yield found
    for user in USERS:
        machine.systemctl("stop", "sconce.target", *UNITS, user=user)


def test_all_answer_at_the_same_time(instances):
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        jobs = [pool.submit(i.ask, tcp, stream=stream) for i in instances.values()
                for tcp in (False, True) for stream in (False, True)]
        answers = [job.result() for job in jobs]
    assert [a.status for a in answers] == [200] * 12, answers
    machine = instances[None].machine
    assert machine.servers() == ["sconce-chat"] * 3 + ["sconce-gateway"] * 3


def test_crowds_at_each_do_not_mix(instances):
    def work(instance):
        answer = instance.ask(tcp=True)
        return None if answer.status == 200 else repr(answer)
    crowds = [Crowd(lambda i=i: work(i), 2) for i in instances.values()]
    import time
    time.sleep(3)
    for crowd in crowds:
        n, wrong = crowd.stop()
        assert wrong == [] and n > 3


STORY = "Once upon a time there was a lamp that nobody had lit for a hundred years. " * 8


@pytest.fixture(scope="module")
def members(instances):
    """Provides two users who are in the group of the machine's unix socket."""
    machine = instances[None].machine
    names = ("mia", "max")
    for name in names:
        if machine.run(["id", "-u", name], check=False).returncode:
            machine.add_user(name, groups=("sconce",), linger=False)
    return names


def ask_as(machine, user, path, body=None):
    """Returns (status, answer) of a request by that user over the machine's unix socket."""
    post = ["--data-binary", "@-"] if body else []
    r = machine.run(["curl", "-sS", "-m", "60", "-w", "\n%{http_code}", "--unix-socket",
                     "/run/sconce/gateway.sock", "http://localhost" + path, *post], user=user,
                    input=json.dumps(body) if body else None)
    text, _, status = r.stdout.rpartition("\n")
    return int(status), json.loads(text) if text.startswith("{") else text


def cached_for(machine, user, prompt=STORY):
    """Returns how many tokens of a prompt came from the cache, by the answer that this user
    gets."""
    status, answer = ask_as(machine, user, "/v1/completions",
                            {"model": MODEL, "prompt": prompt, "max_tokens": 1})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_no_user_learns_what_another_user_asked(instances, members):
    machine = instances[None].machine
    one, other = members
    assert cached_for(machine, one) == 0
    assert cached_for(machine, other) == 0
    assert cached_for(machine, one) > 0 and cached_for(machine, other) > 0
    assert cached_for(machine, None) == 0


def test_members_ask_and_root_observes(instances, members):
    machine = instances[None].machine
    for path in ("/metrics", "/health?deep=1"):
        status, answer = ask_as(machine, members[0], path)
        assert status == 403 and answer["error"]["code"] == "insufficient_rights"
        assert ask_as(machine, None, path)[0] == 200
    out = machine.run(["sconce", "status"], user=members[0]).stdout
    assert "API keys with the right observe" in out and "model " not in out
    assert "model    sconce-guide" in machine.run(["sconce", "status"]).stdout
    # Users have all rights on their own services.
    assert instances["ada"].ask().status == 200
    assert "model    sconce-guide" in machine.run(["sconce", "status"], user="ada").stdout


def test_no_user_opens_the_socket_of_another(instances):
    machine = instances[None].machine
    for user in USERS:
        for other in instances:
            if other == user:
                continue
            for service in ("gateway", "chat"):
                path = machine.socket_path(service, other)
                r = machine.run(["curl", "-sS", "-m", "10", "--unix-socket", path,
                                 "http://localhost/v1/models"], user=user, check=False)
                assert r.returncode == 7 and r.stdout == "", (user, path, r)
                opened = machine.run(["python3", "-c", """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    print("denied")
""", path], user=user)
                assert opened.stdout == "denied\n", (user, path, opened)


def test_no_key_opens_the_port_of_another(instances):
    for one in instances.values():
        for other in instances.values():
            expected = 200 if one is other else 401
            assert one.ask(tcp=True, key=other.key).status == expected
        assert one.ask(tcp=True, key="none-of-all").status == 401


def test_ports_and_keys_are_each_users_own(instances):
    machine = instances[None].machine
    assert len({i.key for i in instances.values()}) == 3
    listening = machine.run(["ss", "-tln"]).stdout
    assert set(re.findall(r"127\.0\.0\.1:(7\d\d\d)\b", listening)) >= {"7266", "7301", "7302"}
    assert "0.0.0.0" not in listening.replace("0.0.0.0:*", "")
    for user in USERS:
        for other in USERS:
            if other != user:
                r = machine.run(["cat", "/home/%s/.config/sconce/api-keys" % other], user=user,
                                check=False)
                assert r.returncode == 1
        assert machine.run(["cat", "/etc/sconce/api-keys"], user=user, check=False).returncode == 1


def test_services_of_users_have_namespaces_of_their_own(instances):
    machine = instances[None].machine
    seen = {}
    for user, instance in instances.items():
        assert instance.ask().status == 200
        for name, pid in instance.wake().items():
            for kind in service(name).namespaces(user):
                space = os.readlink("/proc/%d/ns/%s" % (pid, kind))
                assert space != os.readlink("/proc/%d/ns/%s" % (machine.leader, kind)), (user, name)
                assert space not in seen, (user, name, kind, seen.get(space))
                seen[space] = (user, name)
            # The network namespace has only a loopback device, and no address that can be reached.
            devices = open("/proc/%d/net/dev" % pid).read().splitlines()[2:]
            assert [d.split(":")[0].strip() for d in devices] == ["lo"]


def test_services_run_as_users_without_privileges(instances):
    machine = instances[None].machine
    for user, instance in instances.items():
        assert instance.ask().status == 200
        for name, pid in instance.wake().items():
            status = dict(line.split(":\t", 1) for line in
                          open("/proc/%d/status" % pid).read().splitlines() if ":\t" in line)
            uids = {int(word) for word in status["Uid"].split()}
            if user:
                assert uids == {machine.uid(user)}
            elif name == "store":  # models outlive the service, so they belong to a static user
                assert uids == {machine.uid("sconce-store")}
            else:
                # A UID from systemd's range for dynamic users.
                assert len(uids) == 1 and 61184 <= uids.pop() <= 65519
            assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
            assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0


def test_one_instance_ends_alone(instances):
    machine = instances[None].machine
    ada, bob = instances["ada"], instances["bob"]
    assert bob.ask().status == 200
    before = bob.wake()
    machine.systemctl("stop", "sconce.target", user="ada")
    machine.wait_inactive(*UNITS, user="ada")
    with pytest.raises(OSError):
        ada.ask()
    assert bob.ask().status == 200 and bob.processes() == before
    assert instances[None].ask().status == 200
    machine.systemctl("start", "sconce.target", user="ada")
    assert ada.ask().status == 200 and ada.ask(tcp=True).status == 200


def test_an_instance_lives_as_long_as_its_users_manager(instances):
    """The sockets that a user enabled are opened again with the session; nothing else starts."""
    machine = instances[None].machine
    machine.run(["systemctl", "restart", "user@%d.service" % machine.uid("bob")])
    machine.wait(lambda: machine.systemctl("is-active", "sconce.target", user="bob",
                                           check=False).stdout == "active\n", "bob's sockets")
    assert instances["bob"].processes() == {row.name: None for row in SERVICES}
    assert instances["bob"].ask().status == 200
    assert instances["bob"].ask(tcp=True).status == 200


def test_without_setup_a_user_has_no_tcp_endpoint(instances):
    machine = instances[None].machine
    if machine.run(["id", "-u", "carl"], check=False).returncode:
        machine.add_user("carl")
    listed = machine.systemctl("list-units", "--no-legend", "sconce*", user="carl").stdout
    assert listed == ""
    assert not machine.path(machine.socket_path("gateway", "carl")).exists()
