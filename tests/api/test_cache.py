# SPDX-License-Identifier: Apache-2.0
"""Tests sconce-cache alone: what it stores and finds again, and what it rejects. Neither a client
nor a signal makes it lose more than the data that was not yet written."""
import errno
import json
import os
import random
import signal
import struct
import subprocess
import tempfile
import threading
import time

import pytest

import cache_wire as wire
from cache_service import MIB, SCONCE, cache, chain, data_of, make_cache  # noqa: F401
from cache_wire import names, origin
from conftest import BUILD, SLOW

pytestmark = pytest.mark.sanitize

def test_stored_blocks_are_found(cache):
    blocks = chain(5)
    with cache.client() as c:
        assert c.find(names(5)) == []
        assert c.put(blocks) == 5
        cache.wait_written(c, 5)
        assert c.get(names(7)) == [data for _, data in blocks]
        # A chain has no holes: blocks after a missing one do not count.
        assert c.find([bytes(32)] + names(5)) == []
        status = c.status()
        assert status["found_blocks_total"] == 5 and status["problem"] == ""
        assert status["pending_blocks"] == status["pending_bytes"] == 0
        assert status["taken_blocks_total"] == status["written_blocks_total"] == 5
    with cache.client() as c:
        assert c.get(names(2)) == [data for _, data in blocks[:2]]


def test_a_restart_finds_everything(cache):
    blocks = chain(20)
    with cache.client() as c:
        assert c.put(blocks) == 20
    # Blocks that the service accepted are written before it ends.
    cache.service.kill(signal.SIGTERM)
    cache.service.wait_gone(30 * SLOW)
    assert cache.service.status == 0
    with cache.client() as c:
        assert c.get(names(20)) == [data for _, data in blocks]
    cache.wait_starts(2)


def test_kill_loses_nothing_that_was_written(cache):
    kept = {}
    for i in range(6):
        blocks = chain(30, salt=i, size=200000)
        with cache.client() as c:
            before = c.status()["blocks"]
            assert c.put(blocks[:10]) == 10
            cache.wait_written(c, before + 10)
            kept.update(blocks[:10])
            # The service may not have written these blocks yet.
            assert c.put(blocks[10:], parent=blocks[9][0], first=10) == 20
            time.sleep(random.random() * 0.05)
        cache.service.kill(signal.SIGKILL)
        cache.service.wait_gone(10 * SLOW)
        with cache.client() as c:
            for k in range(i + 1):
                found = c.get(names(30, salt=k))
                assert len(found) >= 10
                assert found == [data_of(n, 200000) for n in names(30, salt=k)[:len(found)]]


def test_an_index_damaged_at_run_time_is_rebuilt(cache):
    blocks = chain(5)
    with cache.client() as c:
        assert c.put(blocks) == 5
        cache.wait_written(c, 5)
    cache.service.kill(signal.SIGTERM)
    cache.service.wait_gone(30 * SLOW)
    with cache.client() as c:
        # The part of the index that the service has not read yet is overwritten with garbage.
        assert c.status()["blocks"] == 5
        with open(os.path.join(cache.blocks, "index.db"), "r+b") as f:
            size = f.seek(0, os.SEEK_END)
            f.seek(4096)
            f.write(b"\xa5" * (size - 4096))
        pid = cache.service.wait_pid()
        assert c.get(names(5)) == [data for _, data in blocks]
        assert c.status()["rebuilds_total"] == 1
        assert cache.service.wait_pid() == pid
        assert "index.db.damaged" in os.listdir(cache.blocks)


