# SPDX-License-Identifier: Apache-2.0
"""Tests the files that `sconce run` writes to the user's disk."""

import os
import pty
import select
import shutil
import subprocess
import time

import pytest

SAID = "Where do the lamplighters of Xylophon live?"


@pytest.fixture
def installed(home, guide):
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store / "sconce-guide.gguf")
    return home


def files(home):
    """Returns the files in the home except the model: {path: mode}."""
    found = {}
    for path in home.rglob("*"):
        if "data" not in path.relative_to(home).parts and path.is_file():
            found[str(path.relative_to(home))] = path.stat().st_mode & 0o777
    return found


def talk(argv, lines, seconds=60):
    """Types lines at a terminal; returns standard output, which is not a terminal."""
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no terminals here")
    process = subprocess.Popen(argv, stdin=slave, stdout=subprocess.PIPE, stderr=slave,
                               env={**os.environ, "TERM": "dumb"}, start_new_session=True)
    os.close(slave)
    end = time.monotonic() + seconds
    seen = b""
    # The line is typed after the prompt appears: earlier input may be discarded.
    for line in (*lines, "/exit"):
        while b"> " not in seen:
            assert time.monotonic() < end, seen
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)
        seen = b""
        os.write(master, line.encode() + b"\r")
    out = process.stdout.read().decode()
    assert process.wait(seconds) == 0
    os.close(master)
    return out


def test_a_conversation_leaves_what_was_typed_and_no_answer(sconce, installed):
    out = talk([sconce, "run", "--temperature", "0", "-n", "24", "sconce-guide"], [SAID])
    assert len(out.split()) > 3
    assert files(installed) == {"state/sconce/history": 0o600}
    text = (installed / "state/sconce/history").read_text()
    assert "lamplighters" in text and out.strip()[:40] not in text
    assert (installed / "state/sconce").stat().st_mode & 0o777 == 0o700


def test_a_single_question_leaves_nothing(sconce, installed):
    for words, text in (((SAID,), None), (("-",), SAID)):
        r = subprocess.run([sconce, "run", "-n", "4", "sconce-guide", *words], input=text,
                           capture_output=True, text=True, timeout=120)
        assert r.returncode == 0 and r.stdout
    assert files(installed) == {}
