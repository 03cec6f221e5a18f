#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model and a draft model whose drafts are accepted as often as wanted.

    make_model.py --shape qwen3-4b --untied --type Q4_0 TARGET.gguf
    make_pair.py TARGET.gguf DRAFT.gguf --layers 1 --disturb 0.01
    make_pair.py TARGET.gguf --mtp --disturb 0.01

The draft model gets the first layers of the model, and its norm and head. All layers take as much
time as before, but their results become 0, except those of the first layer that only the model has:
they are multiplied by --disturb. With 0 the draft model is always right, and the larger the factor,
the more often it is wrong. So that texts do not run in circles, the head is made of the rows of the
embedding: after each token, the next one in the vocabulary is the most likely, unless that layer
disturbs this. The model needs a head of its own (--untied). It is changed in place. A further call
with another factor replaces the factor of the call before, which the draft model remembers.

With --mtp the model must have a layer that predicts a further token (make_model.py --mtp). This layer
gets the embedding of the token unchanged, so it is right like such a draft model; with --wrong it gets
the columns of the embedding in another order, so it is never right. The first layer is the one that
disturbs, unless --layers says otherwise. The factor is remembered in the file TARGET.gguf.disturb.
Needs the Python package gguf.
"""
import argparse
import os
import pathlib
import re

import numpy
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

# The offsets of the float16 scales in a block.
SCALES = {"Q4_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = {"Q4_0": 18, "Q8_0": 34, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
# The results of a layer, which are added to its input.
RESULTS = re.compile(r"blk\.(\d+)\.(attn_output|ssm_out|ffn_down)\.weight")
FACTOR = "sconce.pair.disturb"


def multiply(tensor, factor):
    kind = GGMLQuantizationType(tensor.tensor_type).name
    if kind == "F32" or kind == "F16":
        tensor.data *= tensor.data.dtype.type(factor)
        return
    data = tensor.data.reshape(-1)
    for at in SCALES[kind]:
        low, high = data[at::BLOCKS[kind]], data[at + 1::BLOCKS[kind]]
        scales = numpy.stack([low, high], 1).copy().view(numpy.float16).astype(numpy.float32)
        raw = (scales * factor).astype(numpy.float16).view(numpy.uint8)
        low[:], high[:] = raw[:, 0], raw[:, 1]


def copy_field(writer, field):
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        return
    kind = field.types[0]
    part = field.types[-1] if kind == GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), kind, sub_type=part)


def write_draft(reader, path, n_layers, factor):
    arch = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(path, arch)
    for field in reader.fields.values():
        if field.name.endswith(".block_count"):
            writer.add_uint32(field.name, n_layers)
        else:
            copy_field(writer, field)
    writer.add_float64(FACTOR, factor)
    for tensor in reader.tensors:
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        if not layer or int(layer[1]) < n_layers:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def join_embedding(tensor, shift):
    """Makes the matrix that joins an embedding and a hidden state, in Q4_0, return the embedding,
    with its columns moved by @shift."""
    if GGMLQuantizationType(tensor.tensor_type).name != "Q4_0":
        raise SystemExit("--mtp needs a model in Q4_0")
    n = tensor.data.shape[0]
    blocks = tensor.data.reshape(n, 2 * n // 32, BLOCKS["Q4_0"])
    blocks[:] = 0
    blocks[:, :, 2:] = 0x88  # zeros
    scale = numpy.array([1 / 7], numpy.float16).view(numpy.uint8)
    for row in range(n):
        col = (row + shift) % n
        block = blocks[row, col // 32]
        block[:2] = scale
        at = 2 + col % 16
        block[at] = 0x8f if col % 32 < 16 else 0xf8


def main():
    p = argparse.ArgumentParser(description="a model and a draft model")
    p.add_argument("target")
    p.add_argument("draft", nargs="?")
    p.add_argument("--layers", type=int, help="layers of the draft model (default: 1, with --mtp 0)")
    p.add_argument("--mtp", action="store_true", help="the model's own layer drafts")
    p.add_argument("--wrong", action="store_true", help="the layer is never right")
    p.add_argument("--disturb", type=float, default=0.01,
                   help="factor of the results of the next layer (default: 0.01)")
    args = p.parse_args()
    if args.mtp == (args.draft is not None):
        p.error("either a draft model or --mtp")
    layers = args.layers if args.layers is not None else 0 if args.mtp else 1
    note = pathlib.Path(args.target + ".disturb")
    anew = not (note.exists() if args.mtp else os.path.exists(args.draft))
    before = 1.0
    if not anew:
        before = (float(note.read_text()) if args.mtp
                  else GGUFReader(args.draft).fields[FACTOR].contents())
    reader = GGUFReader(args.target, "r+")
    tensors = {t.name: t for t in reader.tensors}
    if anew:
        tensors["output.weight"].data[1:] = tensors["token_embd.weight"].data[:-1]
    for tensor in reader.tensors:
        found = RESULTS.fullmatch(tensor.name)
        if found and int(found[1]) == layers:
            multiply(tensor, args.disturb / before)
        elif found and anew:
            multiply(tensor, 0)
    if not args.mtp:
        write_draft(reader, args.draft, layers, args.disturb)
        return
    for name, tensor in tensors.items():
        if name.endswith(".nextn.eh_proj.weight"):
            join_embedding(tensor, 1 if args.wrong else 0)
    note.write_text("%r\n" % args.disturb)


if __name__ == "__main__":
    main()
