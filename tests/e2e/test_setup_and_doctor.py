# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce doctor` and `sconce setup` without systemd: beside `sconce serve`, in directories
that stand for the root of an image, and with every mistake that a user can make in files."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from test_cli import Serve, run


@pytest.fixture
def alone(home, guide, monkeypatch):
    """Provides a user with one model and no service manager."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store / "sconce-guide.gguf")
    return home


def doctor(sconce, *words):
    out = run(sconce, "doctor", "--user", "--json", *words)
    report = json.loads(out.stdout)
    assert out.returncode == (0 if report["healthy"] else 1), out.stdout + out.stderr
    return report["findings"]


def of(findings, check, kind="broken"):
    return [f for f in findings if f["check"] == check and f["kind"] == kind]


def test_doctor_finds_no_endpoint_until_serve_runs(sconce, alone):
    findings = doctor(sconce)
    found = of(findings, "doors")
    # Several things are missing without systemd, but the command that repairs them appears once.
    assert [f["command"] for f in findings].count(found[0]["command"]) == 1
    assert len(found) == 1 and "no socket of sconce is open" in found[0]["what"]
    s = Serve(sconce)
    try:
        assert [f for f in doctor(sconce) if f["kind"] == "broken"] == []
        assert s.children() == []
        assert run(sconce, "doctor", "--user").stdout.endswith("Nothing is broken.\n")
        assert [f for f in doctor(sconce, "--deep") if f["kind"] == "broken"] == []
        assert len(s.servers()) in (2, 3)  # the cache service starts on demand
    finally:
        s.stop()


@pytest.mark.parametrize("text,place,what", [
    ("chat:\n  threads: many\n", ":2:12", "whole number"),
    ("gateway:\n  tcp_acess: open\n", ":2:3", 'unknown key "gateway.tcp_acess"'),
    ("chat: [\n", ":2:1", ""),
    ("- a\n", ":1:1", "mapping"),
])
def test_a_mistake_in_the_configuration_has_its_place(sconce, alone, text, place, what):
    path = alone / "config/sconce/sconce.yaml"
    path.parent.mkdir()
    path.write_text(text)
    found = of(doctor(sconce), "config")
    assert len(found) == 1 and str(path) + place in found[0]["what"] and what in found[0]["what"]
    assert found[0]["command"] == "${EDITOR:-vi} +%s %s" % (place.split(":")[1], path)


def test_no_model_is_installed(sconce, alone):
    (alone / "config/sconce").mkdir()
    empty = alone / "empty"
    empty.mkdir()
    (alone / "config/sconce/sconce.yaml").write_text(f"models:\n  directories: [{empty}]\n")
    found = of(doctor(sconce), "models")
    assert len(found) == 1 and "no model is installed" in found[0]["what"]
    assert str(empty) in found[0]["what"]


def test_a_damaged_model_is_told_from_a_whole_one(sconce, alone, guide):
    whole = pathlib.Path(guide).read_bytes()
    (alone / "data/sconce/models/half.gguf").write_bytes(whole[: len(whole) // 2])
    found = of(doctor(sconce), "models")
    assert len(found) == 1 and "model half is damaged" in found[0]["what"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_model_that_cannot_be_read(sconce, alone):
    path = alone / "data/sconce/models/sconce-guide.gguf"
    path.chmod(0)
    found = of(doctor(sconce), "models")
    assert found[0]["command"] == f"chmod u+r {path}"
    subprocess.run(found[0]["command"], shell=True, check=True)
    assert of(doctor(sconce), "models") == []


def test_a_manifest_with_a_mistake(sconce, alone):
    path = alone / "data/sconce/models/alias.yaml"
    path.write_text("name: x\nfile: y\n")
    found = of(doctor(sconce), "models")
    assert len(found) == 1 and f"{path}:2:1" in found[0]["what"]
    assert found[0]["command"].endswith(f"+2 {path}")


def test_links_that_lead_to_no_model(sconce, alone):
    models = alone / "data/sconce/models"
    (models / "lost.gguf").symlink_to("nowhere")
    (models / "etc").symlink_to("/etc")
    found = of(doctor(sconce), "models")
    assert [f["what"] for f in found] == [
        f"{models}/etc leads to the directory /etc, which is not a model: it needs config.json and "
        "*.safetensors", f"{models}/lost.gguf leads to nowhere, which is not there"]
    assert found[1]["command"] == f"rm {models}/lost.gguf"
    subprocess.run(found[1]["command"], shell=True, check=True)
    assert len(of(doctor(sconce), "models")) == 1


def test_keys_that_others_may_read(sconce, alone):
    path = alone / "config/sconce/api-keys"
    path.parent.mkdir()
    path.write_text("abc\n")
    path.chmod(0o644)
    found = of(doctor(sconce), "keys")
    assert found[0]["command"] == f"chmod 600 {path}"
    subprocess.run(found[0]["command"], shell=True, check=True)
    assert of(doctor(sconce), "keys") == []


@pytest.mark.parametrize("device,kind", [(None, "advice"), ("vulkan:0", "broken"), ("cpu", None)])
def test_a_unit_that_stops_nvidias_driver(sconce, alone, device, kind):
    """Reads the drop-in of an older version, which did not permit executable memory."""
    units = alone / "config/systemd/user"
    path = units / "sconce-chat.service.d/50-gpu.conf"
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nDeviceAllow=/dev/nvidiactl rw\n")
    # The services of this user are enabled.
    (units / "sconce.target").write_text("[Unit]\n[Install]\nWantedBy=default.target\n")
    (units / "default.target.wants").mkdir()
    (units / "default.target.wants/sconce.target").symlink_to(units / "sconce.target")
    if device:
        (alone / "config/sconce").mkdir()
        (alone / "config/sconce/sconce.yaml").write_text("chat:\n  device: %s\n" % device)

    def found():
        return [(f["kind"], f["command"]) for f in doctor(sconce)
                if "may not make memory executable" in f["what"]]

    assert found() == ([(kind, "sconce setup gpu --user")] if kind else [])
    path.write_text(path.read_text() + "MemoryDenyWriteExecute=no\n")
    assert found() == []


def test_a_service_that_its_policy_ended_is_told_by_serve(sconce, alone):
    s = Serve(sconce)
    try:
        s.get("/health")
        for pid in s.children():
            os.kill(pid, signal.SIGSYS)
        line = ""
        end = time.time() + 10
        while "policy does not allow" not in line and time.time() < end:
            line = s.process.stderr.readline()
        assert "gateway made a system call that its policy does not allow" in line
        assert "sconce doctor" in line
    finally:
        s.stop()


def test_wrong_arguments_print_the_usage(sconce, home):
    for words in (("doctor", "x"), ("doctor", "--nope"), ("setup", "everything"),
                  ("setup", "access"), ("setup", "access", "all"), ("setup", "--port", "0"),
                  ("setup", "key", "a", "b"), ("setup", "--user", "--root", "/tmp")):
        assert run(sconce, *words).returncode == 2, words


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_writes_nothing_into_the_home_of_another(sconce, home):
    os.chown(home, 12345, 12345)
    before = files(home)
    result = run(sconce, "setup", "--user", "key")
    assert result.returncode == 1 and "another user" in result.stderr
    assert files(home) == before


# In an image, setup only writes files and does not call systemd.

UNITS = {
    "sconce.target": "[Unit]\n[Install]\nWantedBy=multi-user.target\n",
    "sconce-gateway-tcp.socket": "[Socket]\n[Install]\nWantedBy=sconce.target\n",
    "sconce-gateway-ollama.socket": "[Socket]\n[Install]\nWantedBy=sconce.target\n",
}


@pytest.fixture
def image(tmp_path, home):
    root = tmp_path / "image"
    units = root / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for name, text in UNITS.items():
        (units / name).write_text(text)
    return root


def run_setup(sconce, image, *words):
    return run(sconce, "setup", "--system", "--root", str(image), *words)


def files(root):
    return {str(p.relative_to(root)): p.lstat().st_mtime_ns for p in root.rglob("*")
            if not p.is_dir() or p.is_symlink()}


def test_an_image_gets_its_endpoints(sconce, image):
    out = run_setup(sconce, image, "access", "keys")
    assert out.returncode == 0, out.stderr
    system = image / "etc/systemd/system"
    wants = system / "sconce.target.wants/sconce-gateway-tcp.socket"
    assert os.readlink(wants) == "/usr/lib/systemd/system/sconce-gateway-tcp.socket"
    keys = next(image.rglob("api-keys"))
    assert keys.stat().st_mode & 0o777 == 0o600
    assert "sk-sconce-" in keys.read_text() and "sk-sconce-" not in out.stdout
    before = files(image)
    assert run_setup(sconce, image, "access", "keys").returncode == 0
    assert files(image) == before
    assert run_setup(sconce, image, "access", "group").returncode == 0
    assert not wants.exists() and not wants.is_symlink()
    out = run_setup(sconce, image, "access", "open")
    assert out.returncode == 0
    assert "so a client can\nfind out whether another one sent the same prompt" in out.stdout
    assert out.stdout.endswith("only with requests that have the same key.\n")
    drop_in = system / "sconce-gateway.socket.d/50-access.conf"
    assert "SocketMode=0666" in drop_in.read_text()
    assert "tcp_access: open" in next(image.rglob("50-access.yaml")).read_text()


def test_a_port_is_a_drop_in_and_the_usual_one_is_none(sconce, image):
    drop_in = image / "etc/systemd/system/sconce-gateway-tcp.socket.d/50-port.conf"
    out = run_setup(sconce, image, "tcp", "--port", "9000")
    assert out.returncode == 0 and "http://127.0.0.1:9000/v1" in out.stdout
    assert drop_in.read_text().endswith("[Socket]\nListenStream=\nListenStream=127.0.0.1:9000\n")
    assert "http://127.0.0.1:9000/v1" in run_setup(sconce, image, "tcp").stdout
    drop_in.write_text(drop_in.read_text() + "Backlog=1\n")
    out = run_setup(sconce, image, "tcp", "--port", "7266")
    assert "was edited by hand" in out.stdout
    assert not drop_in.exists() and "Backlog=1" in (drop_in.parent / "50-port.conf.old").read_text()


def test_the_port_of_ollama_opens_and_closes(sconce, image):
    system = image / "etc/systemd/system"
    wants = system / "sconce.target.wants/sconce-gateway-ollama.socket"
    assert run_setup(sconce, image, "--ollama").returncode == 2
    out = run_setup(sconce, image, "tcp", "--ollama")
    assert out.returncode == 0 and "http://127.0.0.1:11434\n" in out.stdout
    assert os.readlink(wants) == "/usr/lib/systemd/system/sconce-gateway-ollama.socket"
    assert "sk-sconce-" in next(image.rglob("api-keys")).read_text()
    assert not (system / "sconce.target.wants/sconce-gateway-tcp.socket").is_symlink()
    assert run_setup(sconce, image, "tcp", "--ollama", "--off").returncode == 0
    assert not wants.is_symlink()
    run_setup(sconce, image, "tcp", "--ollama", "--port", "9000")
    drop_in = system / "sconce-gateway-ollama.socket.d/50-port.conf"
    assert "ListenStream=127.0.0.1:9000\n" in drop_in.read_text()
    # Without TCP there is no port for Ollama's clients either.
    assert run_setup(sconce, image, "access", "group").returncode == 0
    assert not wants.is_symlink()


def test_a_dry_run_leaves_the_image_alone(sconce, image):
    before = files(image)
    for words in (("tcp", "--port", "9000"), ("access", "open"), ("key", "me"), ()):
        out = run_setup(sconce, image, "--dry-run", *words)
        assert out.returncode == 0 and "would " in out.stdout, out
    assert files(image) == before


def test_a_mistake_in_the_configuration_stops_setup(sconce, image):
    run_setup(sconce, image, "access", "keys")
    config = next(image.rglob("50-access.yaml")).parent / "90-mine.yaml"
    config.write_text("gateway: 3\n")
    out = run_setup(sconce, image, "tcp")
    assert out.returncode == 1 and "90-mine.yaml:1:10" in out.stderr


def test_a_port_that_is_taken_here_is_free_in_an_image(sconce, image):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        # An image is not this machine, so it does not matter whether the port is in use here.
        assert run_setup(sconce, image, "tcp", "--port", str(port)).returncode == 0
