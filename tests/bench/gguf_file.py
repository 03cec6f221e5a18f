# SPDX-License-Identifier: Apache-2.0
"""Writes GGUF files with Python's standard library alone, as fast as the disk can write."""
import struct

ALIGNMENT = 32
# name → (number in the file, elements of a block, bytes of a block)
TYPES = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "BF16": (30, 1, 2), "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17), "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74),
    "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50), "IQ3_S": (21, 256, 110),
    "IQ2_S": (22, 256, 82), "IQ1_M": (29, 256, 56),
    "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "IQ4_NL": (20, 32, 18),
    "IQ4_XS": (23, 256, 136), "NVFP4": (40, 64, 36), "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18),
}
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9


def row_bytes(kind, cols):
    _, elems, size = TYPES[kind]
    if cols % elems:
        raise ValueError("%d elements are not a whole row of %s" % (cols, kind))
    return cols // elems * size


def text(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


class GgufWriter:
    """Collects keys and tensors, then writes them in one pass. During this pass, a function for
    each tensor writes the bytes of the tensor."""

    def __init__(self):
        self.keys = []
        self.tensors = []

    def add(self, key, kind, data):
        self.keys.append(text(key) + struct.pack("<I", kind) + data)

    def add_uint(self, key, value):
        self.add(key, UINT32, struct.pack("<I", value))

    def add_float(self, key, value):
        self.add(key, FLOAT32, struct.pack("<f", value))

    def add_bool(self, key, value):
        self.add(key, BOOL, struct.pack("<?", value))

    def add_string(self, key, value):
        self.add(key, STRING, text(value))

    def add_strings(self, key, values):
        self.add(key, ARRAY, struct.pack("<IQ", STRING, len(values)) + b"".join(map(text, values)))

    def add_ints(self, key, values):
        self.add(key, ARRAY, struct.pack("<IQ%di" % len(values), INT32, len(values), *values))

    def add_floats(self, key, values):
        self.add(key, ARRAY, struct.pack("<IQ%df" % len(values), FLOAT32, len(values), *values))

    def add_bools(self, key, values):
        self.add(key, ARRAY, struct.pack("<IQ%d?" % len(values), BOOL, len(values), *values))

    def add_tensor(self, name, kind, rows, cols, write, depth=0):
        """Adds a tensor. @write(file) writes its rows × row_bytes(kind, cols) bytes. Vectors have
        one row. With @depth, the tensor has a third dimension: it is a stack of @depth matrices of
        @rows / @depth rows."""
        if depth:
            shape = (cols, rows // depth, depth)
        else:
            shape = (cols,) if rows == 1 else (cols, rows)
        self.tensors.append((name, kind, shape, rows * row_bytes(kind, cols), write))

    def head(self):
        infos, offset = [], 0
        for name, kind, shape, size, _ in self.tensors:
            infos.append(text(name) + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape,
                                                  TYPES[kind][0], offset))
            offset += -(-size // ALIGNMENT) * ALIGNMENT
        return (b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)) +
                b"".join(self.keys) + b"".join(infos))

    def write(self, path):
        with open(path, "wb", buffering=0) as f:
            f.write(self.head())
            for name, _, _, size, write in self.tensors:
                f.write(bytes(-f.tell() % ALIGNMENT))
                begin = f.tell()
                write(f)
                if f.tell() - begin != size:
                    raise ValueError("%s has %d bytes" % (name, f.tell() - begin))
            f.write(bytes(-f.tell() % ALIGNMENT))
