# SPDX-License-Identifier: Apache-2.0
"""A client of sconce-cache cannot read blocks that it cannot name, take all of the service's
memory, or flood its log, whatever it sends. The chat service is such a client, and so is an
attacker who has taken it over."""
import errno
import fcntl
import os
import stat
import struct
import time

import pytest

import cache_wire as wire
from cache_service import MIB, cache, chain, data_of, make_cache  # noqa: F401
from cache_wire import names, origin
from conftest import SLOW

pytestmark = pytest.mark.sanitize


def read_all(fd):
    """Reads all bytes of a pipe, to its end."""
    os.set_blocking(fd, True)
    with open(fd, "rb") as pipe:
        return pipe.read()


def wait(condition, seconds=10):
    end = time.monotonic() + seconds * SLOW
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_reader_gets_only_the_blocks_that_it_names(cache):
    """Blocks of two tenants are adjacent in one file, and the service sends no descriptor of this
    file."""
    alice, bob = chain(3, salt=1), chain(3, salt=2)
    with cache.client() as c:
        for i in range(3):
            parent = {"parent": alice[i - 1][0]} if i else {}
            assert c.put(alice[i:i + 1], first=i, tenant="alice", session="a", **parent) == 1
            parent = {"parent": bob[i - 1][0]} if i else {}
            assert c.put(bob[i:i + 1], first=i, tenant="bob", session="b", **parent) == 1
        cache.wait_written(c, 6)
    assert os.listdir(os.path.join(cache.blocks, "segments")) == ["00000001.kv"]
    with cache.client() as c:
        wanted = [alice[0][0]]
        answer = c.call(wire.FIND, origin(tenant="bob") + wanted[0], 1)
        assert (answer.n, answer.fds) == (1, [])
        fd = c.read(wanted)
        assert stat.S_ISFIFO(os.fstat(fd).st_mode)
        for wrong in (lambda: os.lseek(fd, 0, os.SEEK_SET), lambda: os.pread(fd, 1, 0),
                      lambda: os.write(fd, b"x")):
            with pytest.raises(OSError):
                wrong()
        assert read_all(fd) == alice[0][1]
        # Blocks that are only announced for a later read are not sent.
        fd = c.read([name for name, _ in alice], n_ahead=2)
        assert read_all(fd) == alice[0][1]
        # Claiming a tenant gives no access: a block is found by its name only.
        assert c.find(names(1, 7), tenant="bob") == []
        assert c.read(names(1, 7)) == -errno.ENOENT


ADMIN = {"list": (wire.LIST, struct.pack("<Q", 2) + bytes(40)),
         "purge": (wire.PURGE, bytes(192 + 64 + 128 + 8 + 40)), "verify": (wire.VERIFY, bytes(40))}


def test_only_clients_that_can_open_the_directory_manage_it(cache):
    """The chat service cannot list or purge: otherwise it could learn tenants and sessions, and
    delete everything."""
    with cache.client() as c:
        c.put(chain(3), tenant="alice", session="secret-talk")
        cache.wait_written(c, 3)
        for kind, body in ADMIN.values():
            answer = c.call(kind, body)
            assert answer.status == -errno.EPERM and not answer.body
    lock = os.path.join(cache.blocks, "lock")
    other = os.path.join(cache.dir, "lock")
    open(other, "w").close()
    wrong = {"read only": (lock, os.O_RDONLY), "write only": (lock, os.O_WRONLY),
             "a path": (lock, os.O_PATH), "another file": (other, os.O_RDWR),
             "another of the directory": (os.path.join(cache.blocks, "segments/00000001.kv"),
                                          os.O_RDWR)}
    with cache.client() as c:
        for name, (path, flags) in wrong.items():
            fd = os.open(path, flags)
            assert c.call(wire.MANAGE, fds=[fd]).status == -errno.EPERM, name
            os.close(fd)
            assert c.call(*ADMIN["list"]).status == -errno.EPERM, name
        assert c.status()["blocks"] == 3
        assert c.manage(lock) == 0
        answer = c.call(*ADMIN["list"])
        assert answer.status == 0 and b"secret-talk" in answer.body
        assert c.steps(wire.VERIFY)[0] == 3
        # Only this connection has the right, and a wrong descriptor does not give the right.
        with cache.client() as another:
            assert another.call(*ADMIN["list"]).status == -errno.EPERM
        fd = os.open(lock, os.O_RDONLY)
        assert c.call(wire.MANAGE, fds=[fd]).status == -errno.EPERM
        os.close(fd)
        assert c.call(*ADMIN["list"]).status == -errno.EPERM
    # The service still has the lock file open.
    assert cache.run("ls", "--sessions").returncode == 0


def test_an_unreadable_block_is_removed(cache):
    """The pipe ends early for the reader of a damaged block, and the next reader does not find the
    block."""
    with cache.client() as c:
        c.put(chain(4))
        cache.wait_written(c, 4)
        path = os.path.join(cache.blocks, "segments", "00000001.kv")
        with open(path, "rb") as f:
            f.seek(0)
            at = f.read().index(data_of(names(3)[2]))
        os.truncate(path, at + 5000)
        fd = c.read(names(4))
        got = read_all(fd)
        assert got[:200000] == data_of(names(1)[0]) + data_of(names(2)[1])
        assert len(got) == 205000
        wait(lambda: c.status()["rejected_blocks_total"] == 1)
        assert len(c.find(names(4))) == 2


