# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce doctor` under a real systemd: it finds each fault, and the command that it prints
repairs the fault.

Each test breaks one thing, checks the finding, runs the command unchanged, and checks that nothing
is found any more.
"""
import json
import signal
import subprocess

import pytest

import client

GUIDE = "/usr/share/sconce/models/sconce-guide.gguf"


@pytest.fixture(scope="module")
def m(own_machine):
    machine = own_machine
    machine.add_user("alice")
    machine.add_user("eve", linger=False)
    machine.run(["sconce", "setup", "tcp"])
    machine.run(["sconce", "setup", "tcp", "--port", "7267"], user="alice")
    return machine


def doctor(m, *words, user=None):
    r = m.run(["sconce", "doctor", "--json", *words], user=user, check=False)
    report = json.loads(r.stdout)
    assert r.returncode == (0 if report["healthy"] else 1), r.stdout
    return report


def broken(m, *words, user=None):
    return [f for f in doctor(m, *words, user=user)["findings"] if f["kind"] == "broken"]


def only_one(m, part, user=None, kind="broken"):
    """Returns the only finding of this kind, whose text must contain @part."""
    found = [f for f in doctor(m, user=user)["findings"] if f["kind"] == kind]
    assert len(found) == 1 and part in found[0]["what"], found
    return found[0]


def mend(m, finding, user=None):
    """Runs the command as a person would; the tests are root already, so without sudo."""
    command = finding["command"]
    if command.startswith("sudo "):
        user = None
    m.run(command.replace("sudo ", ""), user=user)


def assert_mends(m, part, user=None):
    found = only_one(m, part, user)
    mend(m, found, user)
    assert broken(m, user=user) == []
    return found


@pytest.mark.parametrize("user", [None, "alice"])
def test_nothing_is_broken_at_first_and_nothing_is_woken(m, user):
    m.systemctl("stop", "sconce-chat.service", "sconce-gateway.service", user=user)
    r = m.run(["sconce", "doctor"], user=user)
    assert r.stdout.endswith("Nothing is broken.\n")
    assert not m.is_active("sconce-gateway.service", user)
    assert not m.is_active("sconce-chat.service", user)
    assert doctor(m, user=user)["healthy"]


@pytest.mark.parametrize("user", [None, "alice"])
def test_a_test_question_is_asked_only_when_wanted(m, user):
    assert broken(m, "--deep", user=user) == []
    assert m.is_active("sconce-chat.service", user)


@pytest.mark.parametrize("user,port,next_port", [(None, 7266, 7268), ("alice", 7267, 7268)])
def test_a_taken_port_is_reported_with_its_owner(m, user, port, next_port):
    m.systemctl("stop", "sconce-gateway.service", "sconce-gateway-tcp.socket", user=user)
    other = m.popen(["python3", "-c", "import os, socket, time\n"
                     "s = socket.create_server(('127.0.0.1', %d))\n"
                     "print(os.getpid(), flush=True)\n"
                     "time.sleep(600)" % port], stdout=subprocess.PIPE, text=True)
    pid = other.stdout.readline().strip()
    try:
        m.systemctl("start", "sconce-gateway-tcp.socket", user=user, check=False)
        found = only_one(m, "port %d is taken by " % port, user)
        assert "of user root" in found["what"]
        if user is None:
            assert "python3 (pid " in found["what"]
        assert found["command"].endswith("--port %d" % next_port)
        mend(m, found, user)
        assert broken(m, user=user) == []
        assert client.get(m, "/health", port=next_port).status == 200
    finally:
        m.run(["kill", pid])
        other.wait()
        m.run(["sconce", "setup", "tcp", "--port", str(port)], user=user)


def test_a_mistake_in_the_configuration_has_line_and_column(m):
    name = "/etc/sconce/sconce.d/90-mistake.yaml"
    m.write(name, "chat:\n  threads: many\n")
    try:
        found = only_one(m, name + ":2:12: chat.threads must be a whole number")
        assert found["command"] == "${EDITOR:-vi} +2 " + name
        # The services of users read the file too.
        assert name + ":2:12" in only_one(m, name, "alice")["what"]
    finally:
        m.remove(name)
    assert broken(m) == []


def test_configuration_that_services_may_not_read(m):
    m.write("/etc/sconce/sconce.d/90-secret.yaml", "chat:\n  threads: 1\n", mode=0o600)
    found = assert_mends(m, "no permission to read /etc/sconce/sconce.d/90-secret.yaml")
    assert found["command"] == "chmod o+r /etc/sconce/sconce.d/90-secret.yaml"
    m.remove("/etc/sconce/sconce.d/90-secret.yaml")


@pytest.mark.parametrize("user,path", [(None, "/etc/sconce/api-keys"),
                                       ("alice", "/home/alice/.config/sconce/api-keys")])
def test_keys_that_others_may_read(m, user, path):
    m.run(["chmod", "644", path])
    assert_mends(m, "other users can read the API keys in " + path, user)


@pytest.mark.parametrize("user,path", [(None, "/etc/sconce/api-keys"),
                                       ("alice", "/home/alice/.config/sconce/api-keys")])
def test_an_endpoint_that_requires_keys_without_any(m, user, path):
    m.path(path).write_text("# none\n")
    assert_mends(m, "requires an API key, but there is no key", user)


def test_a_unix_socket_that_requires_keys_without_any(m):
    name = "/home/alice/.config/sconce/sconce.d/90-keys.yaml"
    m.path("/home/alice/.config/sconce/api-keys").write_text("")
    m.write(name, "gateway:\n  unix_access: key\n", user="alice")
    m.systemctl("stop", "sconce-gateway.service", user="alice")
    found = assert_mends(m, "requires an API key, but there is no key", "alice")
    assert found["command"] == "sconce setup key --user"
    status = m.run(["sconce", "status"], user="alice").stdout
    assert "sconce/gateway.sock, with an API key\n" in status
    assert broken(m, "--deep", user="alice") == []
    m.remove(name)


@pytest.mark.parametrize("user", [None, "alice"])
@pytest.mark.parametrize("what", ["sconce.target", "sconce-*"])
def test_what_is_stopped_as_a_whole_is_one_line(m, user, what):
    m.systemctl("stop", what, user=user)
    assert_mends(m, "all of sconce is stopped", user)


@pytest.mark.parametrize("user", [None, "alice"])
@pytest.mark.parametrize("units,kind", [
    (["sconce-chat.service"], "broken"), (["sconce.target"], "broken"),
    (["sconce-embed.socket"], "advice"),
    (["--now", "sconce-chat.socket", "sconce-chat.service"], "broken"),
    (["--now", "sconce.target"], "broken")])
def test_masked_units_are_one_line(m, user, units, kind):
    m.systemctl("mask", *units, user=user)
    names = [unit for unit in units if unit != "--now"]
    try:
        found = only_one(m, " masked, so nothing can start ", user, kind)
        assert all(name in found["what"] for name in names)
        if names != ["sconce.target"]:
            told = m.run(["sconce", "status"], user=user).stdout.splitlines()
            assert all(any(name in line and "masked" in line for line in told) for name in names)
        mend(m, found, user)
        assert [f for f in doctor(m, user=user)["findings"] if "masked" in f["what"]] == []
        assert broken(m, user=user) == []
    finally:
        m.systemctl("unmask", *names, user=user)


@pytest.mark.parametrize("user", [None, "alice"])
@pytest.mark.parametrize("service", ["gateway", "chat"])
def test_a_socket_that_failed_or_was_stopped(m, user, service):
    m.systemctl("stop", "sconce-%s.service" % service, "sconce-%s.socket" % service, user=user)
    found = assert_mends(m, "sconce-%s.socket is inactive" % service, user)
    assert "restart sconce-%s.socket" % service in found["command"]


def test_a_socket_file_that_somebody_removed(m):
    m.run("systemctl start sconce-gateway.service; rm /run/sconce/gateway.sock")
    assert_mends(m, "/run/sconce/gateway.sock was removed")
    assert client.get(m, "/health").status == 200


def test_a_socket_behind_the_gateway_that_the_group_opens(m):
    """Makes the state that an older version left; doctor also reports what an upgrade would fix."""
    m.run("chgrp sconce /run/sconce/chat.sock")
    found = assert_mends(m, "the group sconce may use /run/sconce/chat.sock")
    assert found["command"] == "systemd-tmpfiles --create sconce.conf"
    assert m.run("stat -c '%U:%G %a' /run/sconce/chat.sock").stdout == "root:sconce-services 660\n"
    assert client.get(m, "/v1/models").status == 200
    m.systemctl("stop", "sconce-chat.service")


def test_a_group_that_is_missing(m):
    # The group is created again with another GID, which the open sockets do not have.
    m.run("groupdel sconce-services")
    assert_mends(m, "the group sconce-services does not exist")
    m.run("systemd-tmpfiles --create sconce.conf; systemctl stop sconce-gateway.service")
    assert client.get(m, "/v1/models").status == 200
    m.systemctl("stop", "sconce-chat.service")


# Models

@pytest.fixture
def store(m):
    """Provides /var/lib/sconce/models, and empties it afterwards."""
    yield "/var/lib/sconce/models"
    m.run("rm -rf /var/lib/sconce/models/*")


def test_a_model_that_the_service_may_not_read(m, store):
    m.run("cp %s %s/secret.gguf && chmod 600 %s/secret.gguf" % (GUIDE, store, store))
    found = assert_mends(m, "no permission to read %s/secret.gguf" % store)
    assert found["command"] == "chmod o+r %s/secret.gguf" % store
    assert client.ask(m, {**client.chat_body(), "model": "secret"}).status == 200


def test_a_model_behind_a_closed_directory(m, store):
    m.run("mkdir -p %s/org/closed && chmod 700 %s/org && cp %s %s/org/deep.gguf" %
          (store, store, GUIDE, store))
    found = only_one(m, "no permission to traverse %s/org" % store)
    mend(m, found)
    assert broken(m) == []


def test_a_damaged_model(m, store):
    m.run("head -c 3000 %s > %s/half.gguf" % (GUIDE, store))
    assert "model half is damaged" in only_one(m, "half")["what"]


@pytest.mark.parametrize("user,folder,place", [
    (None, "/srv/big disk", "/var/lib/sconce/models"),
    ("alice", "/home/alice/my models", "/home/alice/.local/share/sconce/models"),
])
def test_a_link_that_leaves_the_model_directories(m, store, user, folder, place):
    m.run(["mkdir", "-p", folder, place])
    m.run(["cp", GUIDE, folder + "/linked.gguf"])
    m.run(["ln", "-s", folder + "/linked.gguf", place + "/linked.gguf"])
    if user:
        m.run("chown -R %s: /home/%s/.local" % (user, user))
    try:
        found = assert_mends(m, "is outside of all model directories", user)
        assert "sconce setup models" in found["command"]
        answer = client.ask(m, {**client.chat_body(), "model": "linked"}, user=user)
        assert answer.status == 200, answer
    finally:
        config = "/home/%s/.config/sconce" % user if user else "/etc/sconce"
        m.run(["rm", "-f", place + "/linked.gguf", config + "/sconce.d/50-models.yaml"])
        m.run(["sconce", "setup", "models"], user=user)


def test_a_directory_that_the_unit_hides(m):
    m.run("mkdir -p /home/alice/ai && cp %s /home/alice/ai/hidden.gguf" % GUIDE)
    m.write("/home/alice/.config/sconce/sconce.d/80-models.yaml",
            "models:\n  directories: [/home/alice/ai]\n", user="alice")
    m.systemctl("stop", "sconce-chat.service", user="alice")
    answer = client.ask(m, {**client.chat_body(), "model": "hidden"}, user="alice")
    assert answer.status == 404, answer
    found = assert_mends(m, "/home/alice/ai/hidden.gguf is hidden from the chat service", "alice")
    assert found["command"] == "sconce setup models --user"
    answer = client.ask(m, {**client.chat_body(), "model": "hidden"}, user="alice")
    assert answer.status == 200, answer
    m.remove("/home/alice/.config/sconce/sconce.d/80-models.yaml")
    m.run(["sconce", "setup", "models"], user="alice")


def test_a_default_model_that_is_not_there(m):
    m.write("/etc/sconce/sconce.d/90-default.yaml", "models:\n  default: gpt-9\n")
    assert "models.default names gpt-9" in only_one(m, "gpt-9")["what"]
    m.remove("/etc/sconce/sconce.d/90-default.yaml")


# Doctor reads the journal and reports services that ended

def end_by(m, name, user=None, service="chat"):
    """Ends the running service by a signal, as the kernel or a bug would."""
    path = "/health" if service == "gateway" else "/v1/models"
    unit = "sconce-%s.service" % service
    assert client.get(m, path, user=user).status == 200
    cursor = m.cursor()
    m.systemctl("kill", "-s", name, unit, user=user)
    m.wait(lambda: any("UNIT_RESULT" in e for e in m.journal(cursor)),
           "the end of " + unit)


@pytest.mark.parametrize("service", ["gateway", "chat"])
def test_a_call_that_the_policy_refuses(m, service):
    end_by(m, "SYS", service=service)
    found = only_one(m, "made a system call that its policy does not allow")
    assert "sconce-%s.service" % service in found["what"]
    mend(m, found)
    assert broken(m) == []


def test_a_crash_and_a_hang(m):
    end_by(m, "ABRT")
    found = only_one(m, "sconce-chat.service failed")
    assert "signal %d" % signal.SIGABRT in found["what"]
    assert "journalctl -u sconce-chat.service" in found["what"]
    mend(m, found)
    assert broken(m) == []


def test_a_service_that_cannot_start_says_why_itself(m):
    m.write("/etc/systemd/system/sconce-chat.service.d/90-test.conf",
            "[Service]\nExecStart=\nExecStart=/usr/libexec/sconce/sconce-chat --nonsense\n")
    m.systemctl("daemon-reload")
    m.systemctl("restart", "sconce-chat.service", check=False)
    m.run(["journalctl", "--sync"])
    assert "sconce-chat.service failed" in only_one(m, "ended with status 2")["what"]
    m.remove("/etc/systemd/system/sconce-chat.service.d/90-test.conf")
    m.systemctl("daemon-reload")
    mend(m, only_one(m, "ended with status 2"))
    assert broken(m) == []


# The unit manager and the calling user

def test_units_that_changed_on_disk(m):
    unit = m.show("sconce-chat.service", "FragmentPath")
    m.run(["touch", "-d", "+1 minute", unit])
    found = assert_mends(m, "changed since systemd loaded them")
    assert found["command"] == "systemctl daemon-reload"
    m.systemctl("daemon-reload", user="alice")


def test_a_program_that_was_replaced_while_it_runs(m):
    assert client.get(m, "/v1/models").status == 200
    m.systemctl("stop", "sconce-chat.service", user="alice")
    m.run("cd /usr/libexec/sconce && cp -a sconce-chat new && mv new sconce-chat")
    found = only_one(m, "sconce-chat.service runs a program whose file was replaced", kind="advice")
    mend(m, found)
    assert doctor(m)["findings"] == []


def test_lingering_that_is_off(m):
    # The state of a user who is logged in and has not enabled lingering.
    m.run("rm /var/lib/systemd/linger/alice && systemctl start user@%d.service" % m.uid("alice"))
    m.wait(lambda: m.is_active("sconce.target", "alice"), "alice's sockets")
    found = only_one(m, "lingering is off", "alice", "advice")
    assert found["command"] == "loginctl enable-linger"
    # Runs the command as a unit, because newer versions of logind need to know the unit of the
    # caller.
    m.run(["systemd-run", "-q", "--wait", *found["command"].split(), "alice"])
    assert not any("lingering" in f["what"] for f in doctor(m, user="alice")["findings"])
    m.wait(lambda: m.is_active("sconce.target", "alice"), "alice's sockets")


def test_a_user_outside_the_group_is_reported(m):
    found = next(f for f in doctor(m, user="eve")["findings"] if f["check"] == "doors")
    assert found["command"] == "sudo usermod -aG sconce eve"
    assert "services of your own: sconce setup" in found["what"]
    for verb in (["status"], ["embed", "--address", "unix:/run/sconce/gateway.sock", "x"]):
        out = m.run(["sconce", *verb], user="eve", check=False)
        assert "usermod -aG sconce" in out.stdout + out.stderr
        assert "`sconce setup`" in out.stdout + out.stderr
    mend(m, found)
    assert [f for f in doctor(m, user="eve")["findings"] if f["check"] == "doors"] == []
    m.run(["gpasswd", "-d", "eve", "sconce"])


def test_checks_that_need_root_are_reported_as_not_done(m):
    findings = doctor(m, user="eve")["findings"]
    assert {f["check"] for f in findings if f["kind"] == "unseen"} == {"keys", "journal"}


def test_a_session_without_a_runtime_directory(m):
    r = m.run(["env", "-u", "XDG_RUNTIME_DIR", "-u", "DBUS_SESSION_BUS_ADDRESS", "sconce", "doctor",
               "--json"], user="alice", check=False)
    found = [f for f in json.loads(r.stdout)["findings"] if f["kind"] == "broken"]
    assert r.returncode == 1 and "XDG_RUNTIME_DIR is not set" in found[0]["what"]
    assert found[0]["command"] == "export XDG_RUNTIME_DIR=/run/user/%d" % m.uid("alice")
    assert broken(m, user="alice") == []


def test_no_open_endpoint_at_all(m):
    m.systemctl("disable", "--now", "sconce.target")
    # systemctl waits only for the target; its parts stop in the meantime.
    m.systemctl("stop", "sconce-gateway.service", "sconce-gateway.socket",
                "sconce-gateway-tcp.socket", "sconce-chat.service", "sconce-chat.socket")
    try:
        found = only_one(m, "no socket of sconce is open")
        assert found["command"] == "sconce setup --system"
        mend(m, found)
        assert broken(m) == []
    finally:
        m.systemctl("enable", "--now", "sconce.target")


def test_a_gpu_that_is_gone(m):
    m.run("mkdir -p /dev/dri && mknod /dev/dri/renderD128 c 1 3 && chmod 666 /dev/dri/renderD128")
    m.run(["sconce", "setup", "gpu"])
    assert broken(m) == []
    m.run("rm -r /dev/dri")
    found = assert_mends(m, "/dev/dri/renderD128 does not exist")
    assert found["command"] == "sconce setup gpu --system --off"


def test_a_unit_that_stops_nvidias_driver(m):
    """Uses the drop-in of an older version, which did not permit executable memory."""
    drop_in = "/etc/systemd/system/sconce-chat.service.d/50-gpu.conf"
    m.run("mknod -m 666 /dev/nvidiactl c 1 3")
    try:
        m.run(["sconce", "setup", "gpu"])
        m.run("sed -i /MemoryDenyWriteExecute/d %s" % drop_in)
        m.systemctl("daemon-reload")
        m.systemctl("stop", "sconce-chat.service")
        assert client.get(m, "/v1/models").status == 200
        journal = m.run("journalctl --no-pager -b -u sconce-chat.service").stdout
        assert "computing on cpu: NVIDIA's driver compiles code" in journal
        found = [f for f in doctor(m)["findings"] if "NVIDIA's driver" in f["what"]]
        assert [f["command"] for f in found] == ["sconce setup gpu --system"]
        assert found[0]["kind"] == "advice"
        mend(m, found[0])
        assert not [f for f in doctor(m)["findings"] if "NVIDIA's driver" in f["what"]]
    finally:
        m.run(["sconce", "setup", "gpu", "--off"])
        m.run("rm /dev/nvidiactl")


# `sconce status`

def status(m, *words, user=None):
    return json.loads(m.run(["sconce", "status", "--json", *words], user=user).stdout)


@pytest.mark.parametrize("user", [None, "alice"])
def test_the_state_of_a_service_does_not_depend_on_what_the_gateway_knows(m, user):
    assert client.ask(m, user=user).status == 200
    assert status(m, user=user)["services"]["chat"] == "runs"
    m.systemctl("stop", "sconce-gateway.service", user=user)
    # This gateway is new, and has sent no request to chat yet.
    assert client.get(m, "/health", user=user).status == 200
    told = status(m, user=user)
    assert told["services"]["chat"] == "runs" and told["chat_running"]
    assert [model["name"] for model in told["models"]] == ["sconce-guide"]
    assert "sleeps" not in m.run(["sconce", "status"], user=user).stdout
    m.systemctl("stop", "sconce-chat.service", user=user)
    told = status(m, user=user)
    assert told["services"]["chat"] == "sleeps"
    # The chat service has ended, so its last status text is not shown.
    unit = next(u for u in told["units"] if u["unit"] == "sconce-chat.service" and
                u["manager"] == ("user" if user else "system"))
    assert (unit["state"], unit["status"]) == ("inactive", "")


def test_states_are_shown_to_users_whom_the_gateway_does_not_tell_them(m):
    assert client.ask(m).status == 200
    for member in (False, True):
        if member:
            m.run(["usermod", "-aG", "sconce", "eve"])
        told = status(m, user="eve")
        assert bool(told["gateway"]) == member
        assert told["services"]["chat"] == "runs" and told["chat_running"] is True
        assert told["models"] == [] and told["device"] is None
    m.systemctl("stop", "sconce-gateway.service")
    told = status(m, user="eve")
    assert told["gateway"] is None and told["chat_running"] is True
    m.systemctl("stop", "sconce-chat.service")
    assert status(m, user="eve")["chat_running"] is False
    # Over TCP the states are unknown, and `sconce status` does not guess.
    told = status(m, "--address", "http://127.0.0.1:7266/v1", user="eve")
    assert told["services"]["chat"] == "unknown" and told["chat_running"] is None
    m.run(["gpasswd", "-d", "eve", "sconce"])


def test_a_gateway_that_cannot_be_started_does_not_sleep(m):
    m.systemctl("stop", "sconce-gateway.service")
    asleep = "The gateway does not run; the first connection starts it.\n"
    closed = "No socket of sconce is open; `sconce doctor` finds out why.\n"
    assert m.run(["sconce", "status"]).stdout.endswith(asleep)
    m.systemctl("mask", "sconce-gateway.service")
    assert m.run(["sconce", "status"]).stdout.endswith(closed)
    m.systemctl("unmask", "sconce-gateway.service")
    m.systemctl("stop", "sconce-*")
    assert m.run(["sconce", "status"]).stdout.endswith(closed)
    m.systemctl("restart", "sconce.target")
    assert m.run(["sconce", "status"]).stdout.endswith(asleep)
