# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce setup` under a real systemd: endpoints, keys, access, GPUs, model directories.

The tests share one machine and build on each other in this order. The machine has the system's
instance, and two users with instances of their own.
"""
import json
import re
import subprocess

import pytest

import client

USERS = ("alice", "bob")


@pytest.fixture(scope="module")
def m(own_machine):
    machine = own_machine
    for user in USERS:
        machine.add_user(user)
    machine.add_user("eve", linger=False)
    run_setup(machine, "access", "group")
    return machine


def run_setup(m, *words, user=None, check=True):
    return m.run(["sconce", "setup", *words], user=user, check=check)


def key_of(text):
    return re.search(r"^API key +(sk-sconce-[A-Za-z0-9_-]{43})$", text, re.M).group(1)


def status(m, path="/v1/models", port=None, key=None, user=None):
    if port:
        return client.get(m, path, port=port, key=key).status
    return client.get(m, path, user=user, key=key).status


def can_connect(m, user):
    """Returns whether this user of the machine gets an answer on the system's unix socket."""
    r = m.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket",
               "/run/sconce/gateway.sock", "http://x/health"], user=user, check=False)
    return r.stdout == "200"


def test_two_users_and_the_system_have_tcp_endpoints_at_once(m):
    keys = {7266: key_of(run_setup(m, "tcp").stdout)}
    for port, user in ((7267, "alice"), (7268, "bob")):
        taken = run_setup(m, "tcp", user=user, check=False)
        assert taken.returncode == 1 and "port 7266 is taken by " in taken.stderr
        command = taken.stderr.split("The next free port: ")[1].strip()
        assert command == "sconce setup tcp --user --port %d" % port
        out = m.run(command, user=user).stdout
        assert "Base URL  http://127.0.0.1:%d/v1" % port in out
        keys[port] = key_of(out)
    assert len(set(keys.values())) == 3
    for port in keys:
        assert status(m, port=port) == 401
        for other, key in keys.items():
            assert status(m, port=port, key=key) == (200 if other == port else 401)
    assert m.run("stat -c '%a %U' /etc/sconce/api-keys /home/alice/.config/sconce/api-keys"
                 ).stdout.split() == ["600", "root", "600", "alice"]


def test_each_answers_questions_with_its_own_key(m):
    for port, user in ((7266, None), (7267, "alice"), (7268, "bob")):
        key = key_of(run_setup(m, "tcp", user=user).stdout)
        answer = client.ask(m, port=port, key=key)
        assert answer.status == 200, answer


def test_status_shows_the_endpoints(m):
    text = m.run(["sconce", "status"], user="alice").stdout
    assert re.search(r"^user +sconce-gateway.socket +active +unix:/run/user/\d+/sconce/gateway.sock$",
                     text, re.M)
    assert "http://127.0.0.1:7267/v1, with an API key\n" in text
    assert "http://127.0.0.1:7266/v1, with an API key\n" in text
    doors = [d for u in json.loads(m.run(["sconce", "status", "--json"]).stdout)["units"]
             for d in u["doors"]]
    assert {"address": "unix:/run/sconce/gateway.sock", "needs_key": False} in doors
    assert {"address": "http://127.0.0.1:7266/v1", "needs_key": True} in doors


def test_running_it_again_changes_nothing(m):
    for user in (None, "alice"):
        before = m.show("sconce-gateway.service", "ExecMainStartTimestampMonotonic", user)
        first, second = run_setup(m, "tcp", user=user), run_setup(m, "tcp", user=user)
        assert first.stdout == second.stdout and "wrote" not in second.stdout
        assert m.show("sconce-gateway.service", "ExecMainStartTimestampMonotonic", user) == before


