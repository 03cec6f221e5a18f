# SPDX-License-Identifier: Apache-2.0
"""Tests that directories of mlx-community work in the embed and the chat service: vectors and texts
are those of the same weights in F32."""
import array
import json
import shutil
import struct

import pytest

from conftest import ROOT, Suite, check_log
from test_embed import post, vectors

MODEL = ROOT / "tests/golden/models/mlx-qwen3-6bit"
TEXTS = ["ABCDEFG", "the quick brown fox".replace(" ", "_").upper(), "1234567890" * 4]


def numbers(raw, dtype):
    """Returns the numbers of a tensor as a list."""
    if dtype == "BF16":
        words = struct.unpack("<%dH" % (len(raw) // 2), raw)
        raw = struct.pack("<%dI" % len(words), *(w << 16 for w in words))
        dtype = "F32"
    code, size = {"U32": ("I", 4), "F16": ("e", 2), "F32": ("f", 4)}[dtype]
    return struct.unpack("<%d%s" % (len(raw) // size, code), raw)


def read_tensors(path):
    """Returns {name: (shape, numbers)} of a safetensors file."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = (8 + n + at for at in t["data_offsets"])
            tensors[name] = t["shape"], numbers(data[begin:end], t["dtype"])
    return tensors


def decode(codes, scales, offsets, bits):
    """Decodes a matrix whose codes are a stream of bits in each row."""
    (n_rows, n_words), words = codes
    n_cols, n_groups = n_words * 32 // bits, scales[0][1]
    group = n_cols // n_groups
    floats = []
    for row in range(n_rows):
        stream = sum(w << 32 * i for i, w in enumerate(words[row * n_words:(row + 1) * n_words]))
        for col in range(n_cols):
            at = row * n_groups + col // group
            q = stream >> col * bits & (1 << bits) - 1
            floats.append(scales[1][at] * q + offsets[1][at])
    return (n_rows, n_cols), floats


def write_floats(source, target):
    """Copies a directory of MLX with its weights as F32."""
    shutil.copytree(source, target)
    tensors = read_tensors(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    how = config.pop("quantization")
    del config["quantization_config"]
    head, data = {}, b""
    for name, tensor in tensors.items():
        stem = name.rpartition(".")[0]
        if stem + ".scales" in tensors:
            if not name.endswith(".weight"):
                continue
            bits = (how.get(stem) or how)["bits"]
            tensor = decode(tensor, tensors[stem + ".scales"], tensors[stem + ".biases"], bits)
        raw = array.array("f", tensor[1]).tobytes()
        head[name] = {"dtype": "F32", "shape": tensor[0],
                      "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(head).encode()
    (target / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    (target / "config.json").write_text(json.dumps(config))


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    shutil.copytree(MODEL, path / "tiny")
    write_floats(MODEL, path / "floats")
    suite = Suite(path)
    yield suite
    check_log(suite.close())


def test_vectors_are_those_of_the_weights_in_f32(suite):
    for got, want in zip(vectors(suite, input=TEXTS, model="tiny"),
                         vectors(suite, input=TEXTS, model="floats")):
        assert sum(a * b for a, b in zip(got, want)) > 0.998


def test_texts_are_those_of_the_weights_in_f32(suite):
    for prompt in TEXTS:
        answers = [post(suite, "/v1/completions", {
            "model": name, "prompt": prompt, "max_tokens": 12, "temperature": 0})[1]
            for name in ("tiny", "floats")]
        texts = [a["choices"][0]["text"] for a in answers]
        assert texts[0] == texts[1] and texts[0]
