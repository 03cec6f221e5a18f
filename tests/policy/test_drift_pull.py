# SPDX-License-Identifier: Apache-2.0
"""Checks that the policies of `sconce pull` and sconce-fetch allow exactly the system calls that the two
programs need.

Both run under strace while they pull models from a hub on this machine. The comparison is that of
test_drift.py.
"""
import os
import random
import shutil
import subprocess
import types

import pytest

import recorder
from test_drift import BUILD, ROOT, check_policy, explain, skip_unless_possible

import hub as hubs

GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
LARGE = 40 << 20
MAX_CALLS = 60


def wrap(argv, output):
    """Returns the command that runs @argv and records the calls of it and of all programs that it
    starts."""
    return [shutil.which("strace"), "-f", "-A", "-qq", "-s", "0", "-e", "raw=all", "-o", str(output),
            *map(str, argv)]


def split(trace, folder):
    """Writes the lines of each program of a record into a file of its own: of `sconce pull`, and of
    sconce-fetch, which is the process that executes a second program."""
    began, lines = {}, {"pull": [], "fetch": []}
    for line in trace.read_text(errors="replace").splitlines(keepends=True):
        pid = line.split(None, 1)[0]
        if "execve" in line and line.rstrip().endswith("= 0"):
            began[pid] = "fetch" if began else "pull"
            # strace writes a call in two lines if another process makes one meanwhile.
            line = pid + " execve() = 0\n"
        if pid in began:
            lines[began[pid]].append(line)
    for name, text in lines.items():
        with open(folder / name, "a") as out:
            out.writelines(text)


class Puller:
    """Runs `sconce pull` with a store and a hub of its own."""

    def __init__(self, folder, traces):
        self.folder, self.traces, self.n = folder, traces, 0
        certificate, key = hubs.make_certificate(folder)
        self.hub = hubs.Hub(certificate, key)
        self.environment = {**os.environ, "HOME": str(folder), "HF_TOKEN": "hf_drift"}
        for name in ("CONFIG", "DATA", "STATE"):
            self.environment["XDG_%s_HOME" % name] = str(folder)
        (folder / "sconce/models").mkdir(parents=True)
        (folder / "sconce/sconce.yaml").write_text(
            "pull:\n  mirror: %s\n  ollama_mirror: %s\n  certificates: %s\n  token_host: %s\n" % (
                self.hub.url, self.hub.url, certificate, self.hub.url.removeprefix("https://")))

    def start(self, *args):
        self.n += 1
        trace = self.folder / ("trace-%d" % self.n)
        command = wrap([BUILD / "services/cli/sconce", "pull", *args], trace)
        return trace, subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)

    def pull(self, *args, fails=False):
        trace, process = self.start(*args)
        text = process.communicate(timeout=120)[0]
        assert (process.returncode != 0) == fails, text
        split(trace, self.traces)


def models(p):
    """Pulls from every kind of source, also with every kind of fault."""
    hub, weights = p.hub, GUIDE.read_bytes()
    hub.put_repository("org/small", {"small-Q8_0.gguf": weights})
    hub.put_repository("org/large", {"large-Q8_0.gguf": b"GGUF" + random.Random(1).randbytes(LARGE)})
    hub.put_repository("org/moved", {"moved-Q8_0.gguf": b"GGUF moved"})
    hub.put_ollama("small", "1", weights, {"params": b'{"temperature": 0.5}'})
    tree = ROOT / "tests/golden/embed/bert-mean"
    hub.put_repository("org/bert", {str(f.relative_to(tree)): f.read_bytes()
                                    for f in tree.rglob("*") if f.is_file()})
    hub.files["/x/other.gguf"] = weights + b"1"
    p.pull("org/small:q8_0", "--json")
    p.pull("org/small")
    p.pull("org/large")
    p.pull("org/bert")
    p.pull("ollama:small:1")
    p.pull(hub.url + "/x/other.gguf")
    hub.put_repository("org/small", {"small-Q8_0.gguf": weights + b"2"})
    p.pull("org/small:q8_0")
    tries = []

    def busy(handler):
        tries.append(1)
        if len(tries) < 3:
            handler.answer(503, b"")
        return len(tries) < 3

    hub.faults.append(("other", busy))
    p.pull("--name", "again", hub.url + "/x/other.gguf")
    hub.faults.clear()
    p.pull("org/missing", fails=True)
    hub.faults.append(("resolve", lambda h: h.answer(302, b"", Location="https://10.0.0.1/x") is None))
    p.pull("org/moved", fails=True)
    hub.faults.clear()
    about = hub.put_repository("org/wrong", {"wrong-Q8_0.gguf": weights})
    about["siblings"][0]["lfs"]["sha256"] = "0" * 64
    hub.put_about("org/wrong", about)
    p.pull("org/wrong", fails=True)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    skip_unless_possible()
    if not (BUILD / "services/fetch/sconce-fetch").exists() or not GUIDE.exists():
        pytest.skip("no sconce-fetch or no model")
    traces = tmp_path_factory.mktemp("pull-traces")
    p = Puller(tmp_path_factory.mktemp("pull"), traces)
    try:
        models(p)
    finally:
        p.hub.close()
    return traces


@pytest.mark.parametrize("name", ("fetch", "pull"))
@pytest.mark.parametrize("phase", ("start", "serve"))
def test_policy_and_use_of_pulls_are_the_same(traces, name, phase):
    row = types.SimpleNamespace(name=name, max_calls=MAX_CALLS)
    check_policy(traces / name, explain(name, phase), row, phase, 10)


def test_the_comparison_notices_a_missing_rule(traces):
    explained = explain("fetch", "serve")
    policy = recorder.Policy({**explained, "calls": [c for c in explained["calls"]
                                                     if c["name"] != "pwrite64"]})
    denied = {name for life in recorder.read(traces / "fetch")
              for (where, name, args) in life.calls
              if where == "serve" and not policy.allows(name, args, life.pid)}
    assert denied == {"pwrite64"}
