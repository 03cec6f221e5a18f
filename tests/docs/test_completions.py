# SPDX-License-Identifier: Apache-2.0
"""Checks that completions offer what `--help` lists: verbs and options, in each installed shell."""
import fcntl
import os
import pathlib
import pty
import re
import select
import subprocess
import termios
import time

import pytest
from blocks import TREE
from commands import found_shell, option_values, options, verbs

FILES = pathlib.Path(os.environ.get("SCONCE_BUILD", TREE / "build")) / "packaging/completions"


@pytest.mark.parametrize("shell,name", [("bash", "sconce"), ("zsh", "_sconce"),
                                        ("fish", "sconce.fish")])
def test_syntax(shell, name):
    if not found_shell(shell):
        pytest.skip("no " + shell)
    result = subprocess.run([shell, "-n", FILES / name], stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0 and not result.stderr, result.stderr


BASH = r"""
. /usr/share/bash-completion/bash_completion
. "$1"
shift
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_TYPE=9
_sconce
printf '%s\n' "${COMPREPLY[@]}"
"""


def ask_bash(user, *words):
    if not os.path.exists("/usr/share/bash-completion/bash_completion"):
        pytest.skip("no bash-completion")
    result = user.run(["bash", "--norc", "-c", BASH, "bash", FILES / "sconce", "sconce", *words])
    assert not result.stderr, result.stderr
    return set(result.stdout.split())


def ask_fish(user, *words):
    if not found_shell("fish"):
        pytest.skip("no fish")
    line = " ".join(("sconce",) + words)
    result = user.run(["fish", "-N", "-c", "source %s; complete -C '%s'"
                       % (FILES / "sconce.fish", line)])
    return {row.split("\t")[0] for row in result.stdout.split("\n") if row}


def ask_zsh(user, *words):
    """Checks the options in the file; test_zsh_completes runs the shell itself."""
    text = (FILES / "_sconce").read_text()
    if len(words) == 1:
        return set(re.findall(r"^        '([a-z]+):", text, re.M))
    part = re.search(r"^    %s\)\n(.*?)^        ;;" % words[0], text, re.M | re.S).group(1)
    if len(words) == 3:
        values = re.search(r"%s\}?'?\[.*?\]:\w+:(.*)'$" % words[1], part, re.M)[1]
        return set(re.findall(r"[\w+-]+", values.removeprefix("_values -s , right")))
    return set(re.findall(r"(?<=[{',*])--?[a-z][a-z-]*", part))


ASK = pytest.mark.parametrize("ask", [ask_bash, ask_fish, ask_zsh])


@ASK
def test_verbs(user, ask):
    assert {w for w in ask(user, "") if not w.startswith("-")} == set(verbs(user))


@ASK
def test_options(user, ask):
    for verb in verbs(user):
        if ask is ask_fish:
            offered = ask(user, verb, "-") | ask(user, verb, "--")
        else:
            offered = ask(user, verb, "-")
        assert offered - {"-h", "--help"} == options(user, verb), verb


@ASK
@pytest.mark.parametrize("option", option_values())
def test_values(user, ask, option):
    takers, values = option_values()[option]
    assert takers == [verb for verb in takers if option in options(user, verb)]
    for verb in takers:
        assert ask(user, verb, option, "") == values, verb


@pytest.mark.parametrize("ask", [ask_bash, ask_fish])
def test_models(user, ask):
    for words in (("run", ""), ("info", ""), ("bench", "-m", ""),
                  ("run", "--temperature", "0", "sconce-")):
        assert "sconce-guide" in ask(user, *words), words
    assert "sconce-guide" not in ask(user, "run", "sconce-guide", "--isa", "")
    assert "sconce-guide" not in ask(user, "serve", "")


@pytest.mark.parametrize("ask", [ask_bash, ask_fish])
def test_words(user, ask):
    assert ask(user, "setup", "") >= {"tcp", "key", "access", "gpu", "models"}
    assert ask(user, "cache", "") >= {"status", "ls", "verify", "purge"}
    assert ask(user, "setup", "access", "") == {"keys", "open", "group"}
    assert ask(user, "policy", "") >= {"check", "explain"}
    assert ask(user, "policy", "explain", "") >= {"gateway", "chat", "embed", "audio", "cache", "decoder"}
    assert ask(user, "run", "--isa", "avx5") == {"avx512", "avx512fp16"}
    assert ask(user, "serve", "--device", "") == {"auto", "cpu", "vulkan"}


def test_zsh_completes(user):
    """Types at a terminal with zsh, and reads the completed line."""
    if not found_shell("zsh"):
        pytest.skip("no zsh")
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no terminals here")
    env = dict(user.env, TERM="vt100", PS1="READY ", ZDOTDIR=str(user.home))
    process = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave,
                               env=env, cwd=user.work, start_new_session=True,
                               preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)

    seen = ""

    def read_until(word, seconds=60):
        """Takes the output up to this word; the next call gets the rest."""
        nonlocal seen
        end = time.monotonic() + seconds
        while word not in seen:
            assert time.monotonic() < end, "no %r in %r" % (word, seen)
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536).decode(errors="replace").replace("\0", "")
        seen = seen.split(word, 1)[1]

    try:
        read_until("READY")
        os.write(master, b"fpath=(%s $fpath); autoload -Uz compinit; compinit -u -D; echo lo''aded\n"
                 % str(FILES).encode())
        read_until("loaded\r\n")
        read_until("READY")
        for typed, wanted in ((b"sconce tok\t", "tokenize"), (b"-m sconce-g\t", "sconce-guide"),
                              (b"--no-par\t", "--no-parse-special")):
            os.write(master, typed)
            read_until(wanted)
    finally:
        process.kill()
        process.wait()
        os.close(master)
