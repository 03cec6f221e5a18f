# SPDX-License-Identifier: Apache-2.0
"""Fixtures for a user who has installed sconce, and for that user's `sconce serve`."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from blocks import TREE  # noqa: E402

GUIDE = TREE / "packaging/guide/sconce-guide.gguf"


@pytest.fixture(scope="session")
def build():
    path = pathlib.Path(os.environ.get("SCONCE_BUILD", TREE / "build"))
    if not (path / "services/cli/sconce").exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % path)
    return path


class User:
    """Represents a user who has a home with the bundled model, `sconce` on PATH, and no
    configuration."""

    def __init__(self, home, build):
        self.home = home
        self.work = home / "work"
        models = home / ".local/share/sconce/models"
        run = home / "run"
        for path in (self.work, models, run, home / "bin", home / "models"):
            path.mkdir(parents=True)
        run.chmod(0o700)
        for path in (models, home / "models"):
            shutil.copy(GUIDE, path)
        (home / "bin/sconce").symlink_to(build / "services/cli/sconce")
        self.port = None
        self.env = {k: v for k, v in os.environ.items()
                    if k.startswith(("LANG", "LC_", "ASAN_", "UBSAN_"))}
        self.env.update(HOME=str(home), XDG_RUNTIME_DIR=str(run), SCONCE_API_KEY="a-key",
                        PATH="%s:/usr/bin:/bin:/usr/sbin:/sbin" % (home / "bin"))

    def text(self, block):
        """Returns the text of the block, with the default port replaced by the port of this
        server."""
        return re.sub(r"\b7266\b", str(self.port), block.text)

    def run(self, argv, timeout=180, **kw):
        return subprocess.run(argv, env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=timeout, **kw)

    def start(self, argv):
        return subprocess.Popen(argv, env=self.env, cwd=self.work, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)


def wait_listening(process, seconds=20):
    """Waits until `sconce serve` prints its port, and returns the port."""
    end = time.monotonic() + seconds
    seen = ""
    while time.monotonic() < end:
        line = process.stderr.readline()
        seen += line
        found = re.match(r"Listening on http://[^:]+:(\d+)/v1", line)
        if found:
            return int(found.group(1))
        if not line and process.poll() is not None:
            break
    raise AssertionError("sconce serve did not listen: " + seen)


def stop(process):
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        process.stderr.close()


@pytest.fixture(scope="session")
def user(tmp_path_factory, build):
    return User(tmp_path_factory.mktemp("user"), build)


@pytest.fixture(scope="session")
def served(user):
    """Provides the user while `sconce serve` runs on user.port."""
    process = user.start(["sconce", "serve", "--listen", "127.0.0.1:0"])
    user.port = wait_listening(process)
    # Loads the model, because the examples show a loaded one.
    question = {"model": "sconce-guide", "messages": [{"role": "user", "content": "Hello"}]}
    request = urllib.request.Request("http://127.0.0.1:%d/v1/chat/completions" % user.port,
                                     json.dumps(question).encode())
    urllib.request.urlopen(request, timeout=60).close()
    # Reads the further log messages of `sconce serve`, so that the pipe does not fill up.
    drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
    yield user
    stop(process)
    drain.wait()
