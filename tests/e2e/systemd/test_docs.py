# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in documents and manual pages that need systemd."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "docs"))
from blocks import all_blocks  # noqa: E402

BLOCKS = [b for b in all_blocks() if b.language == "sh" and b.mode in ("system", "user")]
KEYS = "/etc/sconce/api-keys"


@pytest.fixture(scope="module")
def reader(installed):
    """Provides an ordinary user with a running user manager."""
    installed.machine.add_user("reader")
    installed.machine.run(["mkdir", "-p", "/srv/models"])
    installed.machine.run("mkdir -p ~/ai/models", user="reader")
    return "reader"


@pytest.fixture
def kept(machine, reader):
    """Provides the machine; afterwards restores its sockets and keys, and closes the reader's
    port."""
    keys = machine.path(KEYS).read_bytes() if machine.path(KEYS).exists() else None
    yield machine
    if keys is None:
        machine.remove(KEYS)
    else:
        machine.write(KEYS, keys, 0o600)
    for name in ("sconce/sconce.d/50-models.yaml", "sconce/sconce.d/50-access.yaml",
                 "systemd/system/sconce-chat.service.d/50-models.conf"):
        machine.remove("/etc/" + name)
    machine.systemctl("daemon-reload")
    machine.run(["sconce", "setup", "access", "keys"])
    machine.run(["sconce", "setup", "tcp", "--port", "7266"])
    machine.run(["sconce", "setup", "tcp", "--off"], user=reader)


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_example(kept, reader, block):
    user = reader if block.mode == "user" else None
    # Root needs no sudo, and a minimal machine has none.
    text = block.text if user else 'sudo() { "$@"; }\n' + block.text
    result = kept.run(["sh", "-e", "-u", "-c", text], user=user, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
