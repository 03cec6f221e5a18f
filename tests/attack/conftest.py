# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the attack program, and its targets on this machine."""
import os
import pathlib
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE / "tests/lib"))
import walls  # noqa: E402
from serve import Serve  # noqa: E402


@pytest.fixture(scope="session")
def build():
    path = pathlib.Path(os.environ.get("SCONCE_BUILD", TREE / "build"))
    if not (path / "tests/attack/attack").exists():
        pytest.skip("no build in %s" % path)
    return path


@pytest.fixture(scope="session")
def program(build):
    """Provides the path of the attack program. Skips the tests unless they run as root and ptrace
    can suspend seccomp."""
    path = build / "tests/attack/attack"
    if os.geteuid() != 0:
        pytest.skip("attacks on processes need root")
    try:
        walls.attack(path, only="none")
    except AssertionError as e:
        pytest.skip("attacks on processes need a kernel that suspends seccomp: %s" % e)
    return path


@pytest.fixture
def neighbor():
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def scene(tmp_path_factory):
    """Provides files to attack, below one directory, as options of the program."""
    top = tmp_path_factory.mktemp("scene")

    def write(name, mode=0o644):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret\n")
        path.chmod(mode)
        os.chown(path, 4711, 4711)
        return path

    outside = top / "outside"
    outside.mkdir()
    outside.chmod(0o1777)
    return {"other_file": write("homes/alice/private", 0o600),
            "home_file": write("homes/alice/public"), "homes": top / "homes",
            "root_file": write("root/private"), "own_file": write("homes/me/private"),
            "cache": write("cache/entry").parent, "state_dir": write("state/entry").parent,
            "user_cache": write("user-cache/entry").parent,
            "outside": outside}


def put_bad_links(models, scene):
    """Unpacks a hostile model archive, whose links must not open anything but models."""
    whole = models / "whole"
    whole.mkdir()
    (whole / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (whole / "config.json").write_text("{}")
    for name, target in {"root": "/", "etc": "/etc", "homes": scene["homes"],
                         "me.gguf": scene["own_file"], "alice.gguf": scene["other_file"],
                         "shadow.safetensors": "/etc/shadow", "ggml-root.bin": scene["root_file"],
                         "tokenizer.json": scene["home_file"], "cache": scene["cache"],
                         "whole/tokenizer.json": scene["own_file"],
                         "whole/merges.txt": "/etc/shadow", "whole/1_Pooling": "/etc"}.items():
        (models / name).symlink_to(target)
    (models / "manifest.yaml").write_text("path: %s\n" % scene["homes"])


@pytest.fixture(scope="session")
def serve(build, tmp_path_factory, scene):
    """Provides the services without systemd, so that they are confined only by themselves."""
    here = tmp_path_factory.mktemp("serve")
    models = here / "models"
    models.mkdir()
    (models / "sconce-guide.gguf").symlink_to(TREE / "packaging/guide/sconce-guide.gguf")
    put_bad_links(models, scene)
    with Serve(str(build / "services/cli/sconce"), here, models) as running:
        yield running
