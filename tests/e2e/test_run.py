# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce run` in a terminal: interrupts, a full context, unknown commands."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import TREE
from test_cli import run

sys.path.insert(0, str(TREE / "tests/api"))
from gguf_template import CHATML, set_chat_template  # noqa: E402


@pytest.fixture
def installed(home, guide):
    store = home / "data/sconce/models"
    store.mkdir(parents=True)
    shutil.copy(guide, store / "sconce-guide.gguf")
    # The guide's own template renders only the last messages.
    set_chat_template(guide, store / "talker.gguf", CHATML)
    return home


class Terminal:
    """Runs a conversation at a terminal."""

    def __init__(self, *argv):
        here, there = pty.openpty()
        self.fd = here
        self.process = subprocess.Popen(argv, stdin=there, stdout=there, stderr=there,
                                        start_new_session=True, env=dict(os.environ, TERM="dumb"))
        os.close(there)
        self.text = ""

    def read_until(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, self.text
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        found, self.text = self.text, ""
        return found

    def say(self, line):
        os.write(self.fd, line.encode() + b"\n")
        return self.read_until(r"tokens written[^\]]*\]")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def talk(sconce, installed):
    open_ones = []

    def start(*options):
        t = Terminal(sconce, "run", "--device", "cpu", "--temperature", "0", "-v", *options, "talker")
        open_ones.append(t)
        t.read_until("Control-D")
        return t
    yield start
    for t in open_ones:
        t.close()


def interrupted(sconce, seed):
    """Returns the exit status of an answer that is interrupted after its first byte."""
    p = subprocess.Popen([sconce, "run", "--device", "cpu", "--temperature", "2", "--repetition-penalty",
                          "1.5", "-c", "100000", "--seed", str(seed), "--raw", "sconce-guide",
                          "What is sconce?"], stdout=subprocess.PIPE)
    assert p.stdout.read(1)
    p.send_signal(signal.SIGINT)
    status = p.wait(20)
    p.stdout.close()
    return status


def test_control_c_ends_the_only_answer_with_130(sconce, installed):
    # Some random answers end by themselves before the signal arrives.
    statuses = [interrupted(sconce, seed) for seed in range(5)]
    assert set(statuses) <= {0, 130} and 130 in statuses


def test_a_full_context_is_told_and_the_kept_beginning_is_in_the_cache(talk):
    system = "You answer questions about sconce. " * 12
    t = talk("-c", "256", "-n", "30", "-s", system)
    said = [t.say("How do I add a model number %d?" % i) for i in range(14)]
    full = [i for i, text in enumerate(said) if "The context of 256 tokens was full" in text]
    known = [int(re.search(r"(\d+) of them cached", text).group(1)) for text in said]
    assert len(full) >= 2, [re.findall("[0-9]+ tokens read.*cached", t) for t in said]
    # Much history is dropped at once, so that most questions do not follow a cut directly.
    assert all(b - a > 1 for a, b in zip(full, full[1:])), full
    for i in full:
        # The system message stays in place, and questions after a cut reuse the cached prefix.
        assert known[i] >= 64, known
        assert i + 2 >= len(known) or known[i + 2] > known[i], known


def test_an_answer_that_the_context_cuts_is_reported(sconce, installed):
    out = run(sconce, "run", "--device", "cpu", "-c", "40", "sconce-guide", "How do I add a model?")
    assert out.returncode == 0 and "context of 40 tokens is full" in out.stderr
    out = run(sconce, "run", "--device", "cpu", "-n", "5", "sconce-guide", "How do I add a model?")
    assert out.returncode == 0 and "context" not in out.stderr
    out = run(sconce, "run", "--device", "cpu", "-c", "40", "sconce-guide", "word " * 100)
    assert out.returncode == 1 and "the context holds 40" in out.stderr


def test_a_saved_conversation_keeps_what_the_model_is_not_told(sconce, installed):
    run(sconce, "run", "--device", "cpu", "-c", "128", "-n", "30", "--session", "s", "talker",
        "What is sconce?")
    for _ in range(6):
        last = run(sconce, "run", "--device", "cpu", "--resume", "s", "How do I add a model to it?")
        assert last.returncode == 0, last.stderr
    assert "context of 128 tokens was full" in last.stderr
    rows = run(sconce, "run", "--sessions").stdout
    assert re.search(r"\b14\b", rows), rows


def test_unknown_commands_are_reported(talk):
    t = talk("-n", "8")
    os.write(t.fd, b"/foo\n")
    assert 'no command "/foo"' in t.read_until("stops an answer")
    os.write(t.fd, b"/system\n")
    t.read_until("needs a text")
    # A path is a message and not a command.
    assert "command" not in t.say("/usr/bin/sconce is what?")


def test_speeds_of_few_tokens_are_not_shown(sconce, installed):
    out = run(sconce, "run", "--device", "cpu", "-v", "-n", "3", "sconce-guide", "What is sconce?")
    assert "tokens written]" in out.stderr and "tokens/s" not in out.stderr


@pytest.mark.parametrize("argv,option", [
    (("run", "-n", "abc", "m", "x"), " -n\n"), (("run", "--max-tokens", "abc", "m", "x"), " --max-tokens\n"),
    (("run", "-c", "-1", "m", "x"), " -c\n"), (("run", "-t", "x", "m", "x"), " -t\n"),
    (("run", "--top-p", "2", "m", "x"), " --top-p\n"), (("bench", "-p", "abc"), " -p "),
    (("bench", "--streams", "abc"), "--streams "), (("bench", "-t", "abc"), "-t, --threads "),
    (("embed", "-b", "abc", "x"), "-b, --batch "), (("embed", "--dimensions", "0", "x"), "--dimensions "),
    (("transcribe", "--seconds", "abc", "--mic"), "--seconds "), (("transcribe", "-f", "abc", "x"), "-f, --format "),
    (("setup", "--port", "abc"), "--port"), (("cache", "purge", "--older-than", "abc"), "--older-than")])
def test_a_wrong_value_names_its_option(sconce, home, argv, option):
    out = run(sconce, *argv)
    assert out.returncode == 2 and option in out.stderr and argv[2] in out.stderr, out.stderr
