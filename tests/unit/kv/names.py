# SPDX-License-Identifier: Apache-2.0
"""Computes names of KV blocks by the definition in libinfer/kv/prefix.h; prints the names for
test-prefix.c."""
import hashlib
import struct


def part(data):
    return struct.pack("<Q", len(data)) + data


def origin(model, numbers, device, isa, block_tokens):
    return hashlib.sha256(part(b"sconce kv 2") + model + part(numbers) + part(device) + part(isa) +
                          struct.pack("<I", block_tokens)).digest()


def root(name, tenant, salt):
    return hashlib.sha256(name + part(tenant) + part(salt)).digest()


def blocks(parent, tokens, block_tokens):
    for i in range(0, len(tokens), block_tokens):
        parent = hashlib.sha256(parent + struct.pack("<%di" % block_tokens, *tokens[i:i + block_tokens])).digest()
        yield parent


def group(name, number):
    return hashlib.sha256(name + b"group" + struct.pack("<I", number)).digest()


if __name__ == "__main__":
    of = origin(bytes([7]) + bytes(31), b"f16", b"cpu", b"avx2", 4)
    top = root(of, b"uid 1000", b"pepper")
    names = [of, top, *blocks(top, [1, 2, 3, 4, 5, 6, 7, 151643], 4), root(of, b"", b"")]
    names.append(group(names[3], 2))
    print("\n".join(name.hex() for name in names))