def test_a_dry_run_tells_and_changes_nothing(m):
    def files():
        """Lists the files that changed since the stamp, without blocks, which a service may write
        at any time."""
        return m.run("find /etc /home -newer /tmp/stamp -not -type d "
                     "-not -path '*/sconce-cache/*' | sort").stdout

    m.run("touch /tmp/stamp")
    before = files()
    out = run_setup(m, "tcp", "--port", "9000", "--dry-run").stdout
    assert "would write /etc/systemd/system/sconce-gateway-tcp.socket.d/50-port.conf" in out
    assert "would run: systemctl daemon-reload" in out
    assert "would run: systemctl stop sconce-gateway.service" in out
    out = run_setup(m, "key", "phone", "--dry-run").stdout
    assert "would write /etc/sconce/api-keys (mode 0600)" in out
    assert not re.search(r"sk-sconce-[A-Za-z0-9_-]", out)
    run_setup(m, "access", "open", "--dry-run")
    assert files() == before
    assert m.show("sconce-gateway-tcp.socket", "Listen") == "127.0.0.1:7266 (Stream)"


def test_the_port_changes_under_load_without_a_failed_request(m):
    def work():
        a = client.get(m, "/v1/models", user="alice")
        return None if a.status == 200 else repr(a)

    crowd = client.Crowd(work)
    try:
        for port in (7400, 7401, 7267):
            out = run_setup(m, "tcp", "--port", str(port), user="alice").stdout
            assert status(m, port=port, key=key_of(out)) == 200
            listening = m.run(["ss", "-Hltn"]).stdout
            assert [p for p in (7400, 7401, 7267) if ":%d " % p in listening] == [port]
    finally:
        done, wrong = crowd.stop()
    assert done > 10 and not wrong, wrong[:5]


def test_a_new_key_works_at_once_and_its_name_once(m):
    old = key_of(run_setup(m, "tcp").stdout)
    new = key_of(run_setup(m, "key", "bob's laptop").stdout)
    assert new != old and status(m, port=7266, key=old) == 200
    assert status(m, port=7266, key=new) == 200
    again = run_setup(m, "key", "bob's laptop", check=False)
    assert again.returncode == 1 and "already" in again.stderr
    assert [status(m, "/metrics", 7266, key) for key in (old, new)] == [403, 403]
    graphs = key_of(run_setup(m, "key", "graphs", "--rights", "observe").stdout)
    assert status(m, "/metrics", 7266, graphs) == 200 and status(m, port=7266, key=graphs) == 403
    out = run_setup(m, "tcp").stdout
    assert key_of(out) == old
    # Removes a key by hand, as the file explains.
    m.run("sed -i \"/bob's laptop/d\" /etc/sconce/api-keys && systemctl restart sconce-gateway")
    assert status(m, port=7266, key=new) == 401
    assert status(m, port=7266, key=old) == 200


def test_each_access_mode_does_what_its_name_says(m):
    key = key_of(run_setup(m, "tcp").stdout)
    assert not can_connect(m, "eve")
    out = run_setup(m, "access", "open").stdout
    assert "share the prefix cache of prompts" in out
    assert can_connect(m, "eve") and status(m, port=7266) == 200
    assert status(m, "/metrics", port=7266) == 403
    # Opening the machine's TCP endpoint does not open that of a user.
    m.systemctl("stop", "sconce-gateway.service", user="bob")
    assert status(m, port=7268) == 401
    run_setup(m, "access", "group")
    assert not can_connect(m, "eve")
    with pytest.raises(ConnectionRefusedError):
        m.connect_tcp(7266)
    m.run(["usermod", "-aG", "sconce", "eve"])
    assert can_connect(m, "eve")
    m.run(["gpasswd", "-d", "eve", "sconce"])
    run_setup(m, "access", "keys")
    assert not can_connect(m, "eve")
    assert status(m, port=7266) == 401 and status(m, port=7266, key=key) == 200
    assert run_setup(m, "access", "all", check=False).returncode == 2


