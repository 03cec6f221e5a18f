#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model and a draft model whose drafts are accepted as often as wanted.

    make_model.py --shape qwen3-4b --untied --type Q4_0 TARGET.gguf
    make_pair.py TARGET.gguf DRAFT.gguf --layers 1 --disturb 0.01

The draft model gets the first layers of the model, and its norm and head. All layers take as much
time as before, but their results become 0, except those of the first layer that only the model has:
they are multiplied by --disturb. With 0 the draft model is always right, and the larger the factor,
the more often it is wrong. So that texts do not run in circles, the head is made of the rows of the
embedding: after each token, the next one in the vocabulary is the most likely, unless that layer
disturbs this. The model needs a head of its own (--untied). It is changed in place. A further call with another factor replaces
the factor of the call before, which the draft model remembers. Needs the Python package gguf.
"""
import argparse
import os
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


def main():
    p = argparse.ArgumentParser(description="a model and a draft model")
    p.add_argument("target")
    p.add_argument("draft")
    p.add_argument("--layers", type=int, default=1, help="layers of the draft model (default: 1)")
    p.add_argument("--disturb", type=float, default=0.01,
                   help="factor of the results of the next layer (default: 0.01)")
    args = p.parse_args()
    anew = not os.path.exists(args.draft)
    before = 1.0 if anew else GGUFReader(args.draft).fields[FACTOR].contents()
    reader = GGUFReader(args.target, "r+")
    tensors = {t.name: t for t in reader.tensors}
    if anew:
        tensors["output.weight"].data[1:] = tensors["token_embd.weight"].data[:-1]
    for tensor in reader.tensors:
        found = RESULTS.fullmatch(tensor.name)
        if found and int(found[1]) == args.layers:
            multiply(tensor, args.disturb / before)
        elif found and anew:
            multiply(tensor, 0)
    write_draft(reader, args.draft, args.layers, args.disturb)


if __name__ == "__main__":
    main()
