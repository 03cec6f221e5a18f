# SPDX-License-Identifier: Apache-2.0
"""Tests `sconce transcribe` with a service that has the stand-in transcriber of test_audio.py."""
import json
import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import BUILD, SLOW, Suite, check_log
from test_audio import FAKE, wav

CLI = BUILD / "services/cli/sconce"
pytestmark = pytest.mark.skipif(not FAKE.exists() or not CLI.exists(), reason="no build")


@pytest.fixture(scope="module")
def suite(model_dir):
    suite = Suite(model_dir, audio="  default_model: tiny\n", audio_program=FAKE)
    yield suite
    check_log(suite.close())


@pytest.fixture
def sound(tmp_path):
    path = tmp_path / 'a "strange" name.wav'
    path.write_bytes(wav(12))
    return path


def run(suite, *args, address=None, env=None):
    address = address or "unix:" + suite.gateway_sock
    return subprocess.run([str(CLI), "transcribe", "--address", address, *map(str, args)],
                          capture_output=True, text=True, timeout=60 * SLOW,
                          env=dict(os.environ, **(env or {})))


def test_text_comes_as_a_stream(suite, sound):
    for address in ("unix:" + suite.gateway_sock, "127.0.0.1:%d" % suite.port):
        done = run(suite, sound, address=address)
        assert (done.returncode, done.stdout) == (0, "Segment 0. Segment 1. Segment 2.\n")


def test_formats_and_options(suite, sound):
    assert run(suite, "-f", "srt", sound).stdout.startswith("1\n00:00:00,000 --> 00:00:05,000\n")
    assert run(suite, "--format", "vtt", sound).stdout.startswith("WEBVTT\n\n")
    told = json.loads(run(suite, "-f", "json", "--words", "--language", "de", sound).stdout)
    assert told["language"] == "german" and len(told["words"]) == 6
    assert run(suite, "--translate", sound).stdout == "Part 0. Part 1. Part 2.\n"
    assert run(suite, "-m", "tiny", "--prompt", "x", "--hotwords", "y", sound).returncode == 0


def test_several_files_and_errors(suite, sound, tmp_path):
    bad = tmp_path / "bad.wav"
    bad.write_text("no sound")
    done = run(suite, sound, bad, tmp_path / "absent", tmp_path)
    assert done.returncode == 1
    assert done.stdout.count("==>") == 4 and done.stdout.count("Segment 0.") == 1
    for word in ("no known audio format", "No such file", "is not a file"):
        assert done.stderr.count(word) == 1
    done = run(suite, "--prompt", "fail", sound)
    assert done.returncode == 1 and "model failed" in done.stderr
    done = run(suite, sound, address="unix:%s/none" % tmp_path)
    assert done.returncode == 1 and "sconce doctor" in done.stderr
    big = tmp_path / "big.wav"
    big.write_bytes(bytes(27 << 20))
    done = run(suite, big)
    assert done.returncode == 1 and "too large" in done.stderr


def test_wrong_command_lines(suite, sound):
    for args in ((), ("--mic", sound), ("-f", "xml", sound), ("--words", sound),
                 ("--language", "en", "--translate", sound), ("--seconds", "x", "--mic")):
        assert run(suite, *args).returncode == 2, args


def recorder(path, script):
    """Returns a fake recorder, which sconce runs as arecord."""
    program = path / "arecord"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    return {"PATH": str(path)}


def test_a_microphone(suite, tmp_path):
    assert "parec" in run(suite, "--mic", env={"PATH": str(tmp_path)}).stderr
    env = recorder(tmp_path, "exec /usr/bin/head -c 1000000000 /dev/zero\n")
    done = run(suite, "--mic", "--seconds", "7", env=env)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) <= {"Segment 0.", "Segment 1."} and done.stdout
    done = run(suite, "--mic", "--seconds", "7", "-f", "srt", env=env)
    assert done.returncode == 0 and "00:00:05,000 --> 00:00:07,000\nSegment 1.\n" in done.stdout
    env = recorder(tmp_path, "exit 1\n")
    for form in ("txt", "json"):
        assert "no sound" in run(suite, "--mic", "-f", form, env=env).stderr


def test_text_comes_while_somebody_speaks(suite, tmp_path):
    """A segment is written when two more seconds of sound have followed it. The last segments are
    written when the recording ends or is interrupted."""
    pause = "until [ -e %s ]; do /bin/sleep 0.05; done\n"
    script = "/usr/bin/head -c 256000 /dev/zero\n" + pause % (tmp_path / "go")
    for go_on, rest in (("/usr/bin/head -c 64000 /dev/zero\n", 5), ("exec /bin/sleep 60\n", 3)):
        env = recorder(tmp_path, script + go_on)
        p = subprocess.Popen([str(CLI), "transcribe", "--address", "unix:" + suite.gateway_sock, "--mic"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, **env))
        try:
            assert p.stdout.readline() == "Segment 0.\n"
            if rest == 3:
                p.send_signal(signal.SIGINT)
            (tmp_path / "go").touch()
            out, err = p.communicate(timeout=60 * SLOW)
            assert p.returncode == 0 and err == "Recording; Ctrl-C stops it.\n"
            # Three or five more seconds of sound follow the first five seconds.
            assert out == "Segment 0.\n"
        finally:
            p.kill()
            (tmp_path / "go").unlink(missing_ok=True)


def test_the_rest_stands_below_at_a_terminal(suite, tmp_path):
    env = recorder(tmp_path, "/usr/bin/head -c 256000 /dev/zero\nexec /bin/sleep 60\n")
    ours, theirs = pty.openpty()
    p = subprocess.Popen([str(CLI), "transcribe", "--address", "unix:" + suite.gateway_sock, "--mic"],
                         stdout=theirs, stderr=subprocess.DEVNULL, env=dict(os.environ, **env))
    os.close(theirs)
    out = b""
    try:
        while not re.search(rb"\r\n\r\x1b\[KSegment \d\.$", out):
            out += os.read(ours, 4096)
        p.send_signal(signal.SIGINT)
        while True:
            try:
                out += os.read(ours, 4096)
            except OSError:
                break
        assert p.wait(30 * SLOW) == 0
        assert re.fullmatch(rb"(\r\x1b\[K(Segment \d\.(\r\n)?)?)+", out), out
        assert out.count(b"Segment 0.\r\n") == 2 == out.count(b"\r\n") and out.endswith(b"\r\x1b[K")
    finally:
        p.kill()
        os.close(ours)