def test_endpoints_that_were_opened_alone_close_too(m):
    run_setup(m, "access", "open")
    m.systemctl("stop", "sconce.target")
    m.systemctl("start", "sconce-gateway-tcp.socket", "sconce-gateway.socket")
    # Only the gateway listens: an authorized client gets a 404.
    assert status(m, "/nothing", port=7266) == 404 and can_connect(m, "eve")
    run_setup(m, "access", "group")
    assert not can_connect(m, "eve")
    with pytest.raises(ConnectionRefusedError):
        m.connect_tcp(7266)
    assert m.show("sconce.target", "ActiveState") == "inactive"
    m.systemctl("start", "sconce.target")
    run_setup(m, "access", "keys")
    assert not can_connect(m, "eve") and status(m, port=7266) == 401


def test_tcp_goes_off_and_the_unix_socket_stays(m):
    run_setup(m, "tcp", "--off", user="bob")
    with pytest.raises(ConnectionRefusedError):
        m.connect_tcp(7268)
    assert status(m, user="bob") == 200
    assert not m.is_active("sconce-gateway-tcp.socket", "bob")


OLLAMA = "sconce-gateway-ollama.socket"


@pytest.mark.parametrize("user,port", [(None, 11434), ("alice", 11435)], ids=["system", "user"])
def test_the_port_for_clients_of_ollama_opens_and_closes(m, user, port):
    def closed():
        with pytest.raises(ConnectionRefusedError):
            m.connect_tcp(port)
        return not m.is_active(OLLAMA, user)

    assert closed()
    tcp = m.is_active("sconce-gateway-tcp.socket", user)
    # The machine has the usual port, and the user needs another one.
    words = ("tcp", "--ollama", *(("--port", str(port)) if user else ()))
    out = run_setup(m, *words, user=user).stdout
    assert "Base URL  http://127.0.0.1:%d\n" % port in out
    key = key_of(out)
    assert m.is_active(OLLAMA, user) and m.is_active("sconce-gateway-tcp.socket", user) == tcp
    assert "127.0.0.1:%d " % port in m.run(["ss", "-Hltn"]).stdout
    assert client.get(m, "/", port=port).data == b"Ollama is running"
    assert status(m, "/api/tags", port) == 401 and status(m, "/api/tags", port, key) == 200
    body = {"model": client.MODEL, "messages": [{"role": "user", "content": client.PROMPT}],
            "stream": False, "options": {"num_predict": 4, "temperature": 0}}
    answer = client.ask(m, body, port=port, key=key, path="/api/chat")
    assert answer.status == 200 and answer.json["done"] and answer.json["message"]["content"]
    # The socket starts the gateway, which may exit or be stopped.
    m.systemctl("stop", "sconce-gateway.service", user=user)
    assert status(m, "/api/version", port, key) == 200
    run_setup(m, "access", "open", user=user)
    assert status(m, "/api/tags", port) == 200
    run_setup(m, "access", "keys", user=user)
    assert status(m, "/api/tags", port) == 401
    run_setup(m, "tcp", "--ollama", "--off", user=user)
    assert closed() and m.is_active("sconce-gateway-tcp.socket", user)
    assert status(m, key=key, user=user) == 200


def test_access_for_the_group_closes_the_port_for_clients_of_ollama(m):
    run_setup(m, "tcp", "--ollama")
    run_setup(m, "access", "group")
    for port in (7266, 11434):
        with pytest.raises(ConnectionRefusedError):
            m.connect_tcp(port)
    run_setup(m, "access", "keys")
    assert not m.is_active(OLLAMA) and m.is_active("sconce-gateway-tcp.socket")


def test_files_edited_by_hand_are_kept_and_reported(m):
    name = "/home/alice/.config/systemd/user/sconce-gateway-tcp.socket.d/50-port.conf"
    text = m.run(["cat", name]).stdout + "# and mine\n"
    m.write(name, text, user="alice")
    out = run_setup(m, "tcp", "--port", "7300", user="alice").stdout
    assert "%s was edited by hand; it is now %s.old" % (name, name) in out
    assert m.run(["cat", name + ".old"]).stdout == text
    run_setup(m, "tcp", "--port", "7267", user="alice")