def test_cache_files_are_private_to_their_owner(make_cache):
    """Files that others could read become private at the start, and no new file is readable by
    others."""
    old_mask = os.umask(0)
    try:
        cache = make_cache()
        os.makedirs(os.path.join(cache.blocks, "segments"))
        for name in ("index.db.damaged", "policy", "lock"):
            open(os.path.join(cache.blocks, name), "w").close()
        with cache.client() as c:
            c.put(chain(3))
            cache.wait_written(c, 3)
        cache.service.kill(signal.SIGTERM)
        cache.service.wait_gone(30 * SLOW)
        files = [os.path.join(d, f) for d, _, names in os.walk(cache.blocks) for f in names]
        assert {os.path.basename(f) for f in files} >= {"index.db", "policy", "lock", "00000001.kv"}
        assert [f for f in files if os.stat(f).st_mode & 0o777 != 0o600] == []
        for f in files:
            os.chmod(f, 0o644)
        with cache.client() as c:
            assert c.get(names(3)) == [data_of(name) for name in names(3)]
            files = [os.path.join(d, f) for d, _, names_ in os.walk(cache.blocks) for f in names_]
            assert "index.db-wal" in {os.path.basename(f) for f in files}
            assert [f for f in files if os.stat(f).st_mode & 0o777 != 0o600] == []
    finally:
        os.umask(old_mask)


def test_two_clients_see_one_store(cache):
    with cache.client() as a, cache.client() as b:
        errors = []

        def work(c, salt):
            try:
                for i in range(10):
                    blocks = chain(8, salt=salt * 100 + i, size=50000)
                    assert c.put(blocks) == 8
                    end = time.monotonic() + 20 * SLOW
                    while c.get([n for n, _ in blocks]) != [d for _, d in blocks]:
                        assert time.monotonic() < end
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work, args=x) for x in ((a, 1), (b, 2))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == []
        assert a.status()["clients"] == 2
        assert len(a.find(names(8, salt=205))) == 8


def test_the_same_blocks_from_two_clients_are_kept_once(cache):
    blocks = chain(10)
    with cache.client() as a, cache.client() as b:
        assert a.put(blocks) == 10 and b.put(blocks) == 10
        cache.wait_written(a, 10)
        assert b.get(names(10)) == [d for _, d in blocks]
        assert a.put(blocks) == 10
        assert a.status()["blocks"] == 10


def test_memory_that_can_change_is_rejected(cache):
    data = data_of(b"x")
    block = names(1)[0] + bytes(32) + struct.pack("<4Q", 0, 0, len(data), wire.xxh3(data))
    with cache.client() as c:
        for seals in (0, 2 | 4, 4 | 8, 2 | 8):
            fd = wire.memfd(data, seals)
            assert c.call(wire.PUT, origin() + block, 1, [fd]).status == -errno.EPERM
            os.close(fd)
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.flush()
            assert c.call(wire.PUT, origin() + block, 1, [f.fileno()]).status == -errno.EPERM
        # This memfd is sealed, but smaller than the packet says.
        fd = wire.memfd(data[:-1])
        assert c.call(wire.PUT, origin() + block, 1, [fd]).status == -errno.EPERM
        os.close(fd)
        assert c.status()["refused_blocks_total"] == 6


def test_wrong_sums_are_not_kept(cache):
    good = chain(3)
    data = data_of(b"y")
    with cache.client() as c:
        fd = wire.memfd(data)
        block = names(1, 9)[0] + bytes(32) + struct.pack("<4Q", 0, 0, len(data), 1)
        assert c.call(wire.PUT, origin() + block, 1, [fd]).n == 1
        os.close(fd)
        assert c.put(good) == 3
        cache.wait_written(c, 3)
        assert c.find(names(1, 9)) == []
        assert c.status()["failed_blocks_total"] == 1


