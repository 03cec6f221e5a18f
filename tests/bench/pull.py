#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the rate of `sconce pull` with that of curl, from a hub on this machine.

    pull.py [--build DIR] [--dir DIR] [--mib N] [--rounds N] [--rate MIB] [--json]

A process of its own serves one GGUF file of N MiB over TLS (tests/lib/hub.py). In each round, curl
fetches the file, then curl fetches it and `openssl dgst` computes its SHA-256, and then `sconce pull`
fetches, verifies and installs it: the time of each command is that of all its processes. All write
below DIR, where 2 × N MiB must be free. With --rate the server sends at most MIB MiB per second, as a
network does; without it, the server, the command and the digest share the processors. The result is
the median of the rates, and the median of the ratios of the rounds to curl alone and to curl with the
digest. The program exits with 1 if the ratio to curl alone is below 0.9.
"""
import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/lib"))

import hub as hubs  # noqa: E402

LEAST = 0.9
REPOSITORY = "org/large"
FILE = "large-Q8_0.gguf"


def serve(certificate, key, options, ready):
    """Serves the file until the process ends."""
    hub, mib = hubs.Hub(certificate, key), options.mib
    hub.rate = options.rate << 20
    part = random.Random(1).randbytes(1 << 20)
    data = bytearray().join([b"GGUF", part * mib])[:mib << 20]
    # The parts differ, so that no program can profit from equal ones.
    for i in range(mib):
        data[(i << 20) + 8:(i << 20) + 12] = i.to_bytes(4, "little")
    hub.put_repository(REPOSITORY, {FILE: bytes(data)})
    ready.send((hub.url, hashlib.sha256(data).hexdigest()))
    ready.recv()


@contextlib.contextmanager
def server(folder, options):
    """Provides the URL of a hub in another process, and the SHA-256 of its file."""
    certificate, key = hubs.make_certificate(folder)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(certificate, key, options, there),
                                      daemon=True)
    process.start()
    try:
        yield (*here.recv(), certificate)
    finally:
        process.terminate()
        process.join()


def timed(argv, environment):
    """Returns the seconds of a command, and the seconds of processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit("%s: %s" % (argv[0], done.stderr))
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(options, folder):
    """Returns a list of rounds: the seconds and the processor seconds of curl, of curl with a digest and
    of sconce."""
    home, store, rounds = folder / "home", folder / "store", []
    environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home),
                   "XDG_CONFIG_HOME": str(home)}
    with server(folder, options) as (url, digest, certificate):
        (home / "sconce").mkdir(parents=True)
        (home / "sconce/sconce.yaml").write_text(
            "pull:\n  mirror: %s\n  certificates: %s\n" % (url, certificate))
        file = "%s/%s/resolve/%s/%s" % (url, REPOSITORY, hubs.REVISION, FILE)
        for _ in range(options.rounds):
            copy = folder / "copy"
            store.mkdir()
            curl = timed(["curl", "-sS", "--fail", "--cacert", certificate, "-o", copy, file],
                         environment)
            copy.unlink()
            hashed = timed(["sh", "-c", 'curl -sS --fail --cacert "$1" -o "$3" "$2" && openssl dgst -sha256 "$3"',
                            "sh", certificate, file, copy], environment)
            copy.unlink()
            pull = timed([options.build / "services/cli/sconce", "pull", "--models", store, REPOSITORY],
                         environment)
            if digest not in (store / "large-Q8_0/manifest.yaml").read_text():
                raise SystemExit("the installed model has another digest")
            shutil.rmtree(store)
            rounds.append((*curl, *hashed, *pull))
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--dir", type=pathlib.Path, help="default: a temporary directory")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=int, default=0, help="MiB per second of the server; 0: no limit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        rounds = measure(options, pathlib.Path(folder))
    curl, curl_cpu, hashed, hashed_cpu, pull, pull_cpu = (statistics.median(column) for column in zip(*rounds))
    found = {"mib": options.mib, "rate": options.rate, "rounds": len(rounds), "curl_mib_s": options.mib / curl,
             "hashed_mib_s": options.mib / hashed, "pull_mib_s": options.mib / pull, "curl_cpu_s": curl_cpu,
             "hashed_cpu_s": hashed_cpu, "pull_cpu_s": pull_cpu,
             "ratio": statistics.median(c / p for c, _, _, _, p, _ in rounds),
             "ratio_hashed": statistics.median(h / p for _, _, h, _, p, _ in rounds)}
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print("%(mib)d MiB, %(rounds)d rounds: curl %(curl_mib_s).0f MiB/s and %(curl_cpu_s).2f s of "
              "processor time, curl with a digest %(hashed_mib_s).0f MiB/s and %(hashed_cpu_s).2f s, sconce "
              "pull %(pull_mib_s).0f MiB/s and %(pull_cpu_s).2f s: ratio %(ratio).2f, to curl with a digest "
              "%(ratio_hashed).2f" % found)
    return found["ratio"] < LEAST


if __name__ == "__main__":
    sys.exit(main())