def test_one_of_two_users_who_want_a_port_at_the_same_time_gets_it(m):
    both = [m.popen(["sconce", "setup", "tcp", "--port", "7500"], user=user,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for user in USERS]
    out = [p.communicate(timeout=60) for p in both]
    assert sorted(p.returncode for p in both) == [0, 1], out
    loser = [p.returncode for p in both].index(1)
    assert "port 7500 is taken by " in out[loser][1]
    assert "--port 7501" in out[loser][1]
    for port, user in ((7267, "alice"), (7268, "bob")):
        run_setup(m, "tcp", "--port", str(port), user=user)
    run_setup(m, "tcp", "--off", user="bob")


def test_rights_that_are_missing_are_named(m):
    for words in (("tcp",), ("access", "open"), ("models", "/tmp"), ("key",)):
        r = run_setup(m, "--system", *words, user="alice", check=False)
        assert r.returncode == 1 and "sudo sconce setup" in r.stderr, r
    r = run_setup(m, "tcp", "--port", "80", user="alice", check=False)
    assert r.returncode == 1 and "only root can use port 80" in r.stderr


def test_a_user_may_open_an_endpoint_to_all(m):
    out = run_setup(m, "access", "open", user="bob").stdout
    assert "http://127.0.0.1:7268/v1" in out and status(m, port=7268) == 200
    assert "No key is required" in run_setup(m, "tcp", user="bob").stdout
    out = run_setup(m, "access", "keys", user="bob").stdout
    assert "api-keys" in out and status(m, port=7268) == 401
    run_setup(m, "tcp", "--off", user="bob")


def test_without_a_manager_files_are_written_and_it_says_so(m):
    r = m.run(["env", "-u", "XDG_RUNTIME_DIR", "-u", "DBUS_SESSION_BUS_ADDRESS", "sconce", "setup"],
              user="eve")
    assert "XDG_RUNTIME_DIR is not set" in r.stdout
    assert m.path("/home/eve/.config/systemd/user/default.target.wants/sconce.target").is_symlink()


def test_an_image_is_set_up_from_outside(m):
    m.run("mkdir -p /tmp/image/usr/lib/systemd && cp -a /usr/lib/systemd/system "
          "/tmp/image/usr/lib/systemd/; [ -e /tmp/image/usr/lib/systemd/system/sconce.target ] || "
          "cp -a /lib/systemd/system/sconce* /tmp/image/usr/lib/systemd/system/")
    run_setup(m, "access", "keys", "--root", "/tmp/image")
    wants = m.run("ls -l /tmp/image/etc/systemd/system/sconce.target.wants").stdout
    assert "sconce-gateway-tcp.socket -> /usr/lib/systemd/system/" in wants
    assert m.run("stat -c %a /tmp/image/etc/sconce/api-keys").stdout.strip() == "600"


# Devices and directories

def fake_gpu(m):
    """Makes device nodes that have the names of a GPU's nodes, but behave like /dev/null."""
    m.run("mkdir -p /dev/dri && mknod /dev/dri/renderD128 c 1 3 && "
          "mknod /dev/dri/card0 c 1 3 && groupadd -f render && chgrp render /dev/dri/* && "
          "chmod 660 /dev/dri/*")


def seen_by_chat(m, path, user=None):
    """Returns the names in this directory as the running chat service sees it."""
    assert status(m, "/v1/models", user=user) == 200
    pid = m.show("sconce-chat.service", "MainPID", user)
    return m.run("ls /proc/%s/root%s" % (pid, path), check=False).stdout.split()


def test_without_a_gpu_it_says_so(m):
    r = run_setup(m, "gpu", check=False)
    assert r.returncode == 1 and "there is no GPU here" in r.stderr


def test_the_chat_service_gets_the_gpu_and_nothing_else(m):
    fake_gpu(m)
    try:
        for user in (None, "alice"):
            assert "dri" not in seen_by_chat(m, "/dev", user)
            assert "no access to /dev/dri/renderD128" in run_setup(m, user=user).stdout
            out = run_setup(m, "gpu", user=user).stdout
            assert "The chat service has access to: /dev/dri/renderD128" in out
            assert "until a Vulkan driver is installed" in out or user
            if user:
                assert "usermod -aG render" in out
            assert seen_by_chat(m, "/dev/dri", user) == ["renderD128"]
            cache = "/home/alice/.cache" if user else "/var/cache/private"
            assert seen_by_chat(m, cache, user) == ["sconce"]
            assert m.run(["stat", "-c", "%a", cache + "/sconce"]).stdout.strip() == "700"
            assert m.show("sconce-chat.service", "StatusText", user).endswith("on cpu")
            assert "sda" not in seen_by_chat(m, "/dev", user)
            pid = m.show("sconce-gateway.service", "MainPID", user)
            assert "dri" not in m.run("ls /proc/%s/root%s" % (pid, "/dev"), check=False).stdout.split()
        limit = m.run(["systemd-analyze", "security", "--threshold=4", "--no-pager",
                       "sconce-chat.service"], check=False)
        assert limit.returncode == 0, limit.stdout
        groups = m.run("grep Groups /proc/%s/status" % m.show("sconce-chat.service", "MainPID"))
        assert m.run("getent group render").stdout.split(":")[2] in groups.stdout.split()
        for user in (None, "alice"):
            run_setup(m, "gpu", "--off", user=user)
            assert "dri" not in seen_by_chat(m, "/dev", user)
    finally:
        m.run("rm -r /dev/dri")


@pytest.mark.parametrize("user", [None, "alice"])
def test_only_nvidias_driver_may_make_memory_executable(m, user):
    def denied():
        return m.show("sconce-chat.service", "MemoryDenyWriteExecute", user)

    fake_gpu(m)
    try:
        run_setup(m, "gpu", user=user)
        assert denied() == "yes"
        m.run("mknod -m 666 /dev/nvidiactl c 1 3")
        out = run_setup(m, "gpu", user=user).stdout
        assert "may make memory executable, because NVIDIA's driver" in out
        assert denied() == "no"
        # The node is no GPU, so the service computes on the CPU, with the policy for this driver.
        assert status(m, "/v1/models", user=user) == 200
        assert m.show("sconce-chat.service", "StatusText", user).endswith("on cpu")
        m.run("rm /dev/nvidiactl")
        run_setup(m, "gpu", user=user)
        assert denied() == "yes"
    finally:
        run_setup(m, "gpu", "--off", user=user)
        m.run("rm -rf /dev/dri /dev/nvidiactl")


def models_of(m, user=None):
    answer = client.get(m, "/v1/models", user=user)
    assert answer.status == 200, answer
    return {x["id"] for x in json.loads(answer.data)["data"]}


@pytest.mark.parametrize("user,folder", [
    ("alice", "/home/alice/AI models/50% of: it"),
    (None, "/srv/models"),
    (None, "/home/user/models"),
])
def test_a_directory_of_models_becomes_visible(m, user, folder):
    name = "copy-" + re.sub("[^a-z]", "", folder)
    m.run(["mkdir", "-p", folder])
    m.run(["cp", "/usr/share/sconce/models/sconce-guide.gguf", "%s/%s.gguf" % (folder, name)])
    assert name not in models_of(m, user)
    out = run_setup(m, "models", folder, user=user).stdout
    assert "Models are read from " + folder in out
    assert name in models_of(m, user)
    answer = client.ask(m, {**client.chat_body(), "model": name}, user=user)
    assert answer.status == 200, answer
    again = run_setup(m, "models", folder, user=user).stdout
    assert "wrote" not in again
    assert name in m.run(["sconce", "list"], user=user).stdout
