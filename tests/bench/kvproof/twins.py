# SPDX-License-Identifier: Apache-2.0
"""Makes a twin of a model: the same configuration, names and shapes, but other weights, as a model
has after more training. A cache must not mistake one model for the other."""
import json
import shutil
import struct


def make_twin(path, twin):
    """Copies a model directory in Hugging Face layout to @twin, and exchanges the two halves of the
    rows of each matrix. Returns whether it could do so."""
    if not path.is_dir() or not list(path.glob("*.safetensors")):
        return False
    shutil.copytree(path, twin)
    for file in twin.glob("*.safetensors"):
        data = bytearray(file.read_bytes())
        exchange_rows(data)
        file.write_bytes(data)
    return True


def exchange_rows(data):
    n_head = struct.unpack_from("<Q", data)[0]
    for name, tensor in json.loads(data[8:8 + n_head]).items():
        if name == "__metadata__" or len(tensor["shape"]) != 2:
            continue
        begin, end = (8 + n_head + offset for offset in tensor["data_offsets"])
        row = (end - begin) // tensor["shape"][0]
        middle = begin + tensor["shape"][0] // 2 * row
        data[begin:end] = data[middle:end] + data[begin:middle]