BAD = {
    "empty": lambda c: c.send(b"x"),
    "magic": lambda c: c.send(b"\0" + c.head(wire.STATUS)[1:]),
    "type": lambda c: c.send(c.head(99)),
    "no type": lambda c: c.send(c.head(0)),
    "an answer": lambda c: c.send(c.head(wire.STATUS | wire.ANSWER)),
    "a status": lambda c: c.send(c.head(wire.STATUS, status=-1)),
    "not zero": lambda c: c.send(c.head(wire.STATUS, zero=1)),
    "hello twice": lambda c: c.send(c.head(wire.HELLO) + struct.pack("<II", 2, 2) + bytes(64)),
    "too many names": lambda c: c.send(c.head(wire.FIND, 513) + origin() + bytes(32 * 513)),
    "a huge count": lambda c: c.send(c.head(wire.FIND, 0xFFFFFFFF) + origin() + bytes(64)),
    "a huge count of blocks": lambda c: c.send(c.head(wire.PUT, 1 << 31) + origin() + bytes(64)),
    "cut": lambda c: c.send(c.head(wire.FIND, 2) + origin() + bytes(63)),
    "too long": lambda c: c.send(c.head(wire.FIND, 1) + origin() + bytes(33)),
    "longer than any": lambda c: c.send(c.head(wire.FIND, 1) + origin() + bytes(50000)),
    "no text": lambda c: c.send(c.head(wire.FIND, 1) + b"\xff" * 448 + bytes(32)),
    "no descriptor": lambda c: c.send(c.head(wire.PUT, 1) + origin() + bytes(64) +
                                      struct.pack("<4Q", 0, 0, 1, 0)),
    "an empty block": lambda c: c.send(c.head(wire.PUT, 1) + origin() + bytes(64) +
                                       struct.pack("<4Q", 0, 0, 0, 0), [0]),
    "a block beyond the end": lambda c: c.send(c.head(wire.PUT, 1) + origin() + bytes(64) +
                                               struct.pack("<4Q", 0, 1 << 63, 1, 0), [0]),
    "two descriptors": lambda c: c.send(c.head(wire.PUT, 1) + origin() + bytes(64) +
                                        struct.pack("<4Q", 0, 0, 1, 0), [0, 0]),
    "many descriptors": lambda c: c.send(c.head(wire.STATUS), [0] * 100),
    "a descriptor too many": lambda c: c.send(c.head(wire.STATUS), [0]),
    "nothing to read": lambda c: c.send(c.head(wire.READ, 1) + bytes(4 + 32)),
    "more to read than is named": lambda c: c.send(c.head(wire.READ, 1) + struct.pack("<I", 2) +
                                                   bytes(32)),
    "an unknown kind": lambda c: c.send(c.head(wire.LIST) + struct.pack("<Q", 3) + bytes(40)),
}


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_packet_ends_only_its_connection(cache, name):
    with cache.client() as other, cache.client() as c:
        pid = cache.service.wait_pid()
        fds = len(os.listdir("/proc/%d/fd" % pid))
        BAD[name](c)
        assert c.receive() is None
        assert other.status()["malformed_total"] == 1
        assert len(os.listdir("/proc/%d/fd" % pid)) <= fds


def test_hello_comes_first(cache):
    with cache.client(greet=False) as c:
        c.send(c.head(wire.STATUS))
        assert c.receive() is None


def test_other_versions_are_answered_with_ours(cache):
    with cache.client(greet=False) as c:
        c.send(c.head(wire.HELLO, version=1) + b"anything")
        answer = c.receive()
        assert (answer.version, answer.type, answer.status) == (wire.VERSION, wire.HELLO, -errno.EPROTONOSUPPORT)
        assert struct.unpack_from("<II", answer.body) == (wire.VERSION, wire.VERSION)
        assert c.receive() is None
    with cache.client(greet=False) as c:
        c.send(c.head(wire.HELLO) + struct.pack("<II", 7, 9) + wire.text("new", 64))
        assert c.receive().status == -errno.EPROTONOSUPPORT
        assert c.receive() is None


def test_a_client_that_does_not_read_is_cut(cache):
    with cache.client() as c, cache.client() as other:
        try:
            for _ in range(20000):
                c.send(c.head(wire.STATUS))
        except OSError:
            pass
        else:
            pytest.fail("the service never disconnects the client")
        assert other.status()["clients"] >= 1