def test_a_client_that_does_not_read_delays_no_other(cache):
    """The service ends the reads of a client that does not read: the oldest read when the client
    starts one too many, and all reads after a timeout."""
    size = 4 * MIB
    with cache.client() as c, cache.client() as other:
        c.put(chain(2, size=size))
        cache.wait_written(c, 2)
        data = b"".join(data_of(name, size) for name in names(2))
        waiting = [c.read(names(2)) for _ in range(4)]
        begin = time.monotonic()
        assert read_all(other.read(names(2))) == data
        # The fifth read ends the first, which delivered no more than the pipe holds.
        waiting.append(c.read(names(2)))
        first = read_all(waiting.pop(0))
        assert 0 < len(first) < len(data) and data.startswith(first)
        assert read_all(waiting.pop(0)) == data
        assert time.monotonic() - begin < 5
        for fd in waiting:
            time.sleep(max(0, begin + 8 - time.monotonic()))
            assert 0 < len(read_all(fd)) <= MIB
        assert read_all(c.read(names(2))) == data


def test_many_readers_are_limited(cache):
    """The read that has waited longest is dropped to make room for another."""
    size = 2 * MIB
    clients = [cache.client() for _ in range(20)]
    clients[0].put(chain(1, size=size))
    cache.wait_written(clients[0], 1)
    pid = cache.service.wait_pid()
    before = len(os.listdir("/proc/%d/fd" % pid))
    pipes = []
    for c in clients:
        pipes += [c.read(names(1)) for _ in range(4)]
    assert len([fd for fd in pipes if fd >= 0]) >= 64
    assert len(os.listdir("/proc/%d/fd" % pid)) <= before + 66
    wait(lambda: clients[1].read(names(1)) >= 0)
    for c in clients:
        c.close()
    for fd in pipes:
        if fd >= 0:
            os.close(fd)


def test_memory_with_holes_is_rejected(cache):
    """A memfd may have holes. The pages of a hole are allocated when the service reads them, and
    are charged to the service."""
    fd = os.memfd_create("holes", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 64 * MIB)
    fcntl.fcntl(fd, wire.ADD_SEALS, wire.SEALS)
    block = names(1)[0] + bytes(32) + struct.pack("<4Q", 0, 0, 64 * MIB, 1)
    with cache.client() as c:
        assert c.call(wire.PUT, origin() + block, 1, [fd]).status == -errno.EPERM
    assert os.fstat(fd).st_blocks == 0
    os.close(fd)


def block_of(name, size, total, offset=0):
    return name + bytes(32) + struct.pack("<4Q", 0, offset, size, total)


def test_puts_that_wait_are_limited_in_number(cache):
    """The limit is per process, so one process with many small blocks leaves room for others."""
    size = 64 * MIB
    large = bytes(size)
    total = wire.xxh3(large)
    large_fd, small_fd = wire.memfd(large), wire.memfd(b"small")
    small = wire.xxh3(b"small")
    connections = [cache.client() for _ in range(4)]
    with cache.client() as c:
        # Other clients wait while these blocks are written.
        for name in names(3, 1):
            assert c.call(wire.PUT, origin() + block_of(name, size, total), 1, [large_fd]).n == 1
        taken = [connections[i % 4].call(wire.PUT, origin() + block_of(name, 5, small), 1,
                                         [small_fd]).n
                 for i, name in enumerate(names(300, 2))]
        child = os.fork()
        if child == 0:
            try:
                with cache.client() as other:
                    n = sum(other.call(wire.PUT, origin() + block_of(name, 5, small), 1,
                                       [small_fd]).n for name in names(10, 3))
            finally:
                os._exit(n)
        assert c.status()["pending_blocks"] > 100, "blocks were written before all had been put"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
        assert 100 < sum(taken) < 128 and taken[-1] == 0
        assert c.status()["refused_blocks_total"] == 300 - sum(taken)
    for other in connections:
        other.close()
    os.close(large_fd)
    os.close(small_fd)


def test_one_process_cannot_take_all_connections(cache):
    """A process that opens too many connections loses connections of its own, the silent ones
    first."""
    with cache.client() as other:
        assert other.status()["clients"] == 1
        child = os.fork()
        if child == 0:
            status = 1
            try:
                silent = cache.client()
                clients = [cache.client() for _ in range(200)]
                assert silent.receive() is None
                assert clients[-1].status()["clients"] <= 65
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with cache.client() as c:
            assert c.status()["problem"] == ""
        assert other.status()["problem"] == ""


def test_the_log_does_not_grow_with_rubbish(cache):
    for _ in range(50):
        with cache.client() as c:
            c.send(b"x")
            assert c.receive() is None
    with cache.client() as c:
        assert c.status()["malformed_total"] == 50
    assert open(cache.log_path).read().count("was disconnected") == 1
