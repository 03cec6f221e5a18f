# SPDX-License-Identifier: Apache-2.0
"""Tests an installation without the package sconce-audio: audio requests get an error, and
everything else works."""

import json
import os
import shutil
import socket
import urllib.error
import urllib.request

import pytest

from services import SERVICES
from test_cli import Serve, run


@pytest.fixture
def parts(build, home, guide, monkeypatch):
    """Provides the programs of a build directory without those of the audio service."""
    root = home / "programs"
    programs = ["services/cli/sconce"] + [row.build_path for row in SERVICES if row.name != "audio"]
    for path in programs:
        folder = root / path.split("/")[1]
        folder.mkdir(parents=True)
        shutil.copy(build / path, folder)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(build / "libinfer"))
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store)
    if os.path.exists("/usr/local/libexec/sconce/sconce-audio"):
        pytest.skip("sconce is installed in /usr/local, where its programs are found")
    return str(root / "cli/sconce")


def get_as_owner(path, target):
    """Returns the body of a GET over a unix socket, as its owner, who has all rights."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(path))
        s.sendall(b"GET %s HTTP/1.0\r\nHost: x\r\n\r\n" % target.encode())
        answer = b"".join(iter(lambda: s.recv(65536), b""))
    return answer.split(b"\r\n\r\n", 1)[1]


def test_serve_goes_on_without_the_audio_service(parts, home):
    s = Serve(parts, "--listen", f"unix:{home}/gateway.sock")
    try:
        assert "ok" in s.get("/health")
        request = urllib.request.Request(s.base + "/v1/audio/transcriptions", b"x", {
            "Content-Type": "multipart/form-data; boundary=b"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=30)
        error = json.loads(refused.value.read())["error"]
        assert refused.value.code == 501 and error["code"] == "service_not_installed"
        assert "package sconce-audio" in error["message"]
        deep = json.loads(get_as_owner(home / "gateway.sock", "/health?deep=1"))
        assert deep["status"] == "ok" and deep["services"]["audio"] == {"status": "not_installed"}
        assert len(s.ask("What is sconce?")["choices"][0]["message"]["content"]) > 3
    finally:
        assert s.stop() == 0
    assert "The audio service is not installed; it is in the package sconce-audio." in \
        s.process.stderr.read()


def test_doctor_names_the_package(parts, home, monkeypatch):
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
    out = run(parts, "doctor", "--user", "--json")
    found = [f for f in json.loads(out.stdout)["findings"] if f["check"] == "install"]
    assert [f["kind"] for f in found] == ["advice"]
    assert "package sconce-audio" in found[0]["what"]
