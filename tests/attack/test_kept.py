# SPDX-License-Identifier: Apache-2.0
"""Tests attacks of compromised services on stored blocks of the cache service.

The cache has blocks of two tenants. The attacks run inside the services, with the rights of the
services: with all walls (`all`), and with only some walls. A wall is a mechanism that confines a
service (tests/lib/walls.py).
"""
import os
import pathlib
import sys
import time

import pytest

import walls

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import cache_wire  # noqa: E402

KNOWN = b"A" * 32  # the name that attacks-kept.c asks for
SECRET = b"sconce-attack-secret"


@pytest.fixture(scope="module")
def kept(serve):
    """Provides the options of the attack program: the socket of the cache service, and the lock of
    its directory."""
    serve.pid("cache")
    socket = os.path.join(serve.runtime, "cache.sock")
    with cache_wire.Client(socket) as c:
        assert c.put([(KNOWN, os.urandom(8192))], tenant="alice", session="alice-talk") == 1
        assert c.put([(b"B" * 32, os.urandom(5000) + SECRET)], tenant="bob", session="bob-talk") == 1
        end = time.monotonic() + 20
        while len(c.find([KNOWN, b"B" * 32])) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
        directory = c.status()["directory"]
    segments = pathlib.Path(directory, "segments").glob("*.kv")
    assert any(SECRET in path.read_bytes() for path in segments)
    return {"kept_socket": socket, "kept_lock": os.path.join(directory, "lock")}


def outcomes(program, serve, service, kept):
    result = walls.attack(program, serve.pid(service), only="kept-list,kept-read", **kept)
    return result.outcomes["kept-list"], result.outcomes["kept-read"]


def test_an_attacker_in_chat_reads_only_blocks_that_it_can_name(program, serve, kept):
    lists, reads = outcomes(program, serve, "chat", kept)
    # Without walls the directory can be opened, which gives the right to manage the cache.
    assert lists["none"] == "done"
    for way in ("own", "unfiltered", "all"):
        assert walls.denied(lists[way]), lists
    # The requested block arrived, and no data of another tenant. This must hold even without walls.
    assert set(reads.values()) == {"ENODATA"}


@pytest.mark.parametrize("service", ["gateway", "embed", "audio"])
def test_other_services_get_nothing(program, serve, kept, service):
    lists, reads = outcomes(program, serve, service, kept)
    assert walls.denied(lists["all"]) and walls.denied(lists["unfiltered"])
    assert walls.denied(reads["all"])