def test_rejected_blocks_are_removed(cache):
    with cache.client() as c:
        c.put(chain(4))
        cache.wait_written(c, 4)
        c.send(c.head(wire.REJECT, 1) + names(4)[2])
        assert len(c.find(names(4))) == 2
        assert c.status()["rejected_blocks_total"] >= 1


def test_digests_are_remembered(cache):
    file = struct.pack("<5Q", 1, 2, 3, 4, 5)
    with cache.client() as c:
        assert c.call(wire.RECALL, file).n == 0
        assert c.call(wire.REMEMBER, file + b"d" * 32).status == 0
        answer = c.call(wire.RECALL, file)
        assert (answer.n, answer.body) == (1, b"d" * 32)
        assert c.call(wire.RECALL, struct.pack("<5Q", 1, 2, 3, 4, 6)).n == 0
    cache.service.kill(signal.SIGTERM)
    cache.service.wait_gone(10 * SLOW)
    with cache.client() as c:
        assert c.call(wire.RECALL, file).n == 1
    # A compromised chat service may have stored wrong digests; only a full purge removes them.
    assert cache.run("purge", "--older-than", "1d").returncode == 0
    with cache.client() as c:
        assert c.call(wire.RECALL, file).n == 1
    assert cache.run("purge", "--all").returncode == 0
    with cache.client() as c:
        assert c.call(wire.RECALL, file).n == 0


