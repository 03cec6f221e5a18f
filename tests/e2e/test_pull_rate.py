# SPDX-License-Identifier: Apache-2.0
"""Tests how fast `sconce pull` fetches a file, over how many connections, and what it shows meanwhile."""
import os
import pathlib
import pty
import re
import subprocess
import sys
import time

import pytest
from test_pull import big, verified


@pytest.mark.full
@pytest.mark.alone
def test_a_pull_reaches_the_rate_of_curl_on_a_network(build, tmp_path):
    """Fetches 1 GiB at the rate of a network of 1 Gbit/s, in turns with curl."""
    bench = pathlib.Path(__file__).resolve().parents[1] / "bench/pull.py"
    out = subprocess.run([sys.executable, bench, "--build", build, "--dir", tmp_path, "--rate",
                          "110", "--rounds", "3"], capture_output=True, text=True)
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.parametrize("connections", [1, 2, 4])
def test_a_slow_server_is_asked_over_all_connections(pull, hub, sconce, connections):
    data = big(70 << 20)
    hub.put_repository("org/big", {"big-Q8_0.gguf": data})
    clients = set()

    def note(h):
        if not (h.headers["Range"] or "bytes=0-0").endswith("=0-0"):
            clients.add(h.client_address)
        return False

    hub.faults.append(("resolve", note))
    hub.pace = 0.003  # a connection gets 20 MB/s
    pull.configure(connections=connections)
    out = pull("org/big")
    assert out.returncode == 0 and verified(sconce, "big-Q8_0"), out.stderr
    assert len(clients) == connections


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_the_progress_has_the_rate_and_the_time_left(pull, hub, terminal):
    hub.put_repository("org/big", {"big-Q8_0.gguf": big()})
    hub.pace = 0.008  # 8 MB/s: the pull takes 5 seconds
    pull.configure(connections=1)
    here, there = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen([*pull.command, "org/big"], stdout=subprocess.DEVNULL, stderr=there)
    os.close(there)
    times, text = [time.monotonic()], b""
    while True:
        try:
            part = os.read(here, 4096)
        except OSError:  # reading a terminal fails when the last program has closed it
            part = b""
        if not part:
            break
        text += part
        times.append(time.monotonic())
    os.close(here)
    assert process.wait() == 0, text
    shown = re.findall(rb"([0-9.]+ [KM]iB) of 40.0 MiB, (\d+) %, [0-9.]+ [KM]iB/s, (\d+):(\d\d) left", text)
    assert len(shown) >= (5 if terminal else 2), text
    percents = [int(row[1]) for row in shown]
    assert percents == sorted(percents) and 0 < percents[-1] <= 100
    assert all(int(row[2]) * 60 + int(row[3]) < 600 for row in shown), shown
    # There is a line every two seconds, and at a terminal one line that changes all the time. A busy machine delays it.
    assert max(b - a for a, b in zip(times, times[1:])) < 10, text
