# SPDX-License-Identifier: Apache-2.0
"""Tests that directories of mlx-community work in the embed and the chat service: vectors and texts
are those of the same weights in F32."""
import json
import shutil
import struct

import numpy
import pytest

from conftest import ROOT, Suite, check_log
from test_embed import post, vectors

MODEL = ROOT / "tests/golden/models/mlx-qwen3-6bit"
TEXTS = ["ABCDEFG", "the quick brown fox".replace(" ", "_").upper(), "1234567890" * 4]


def read_tensors(path):
    """Returns the tensors of a safetensors file; those in BF16 as floats."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            x = (numpy.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            x = numpy.frombuffer(raw, {"U32": "<u4", "F16": "<f2", "F32": "<f4"}[t["dtype"]])
        tensors[name] = x.reshape(t["shape"])
    return tensors


def decode(codes, scales, offsets, bits):
    """Decodes a matrix whose codes are a stream of bits in each row."""
    stream = numpy.unpackbits(codes.view("u1"), axis=1, bitorder="little")
    q = stream.reshape(len(codes), -1, bits) @ (1 << numpy.arange(bits))
    group = q.shape[1] // scales.shape[1]
    spread = [numpy.repeat(x.astype("f4"), group, 1) for x in (scales, offsets)]
    return spread[0] * q.astype("f4") + spread[1]


def write_floats(source, target):
    """Copies a directory of MLX with its weights as F32."""
    shutil.copytree(source, target)
    tensors = read_tensors(source / "model.safetensors")
    config = json.loads((source / "config.json").read_text())
    how = config.pop("quantization")
    del config["quantization_config"]
    floats = {}
    for name, x in tensors.items():
        stem = name.rpartition(".")[0]
        if stem + ".scales" in tensors:
            if name.endswith(".weight"):
                bits = (how.get(stem) or how)["bits"]
                x = decode(x, tensors[stem + ".scales"], tensors[stem + ".biases"], bits)
            else:
                continue
        floats[name] = x.astype("<f4")
    head, at = {}, 0
    for name, x in floats.items():
        head[name] = {"dtype": "F32", "shape": x.shape, "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    head = json.dumps(head).encode()
    (target / "model.safetensors").write_bytes(
        struct.pack("<Q", len(head)) + head + b"".join(x.tobytes() for x in floats.values()))
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
        assert numpy.dot(got, want) > 0.998


def test_texts_are_those_of_the_weights_in_f32(suite):
    for prompt in TEXTS:
        answers = [post(suite, "/v1/completions", {
            "model": name, "prompt": prompt, "max_tokens": 12, "temperature": 0})[1]
            for name in ("tiny", "floats")]
        texts = [a["choices"][0]["text"] for a in answers]
        assert texts[0] == texts[1] and texts[0]