def test_limits_hold_while_it_runs(make_cache):
    cache = make_cache(settings="  max_bytes: 8MiB\n")
    with cache.client() as c:
        for i in range(20):
            c.put(chain(4, salt=i, size=MIB // 2))
        end = time.monotonic() + 20 * SLOW
        while True:
            status = c.status()
            if status["bytes"] <= 8 * MIB and not status["pending_blocks"] and status["evicted_blocks_total"]:
                break
            assert time.monotonic() < end, status
        assert status["blocks"] > 0
        assert sum(os.stat(os.path.join(d, f)).st_blocks * 512
                   for d, _, files in os.walk(os.path.join(cache.blocks, "segments"))
                   for f in files) < 16 * MIB


def test_it_exits_when_idle_and_clients_find_the_next_process(make_cache):
    cache = make_cache(idle="300ms")
    with cache.client() as c:
        c.put(chain(2))
        cache.wait_written(c, 2)
        # An idle connection does not keep the service running.
        cache.service.wait_gone(10 * SLOW)
        assert cache.service.status == 0
        assert c.receive() is None
    with cache.client() as c:
        assert len(c.find(names(2))) == 2
    cache.wait_starts(2)


def test_it_says_what_it_does(cache):
    with cache.client() as c:
        c.put(chain(3))
        cache.wait_word(b"READY=1")
        cache.wait_word(b"STATUS=3 blocks")


@pytest.mark.parametrize("text, problem", [
    ("cache: 1\n", "must be a mapping"), ("cache:\n  directory: %s/none/of/it\n", "No such file"),
    ("cache:\n  enabled: false\n  directory: %s/blocks\n", "switched off")])
def test_without_a_store_it_answers_why(make_cache, text, problem):
    cache = make_cache()
    cache.configure(text % cache.dir if "%s" in text else text)
    with cache.client() as c:
        assert problem in c.status()["problem"]
        assert c.find(names(1)) == -errno.ENODEV
        assert c.put(chain(1)) == -errno.ENODEV
        c.send(c.head(wire.USED, 1) + origin() + names(1)[0])
        c.send(c.head(wire.REJECT, 1) + names(1)[0])
        assert c.call(wire.RECALL, struct.pack("<5Q", 1, 2, 3, 4, 5)).status == -errno.ENODEV
    result = cache.run("status")
    assert result.returncode == 0 and problem in result.stdout


def test_the_command_line_shows_checks_and_removes(cache):
    with cache.client() as c:
        c.put(chain(4), model="one", tenant="key-a", session="s1")
        c.put(chain(3, salt=1), model="two", tenant="key-b")
        cache.wait_written(c, 7)
    status = json.loads(cache.run("status", "--json").stdout)
    assert status["blocks"] == 7 and status["problem"] is None
    assert status["directory"] == cache.blocks
    assert "7 blocks" in cache.run("status").stdout
    models = json.loads(cache.run("ls", "--json").stdout)
    assert {(m["model"], m["codec"], m["blocks"]) for m in models} == \
        {("one", "f16/f16 cpu", 4), ("two", "f16/f16 cpu", 3)}
    tenants = json.loads(cache.run("ls", "--tenants", "--json").stdout)
    assert {(t["tenant"], t["blocks"]) for t in tenants} == {("key-a", 4), ("key-b", 3)}
    sessions = json.loads(cache.run("ls", "--sessions", "--json").stdout)
    assert [(s["session"], s["blocks"]) for s in sessions] == [("s1", 4)]
    assert "s1" in cache.run("ls", "--sessions").stdout
    assert json.loads(cache.run("verify", "--json").stdout) == \
        {"blocks": 7, "bad_blocks": 0, "bad_bytes": 0}
    assert cache.run("purge").returncode == 2
    assert json.loads(cache.run("purge", "--model", "one", "--json").stdout)["blocks"] == 4
    assert "3 blocks were removed" in cache.run("purge", "--all").stdout
    assert json.loads(cache.run("status", "--json").stdout)["blocks"] == 0


def on_disk(cache, blocks):
    """Returns how many of these blocks occur in the files of the cache."""
    files = [open(os.path.join(at, name), "rb").read()
             for at, _, names in os.walk(cache.blocks) for name in names]
    return sum(any(data[1000:1064] in file for file in files) for _, data in blocks)


def test_purged_blocks_are_not_on_the_disk(cache):
    gone, kept = chain(4), chain(3, salt=1)
    with cache.client() as c:
        c.put(gone, model="one", tenant="key-a", session="s1")
        c.put(kept, model="two", tenant="key-b")
        cache.wait_written(c, 7)
        assert on_disk(cache, gone) == 4 and on_disk(cache, kept) == 3
        assert cache.run("purge", "--tenant", "key-a").returncode == 0
        assert on_disk(cache, gone) == 0 and on_disk(cache, kept) == 3
        assert cache.run("purge", "--all").returncode == 0
        assert on_disk(cache, kept) == 0


def test_long_lists_come_in_pages(cache):
    with cache.client() as c:
        for i in range(70):
            c.put(chain(1, salt=i, size=100), session="session-%02d" % i)
        cache.wait_written(c, 70)
    sessions = json.loads(cache.run("ls", "--sessions", "--json").stdout)
    assert sorted(s["session"] for s in sessions) == ["session-%02d" % i for i in range(70)]


def test_verify_finds_blocks_that_changed_on_the_disk(cache):
    with cache.client() as c:
        c.put(chain(6))
        cache.wait_written(c, 6)
        assert len(c.find(names(6))) == 6
        data = data_of(names(6)[3])
        with open(os.path.join(cache.blocks, "segments", "00000001.kv"), "r+b") as f:
            f.seek(f.read().index(data) + len(data) // 2)
            f.write(b"????")
        result = json.loads(cache.run("verify", "--json").stdout)
        assert result["bad_blocks"] >= 1
        assert len(c.find(names(6))) == 3


def test_the_command_line_says_what_to_do(tmp_path):
    if not SCONCE.exists():
        pytest.skip("no build in %s (set SCONCE_BUILD)" % BUILD)

    def run(*argv):
        return subprocess.run([str(SCONCE), "cache", *argv], capture_output=True, text=True,
                              timeout=30)

    result = run("status", "--socket", str(tmp_path / "none"))
    assert result.returncode == 1 and "sconce serve" in result.stderr
    assert run().returncode == 2
    assert run("dance").returncode == 2
    assert run("purge", "--older-than", "soon").returncode == 2
