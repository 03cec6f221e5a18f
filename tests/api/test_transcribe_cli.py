# SPDX-License-Identifier: Apache-2.0
"""sconce transcribe, against the service with the stand-in of test_audio.py."""
import json
import os
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
    for word in ("no known audio format", "No such file", "is no file"):
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


def test_a_microphone(suite, tmp_path):
    assert "parec" in run(suite, "--mic", env={"PATH": str(tmp_path)}).stderr
    recorder = tmp_path / "arecord"
    recorder.write_text("#!/bin/sh\nexec /usr/bin/head -c 1000000000 /dev/zero\n")
    recorder.chmod(0o755)
    done = run(suite, "--mic", "--seconds", "7", env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "Segment 0. Segment 1.\n"), done.stderr
    recorder.write_text("#!/bin/sh\nexit 1\n")
    assert "no sound" in run(suite, "--mic", env={"PATH": str(tmp_path)}).stderr
