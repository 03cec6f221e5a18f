# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of the command line and of all services together."""

import os
import pathlib

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
