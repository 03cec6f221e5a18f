# SPDX-License-Identifier: Apache-2.0
"""Checks that the decoder's policy matches the calls that the decoder makes; see test_drift.py.

The phase `start` applies to the process that starts children, and the phase `serve` applies to the
children.
"""
import math
import os
import pathlib
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.path.dirname(__file__))
import recorder  # noqa: E402
from test_drift import BUILD, explain  # noqa: E402

DECODER = BUILD / "services/audio/sconce-audio-decoder"
FILES = BUILD / "tests/audio/decode-files"


def sound(path, rate, seconds):
    """Makes a WAV file of float samples, which the decoder resamples unless the rate is 16 kHz."""
    n = int(rate * seconds)
    data = struct.pack("<%df" % n, *(0.5 * math.sin(i / 9) for i in range(n)))
    path.write_bytes(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " +
                     struct.pack("<IHHIIHH", 16, 3, 1, rate, rate * 4, 4, 32) + b"data" +
                     struct.pack("<I", len(data)) + data)
    return path


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Provides {phase: {(name, arguments): line}}."""
    if not FILES.exists():
        pytest.skip("a build without libav")
    if not recorder.available():
        pytest.skip("strace may not trace processes here")
    path = tmp_path_factory.mktemp("decoder")
    trace = path / "trace"
    traced = path / "decoder"
    # With -D, strace runs beside the program, and subprocess would not wait until strace ends.
    words = recorder.wrap([str(DECODER)], trace)
    words.remove("-D")
    traced.write_text("#!/bin/sh\nexec %s \"$@\"\n" % " ".join(words))
    traced.chmod(0o755)
    files = [sound(path / "a.wav", 44100, 20), sound(path / "b.wav", 16000, 1)]
    (path / "text").write_text("no sound")
    files.append(path / "text")
    for name in ("opus.ogg", "mp3.mp3", "aac.m4a", "flac.flac", "vorbis.webm", "wmav2.wma"):
        files.append(ROOT / "tests/fuzz/corpus/decode" / name)
    subprocess.run([str(FILES), "-j", "3", str(traced), *map(str, files)], check=True,
                   capture_output=True, timeout=120)
    subprocess.run([str(FILES), "-s", "1", str(traced), str(files[0])], check=True,
                   capture_output=True, timeout=120)
    return split(trace)


def split(trace):
    found, phases, parent = {"start": {}, "serve": {}}, {}, None
    lines = trace.read_text(errors="replace").splitlines()
    killed = {line.split()[0] for line in lines if "+++ killed by SIGKILL" in line}
    last = {line.split()[0]: line for line in lines if recorder.CALL.match(line)}
    for line in lines:
        match = recorder.CALL.match(line)
        # strace reports a wrong call, or wrong arguments, for a process that is being killed.
        if match and match.group(1) in killed and "unfinished" in line and line is last[match.group(1)]:
            continue
        if not match:
            assert "SIGSYS" not in line, line
            continue
        pid, name, args = match.group(1), match.group(2), recorder.arguments(match.group(3))
        if name == "execve":
            parent = pid
            phases[pid] = "before"
        phase = phases.setdefault(pid, "start")
        if phase != "before":
            found[phase].setdefault((name, args), line)
        if name == "seccomp" and args[0] == 1 and args[2] >= recorder.FILTER_SIZE_LEAST:
            phases[pid] = "start" if pid == parent else "serve"
    return found


@pytest.mark.parametrize("phase", ("start", "serve"))
def test_policy_and_use_are_the_same(calls, phase):
    """Only the decoder's own rules must be needed; all processes share the other rules."""
    policy = recorder.Policy(explain("decoder", phase))
    denied = {name: line for (name, args), line in calls[phase].items()
              if not policy.allows(name, args, 0)}
    assert not denied, "calls that no rule allows:\n" + "\n".join(denied.values())
    if phase == "start":  # the start phase also allows the calls of the serve phase
        for name, args in calls["serve"]:
            policy.allows(name, args, 0)
    unused = [recorder.describe(rule) for rule in policy.unused()
              if rule["file"] == "seccomp/decoder.yaml"]
    assert not unused, "rules that nothing needs, and that are not marked rare:\n" + \
        "\n".join(unused)


def test_a_child_has_less_than_twenty_calls():
    assert explain("decoder", "serve")["allowed"] < 20
