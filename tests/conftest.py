# SPDX-License-Identifier: Apache-2.0
"""Settings and fixtures of all tests. Most of this file orders parallel runs: it decides which files
start first and which tests run alone.

tests/run.sh distributes the files of a folder over several processes (pytest-xdist) and names a
directory in SCONCE_TURNS. Lock files in this directory coordinate all test processes. Without
SCONCE_TURNS no test waits.
"""
import contextlib
import fcntl
import os
import pathlib
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "lib"))
import behind  # noqa: E402
import hub as hubs  # noqa: E402


def pytest_configure(config):
    # Shells start background commands with SIGINT ignored, and children inherit this. Tests send
    # SIGINT to programs, as a terminal does, so the programs must not ignore it.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Newer versions of pytest-xdist sort files by their number of tests, which says little about
    # time.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """Moves files marked `long` to the front; the order in a file stays. Skips tests marked
    `full`."""
    for item in items:
        if item.get_closest_marker("full") and not os.environ.get("SCONCE_TEST_FULL"):
            item.add_marker(pytest.mark.skip(reason="part of `tests/run.sh full` (SCONCE_TEST_FULL)"))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@contextlib.contextmanager
def turn(directory, alone):
    """Holds the lock of a shared or an exclusive test, as a context manager.

    An exclusive test holds a second lock, the gate, while it waits for the running tests to end, so
    that no new test starts before it.
    """
    with open(os.path.join(directory, "gate"), "ab") as gate, \
            open(os.path.join(directory, "running"), "ab") as running:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    alone = item.get_closest_marker("alone") is not None
    directory = os.environ.get("SCONCE_TURNS")
    with contextlib.ExitStack() as stack:
        if directory:
            stack.enter_context(turn(directory, alone))
        if alone:
            stack.enter_context(behind.paused())
        yield


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Provides the paths of a certificate for localhost and of its key."""
    return hubs.make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def hub(certificate):
    """Provides a server of models on this machine."""
    server = hubs.Hub(*certificate)
    yield server
    server.close()
