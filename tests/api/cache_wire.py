# SPDX-License-Identifier: Apache-2.0
"""Talks to sconce-cache, packet by packet (services/common/wire/cache-protocol.h)."""
import array
import ctypes
import fcntl
import os
import socket
import struct

MAGIC = 0x4B564353
VERSION = 3
(HELLO, FIND, PUT, USED, REJECT, RECALL, REMEMBER, STATUS, LIST, PURGE, VERIFY,
 READ, MANAGE) = range(1, 14)
HEAD = struct.Struct("<IHHIiII")
ANSWER = 0x8000
FOUND = struct.Struct("<2Q")
STEP = struct.Struct("<5Q")
# F_ADD_SEALS, and the seals against shrinking, growing and writing.
ADD_SEALS, SEALS = 1033, 2 | 4 | 8
COUNTERS = ("blocks bytes max_bytes free_bytes index_bytes segments clients pending_blocks "
            "pending_bytes found_blocks_total missed_blocks_total found_bytes_total "
            "taken_blocks_total refused_blocks_total written_blocks_total written_bytes_total "
            "failed_blocks_total evicted_blocks_total evicted_bytes_total rejected_blocks_total "
            "purged_blocks_total moved_bytes_total rebuilds_total malformed_total").split()

_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)


def xxh3(data):
    return _xxhash.XXH3_64bits(data, len(data))


def text(s, size):
    return s.encode().ljust(size, b"\0")


def origin(model="model", codec="f16/f16 cpu", tenant="", session=""):
    return text(model, 192) + text(codec, 64) + text(tenant, 64) + text(session, 128)


def memfd(data, seals=SEALS):
    fd = os.memfd_create("blocks", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    if seals:
        fcntl.fcntl(fd, ADD_SEALS, seals)
    return fd


def names(n, salt=0):
    return [struct.pack("<QQ16x", i + 1, salt) for i in range(n)]


class Answer:
    def __init__(self, data, fds):
        magic, self.version, kind, self.request, self.status, self.n, _ = HEAD.unpack_from(data)
        assert magic == MAGIC and kind & ANSWER
        self.type = kind & ~ANSWER
        self.body = data[HEAD.size:]
        self.fds = fds


class Client:
    """Represents one connection. With `greet=False` the client sends no hello packet."""

    def __init__(self, path, greet=True, timeout=20):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        self.request = 0
        if greet:
            answer = self.call(HELLO, struct.pack("<II", VERSION, VERSION) + text("test", 64))
            assert answer.status == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def head(self, kind, n=0, version=VERSION, status=0, zero=0):
        self.request += 1
        return HEAD.pack(MAGIC, version, kind, self.request, status, n, zero)

    def send(self, data, fds=()):
        self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                      array.array("i", fds).tobytes())] if fds else [])

    def receive(self):
        """Receives one packet; returns None at the end of the connection."""
        try:
            data, extra, flags, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(64 * 4))
        except ConnectionResetError:
            return None
        assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
        fds = array.array("i")
        for _, _, part in extra:
            fds.frombytes(part[:len(part) - len(part) % fds.itemsize])
        return Answer(data, list(fds)) if data else None

    def call(self, kind, body=b"", n=0, fds=()):
        self.send(self.head(kind, n) + body, fds)
        answer = self.receive()
        if answer:
            assert (answer.type, answer.request) == (kind, self.request)
        return answer

    def put(self, blocks, parent=None, first=0, **where):
        """Sends PUT with @blocks, pairs of a name and bytes. Returns how many the service
        took, or a negative errno."""
        body, offset = b"", 0
        parent = parent or bytes(32)
        for i, (name, data) in enumerate(blocks):
            body += name + parent + struct.pack("<4Q", first + i, offset, len(data), xxh3(data))
            offset += len(data)
            parent = name
        fd = memfd(b"".join(data for _, data in blocks))
        try:
            answer = self.call(PUT, origin(**where) + body, len(blocks), [fd])
        finally:
            os.close(fd)
        return answer.status or answer.n

    def find(self, wanted, **where):
        """Returns (size, checksum) of the leading blocks of @wanted that exist, or a negative
        errno."""
        answer = self.call(FIND, origin(**where) + b"".join(wanted), len(wanted))
        if answer.status:
            return answer.status
        assert not answer.fds and len(answer.body) == answer.n * FOUND.size
        return list(FOUND.iter_unpack(answer.body))

    def read(self, wanted, n_ahead=0):
        """Returns the pipe that delivers the blocks, or a negative errno."""
        answer = self.call(READ, struct.pack("<I", len(wanted) - n_ahead) + b"".join(wanted),
                           len(wanted))
        if answer.status:
            assert not answer.fds
            return answer.status
        assert len(answer.fds) == 1 and not answer.body
        return answer.fds[0]

    def get(self, wanted, **where):
        """Returns the bytes of the leading blocks of @wanted that exist, or a negative errno."""
        found = self.find(wanted, **where)
        if not isinstance(found, list) or not found:
            return found
        fd = self.read(wanted[:len(found)])
        if fd < 0:
            return fd
        os.set_blocking(fd, True)
        blocks = []
        with open(fd, "rb") as pipe:
            for size, total in found:
                blocks.append(pipe.read(size))
                assert xxh3(blocks[-1]) == total
            assert pipe.read() == b""
        return blocks

    def status(self):
        answer = self.call(STATUS)
        values = dict(zip(COUNTERS, struct.unpack_from("<%dQ" % answer.n, answer.body)))
        rest = answer.body[8 * answer.n:]
        values["directory"] = rest[:512].rstrip(b"\0").decode()
        values["problem"] = rest[512:].rstrip(b"\0").decode()
        return values

    def manage(self, lock):
        """Proves to the service that the caller can open the file `lock` of the directory. Returns
        0 or a negative errno."""
        fd = os.open(lock, os.O_RDWR)
        try:
            return self.call(MANAGE, fds=[fd]).status
        finally:
            os.close(fd)

    def steps(self, kind, body=b""):
        """Runs PURGE or VERIFY to its end; returns the numbers seen, blocks, bytes and total of the
        last answer."""
        step = bytes(STEP.size)
        while True:
            answer = self.call(kind, body + step)
            assert answer.status == 0, answer.status
            step = answer.body
            cursor, *rest = STEP.unpack(step)
            if not cursor:
                return rest
