# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the command line and of all services together."""

import os
import pathlib
import subprocess

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def build():
    path = pathlib.Path(os.environ.get("SCONCE_BUILD", TREE / "build"))
    if not (path / "services/cli/sconce").exists():
        pytest.skip(f"no build in {path}")
    return path


@pytest.fixture(scope="session")
def sconce(build):
    return str(build / "services/cli/sconce")


@pytest.fixture(scope="session")
def guide():
    path = TREE / "packaging/guide/sconce-guide.gguf"
    if not path.exists():
        pytest.skip("no bundled model")
    return str(path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Provides the home of a user without configuration, models or history."""
    for name in ("config", "data", "state"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"XDG_{name.upper()}_HOME", str(tmp_path / name))
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(home):
    path = home / "data/sconce/models"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def pull(sconce, build, home, store, hub, certificate):
    """Returns a function that runs `sconce pull` with the hub as its mirror."""
    if not (build / "services/fetch/sconce-fetch").exists():
        pytest.skip("no sconce-fetch")
    (home / "config/sconce").mkdir()

    def configure(**keys):
        keys = {"mirror": hub.url, "ollama_mirror": hub.url, "certificates": certificate[0], **keys}
        (home / "config/sconce/sconce.yaml").write_text(
            "pull:\n" + "".join(f"  {k}: {v}\n" for k, v in keys.items() if v is not None))

    def run(*args, **kwargs):
        return subprocess.run([sconce, "pull", *args], capture_output=True, text=True, timeout=90,
                              **kwargs)

    configure()
    run.configure = configure
    run.command = [sconce, "pull"]
    return run
