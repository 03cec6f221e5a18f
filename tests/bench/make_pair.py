#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a model and a draft model whose drafts are accepted as often as wanted.

    make_model.py --shape qwen3-4b --untied --type Q4_0 TARGET.gguf
    make_pair.py TARGET.gguf DRAFT.gguf --layers 1 --disturb 0.01
    make_pair.py TARGET.gguf --mtp --disturb 0.01
    make_pair.py TARGET.gguf HEAD.gguf --eagle3 --disturb 0.01
    make_pair.py TARGET.gguf HEAD.gguf --dflash --disturb 0.01
    make_pair.py GEMMA4.gguf ASSISTANT.gguf --assistant --disturb 1

The draft model gets the first layers of the model, and its norm and head. All layers take as much
time as before, but their results become 0, except those of the first layer that only the model has:
they are multiplied by --disturb. With 0 the draft model is always right, and the larger the factor,
the more often it is wrong. So that texts do not run in circles, the head is made of the rows of the
embedding: after each token, the next one in the vocabulary is the most likely, unless that layer
disturbs this. The model needs a head of its own (--untied). It is changed in place. A further call
with another factor replaces the factor of the call before, which the draft model remembers.

With --mtp the model must have a layer that predicts a further token (make_model.py --mtp). This layer gets
the embedding of the token unchanged, so it is right as often as such a draft model; with --wrong it gets
the columns of the embedding in another order, so it is never right. The first layer is the one that
disturbs, unless --layers says otherwise. The factor is remembered in the file TARGET.gguf.disturb.

With --eagle3 the file is a draft head of EAGLE-3 with the shape of the model's layers and half of its
tokens. Its queries and keys are the embedding of the token, so each row attends to itself; its values and
its result are this embedding, too, so it is right as often as such a draft model, or with --wrong never.
The heads of keys must have the width of the model together, as in Qwen3-0.6B.

With --dflash the file is a draft head of DFlash with 5 layers of the model's shape. The embedding of the
model is replaced: each pair of its columns is a sine and a cosine of the token, so a rotation of the pairs
leads from a token to the next one. The heads of the first layer find the newest token of the text by its
distance: head h reads it only from the row h + 1 places after it, and its result is the embedding, rotated
h times. So all drafted tokens are right as often as those of such a draft model, or with --wrong never. The
model must be in Q4_0, with at least 15 heads of 128, as Qwen3-0.6B.

With --assistant the model must be of the shape of Gemma 4 (make_model.py --shape gemma4-e2b --untied), and
the file is an assistant of the shape of that of Gemma 4 E2B. The part of its input that comes from the
token is the beginning of the model's embedding, its layers change nothing, and its head has the rows of
this embedding, so it is right as often as such a draft model, or with --wrong never. Norms follow the
matrices in the layers of the model, so --disturb is a factor of these norms; useful factors are near 1.
With --clusters N the tokens are divided into N clusters, each with the sum of its rows as its centroid; the
assistant is then also wrong where the sums lead to other clusters, the more often the larger the clusters
are.

Needs the Python package gguf.
"""
import argparse
import os
import pathlib
import re

import numpy
from gguf import (GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter,
                  dequantize)
from gguf.quants import quantize

# The offsets of the float16 scales in a block.
SCALES = {"Q4_0": [0], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
BLOCKS = {"Q4_0": 18, "Q8_0": 34, "Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
# The results of a layer, which are added to its input.
RESULTS = re.compile(r"blk\.(\d+)\.(attn_output|ssm_out|ffn_down)\.weight")
# The norms of such results in models of Gemma 4.
NORMS = re.compile(r"blk\.(\d+)\.(post_attention_norm|post_ffw_norm|post_norm)\.weight")
FACTOR = "sconce.pair.disturb"
# The assistant of Gemma 4 E2B: width, heads, feed-forward width, and layers with a window.
WIDTH, HEADS, FF, WINDOWS = 256, 4, 2048, [True, True, True, False]


def multiply(tensor, factor):
    kind = GGMLQuantizationType(tensor.tensor_type).name
    if kind == "F32" or kind == "F16":
        tensor.data[:] *= tensor.data.dtype.type(factor)
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


def selection(rows, cols, pick, value):
    """Returns a matrix in Q4_0 with one number in each row: @value in the column pick(row)."""
    blocks = numpy.zeros((rows, cols // 32, BLOCKS["Q4_0"]), numpy.uint8)
    blocks[:, :, 2:] = 0x88
    for row in range(rows):
        col = pick(row)
        block = blocks[row, col // 32]
        block[:2] = numpy.array([value / 7], numpy.float16).view(numpy.uint8)
        block[2 + col % 16] = 0x8f if col % 32 < 16 else 0xf8
    return blocks.reshape(rows, -1)


def noise(rng, rows, cols, std):
    """Returns a random matrix in Q4_0."""
    blocks = rng.integers(0, 256, (rows, cols // 32, BLOCKS["Q4_0"]), numpy.uint8)
    blocks[:, :, :2] = numpy.array([std / 4.6], numpy.float16).view(numpy.uint8)
    return blocks.reshape(rows, -1)


def write_head(reader, path, factor, wrong):
    """Writes a draft head of EAGLE-3."""
    arch = reader.fields["general.architecture"].contents()
    value = {f.name.replace(arch + ".", ""): f for f in reader.fields.values()}
    n_layers, width, ff, heads, kv_heads, size = (
        value[k].contents() for k in ("block_count", "embedding_length", "feed_forward_length",
                                      "attention.head_count", "attention.head_count_kv",
                                      "attention.key_length"))
    if kv_heads * size != width:
        raise SystemExit("the heads of keys do not have the width of the model together")
    tensors = {t.name: t for t in reader.tensors}
    head = tensors["output.weight"]
    n_tokens = head.data.shape[0] // 2
    rng = numpy.random.default_rng(5)
    writer = GGUFWriter(path, "eagle3")
    for name, field in value.items():
        if name.startswith("tokenizer.") or name == "general.name":
            copy_field(writer, field)
    for key in ("embedding_length", "feed_forward_length", "attention.head_count", "vocab_size",
                "context_length", "attention.head_count_kv", "attention.key_length",
                "attention.value_length", "rope.dimension_count"):
        writer.add_uint32("eagle3." + key, value[key].contents())
    writer.add_uint32("eagle3.block_count", 1)
    writer.add_uint32("eagle3.target_hidden_size", width)
    writer.add_array("eagle3.target_layers", [2, n_layers // 2, n_layers - 3])
    writer.add_bool("eagle3.norm_before_residual", True)
    writer.add_float32("eagle3.rope.freq_base", 10000.0)
    writer.add_float32("eagle3.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float64(FACTOR, factor)
    q4 = GGMLQuantizationType.Q4_0
    shift = 1 if wrong else 0
    group = heads // kv_heads
    matrices = {
        "fc": noise(rng, width, 3 * width, width ** -0.5),
        "output": head.data[:n_tokens],
        "blk.0.attn_q": selection(heads * size, 2 * width,
                                  lambda r: r // size // group * size + r % size, 2),
        "blk.0.attn_k": selection(width, 2 * width, lambda r: r, 1),
        "blk.0.attn_v": selection(width, 2 * width, lambda r: (r + shift) % width, 1),
        "blk.0.attn_output": selection(width, heads * size,
                                       lambda r: r // size * group * size + r % size, 1),
        "blk.0.ffn_gate": noise(rng, ff, width, width ** -0.5),
        "blk.0.ffn_up": noise(rng, ff, width, width ** -0.5),
        "blk.0.ffn_down": noise(rng, width, ff, 0),
    }
    for name, data in matrices.items():
        writer.add_tensor(name + ".weight", data,
                          raw_dtype=GGMLQuantizationType(head.tensor_type) if name == "output" else q4)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(name + ".weight", numpy.ones(width, numpy.float32))
    writer.add_tensor("blk.0.attn_norm_2.weight", numpy.zeros(width, numpy.float32))
    writer.add_tensor("d2t", numpy.arange(n_tokens, dtype=numpy.int64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def last(value, windows, window):
    """Returns the item of @value, a number or a list, of the last layer with or without a window."""
    if not isinstance(value, list):
        return value
    return [v for v, w in zip(value, windows) if w == window][-1]


def write_assistant(reader, path, factor, wrong, n_clusters):
    """Writes an assistant of Gemma 4."""
    value = {f.name.replace("gemma4.", ""): f.contents() for f in reader.fields.values()}
    wide, windows = value["embedding_length"], value["attention.sliding_window_pattern"]
    sizes = {True: value["attention.key_length_swa"], False: value["attention.key_length"]}
    tensors = {t.name: t for t in reader.tensors}
    table = tensors["token_embd.weight"]
    kind = GGMLQuantizationType(table.tensor_type)
    n_elems, n_bytes = GGML_QUANT_SIZES[kind]
    n_tokens, n_layers, rng = table.data.shape[0], len(WINDOWS), numpy.random.default_rng(5)
    head = table.data.view(numpy.uint8).reshape(n_tokens, -1)[:, :WIDTH // n_elems * n_bytes].copy()
    if not wrong:
        head[1:] = head[:-1].copy()
    arch = "gemma4-assistant"
    writer = GGUFWriter(path, arch)
    for field in reader.fields.values():
        if field.name.startswith("tokenizer.") or field.name == "general.name":
            copy_field(writer, field)
    for key, number in {
            "block_count": n_layers, "nextn_predict_layers": n_layers, "embedding_length": WIDTH,
            "embedding_length_out": wide, "feed_forward_length": FF, "vocab_size": n_tokens,
            "context_length": value["context_length"], "attention.head_count": HEADS,
            "attention.shared_kv_layers": n_layers, "attention.key_length": sizes[False],
            "attention.value_length": sizes[False], "attention.key_length_swa": sizes[True],
            "attention.value_length_swa": sizes[True], "rope.dimension_count": sizes[False],
            "rope.dimension_count_swa": sizes[True],
            "attention.sliding_window": value["attention.sliding_window"]}.items():
        writer.add_uint32(f"{arch}.{key}", number)
    writer.add_array(arch + ".attention.head_count_kv",
                     [last(value["attention.head_count_kv"], windows, w) for w in WINDOWS])
    writer.add_array(arch + ".attention.sliding_window_pattern", WINDOWS)
    for key in ("rope.freq_base", "rope.freq_base_swa", "attention.layer_norm_rms_epsilon"):
        writer.add_float32(f"{arch}.{key}", value[key])
    writer.add_float64(FACTOR, factor)
    q4 = GGMLQuantizationType.Q4_0
    matrices = {"nextn.pre_projection": selection(WIDTH, 2 * wide, lambda r: r, 1),
                "nextn.post_projection": noise(rng, wide, WIDTH, WIDTH ** -0.5)}
    vectors = {"rope_freqs": tensors["rope_freqs.weight"].data, "output_norm": numpy.ones(WIDTH)}
    for i, window in enumerate(WINDOWS):
        p, size = f"blk.{i}.", sizes[window]
        matrices |= {p + "attn_q": noise(rng, HEADS * size, WIDTH, WIDTH ** -0.5),
                     p + "attn_output": noise(rng, WIDTH, HEADS * size, (HEADS * size) ** -0.5),
                     p + "ffn_gate": noise(rng, FF, WIDTH, WIDTH ** -0.5),
                     p + "ffn_up": noise(rng, FF, WIDTH, WIDTH ** -0.5),
                     p + "ffn_down": noise(rng, WIDTH, FF, FF ** -0.5)}
        vectors |= {p + "attn_norm": numpy.ones(WIDTH), p + "ffn_norm": numpy.ones(WIDTH),
                    p + "attn_q_norm": numpy.full(size, size ** -0.25),
                    p + "post_attention_norm": numpy.zeros(WIDTH),
                    p + "post_ffw_norm": numpy.zeros(WIDTH),
                    p + "layer_output_scale": numpy.ones(1)}
    for name, data in matrices.items():
        writer.add_tensor(name + ".weight", data, raw_dtype=q4)
    for name, data in vectors.items():
        writer.add_tensor(name + ".weight", data.astype(numpy.float32))
    writer.add_tensor("token_embd.weight", head, raw_dtype=kind)
    if n_clusters:
        sums = dequantize(head, kind).reshape(n_clusters, -1, WIDTH).sum(1)
        writer.add_tensor("masked_embd_centroids.weight", sums.astype(numpy.float32))
        writer.add_tensor("masked_embd_ordering", numpy.arange(n_tokens, dtype=numpy.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Draft heads of DFlash: the tokens of a block, the first column of the embedding with sines, and the
# pairs of sines that a head reads. Column 0 of the embedding is the same in all tokens, and column 1 is
# only in the mask, which is the last token.
BLOCK, FIRST, PAIRS = 16, 32, 64
# Pairs of a head that the rotation turns fast, and how strongly rows with a mask attend to masks.
FAST, SINK = 8, 2.52


def turning_rows(tokens, width):
    """Returns the embedding of tokens."""
    speed = numpy.random.default_rng(7).uniform(0, 2 * numpy.pi, (width - FIRST) // 2)
    angle = tokens[:, None] * speed[None]
    rows = numpy.zeros((len(tokens), width), numpy.float32)
    rows[:, 0] = 4
    rows[:, FIRST::2], rows[:, FIRST + 1::2] = numpy.cos(angle), numpy.sin(angle)
    return rows


def turn_embedding(tensor):
    """Replaces the embedding."""
    q4 = GGMLQuantizationType.Q4_0
    if GGMLQuantizationType(tensor.tensor_type) != q4:
        raise SystemExit("--dflash needs a model in Q4_0")
    n, width = tensor.data.shape[0], int(tensor.shape[0])
    for first in range(0, n, 4096):
        tokens = numpy.arange(first, min(first + 4096, n))
        tensor.data[first:first + 4096] = quantize(turning_rows(tokens, width), q4)
    mask = numpy.zeros((1, width), numpy.float32)
    mask[0, 1] = 1
    tensor.data[n - 1] = quantize(mask, q4)[0]


def reading_layer(width, heads, kv_heads, size, theta, wrong):
    """Returns the matrices and the norms of heads of the layer that finds the newest token."""
    speed = numpy.random.default_rng(7).uniform(0, 2 * numpy.pi, (width - FIRST) // 2)[:PAIRS]
    turn = theta ** (-2 * numpy.arange(FAST) / size)
    q = numpy.zeros((heads, size, width), numpy.float32)
    k, v = (numpy.zeros((kv_heads, size, width), numpy.float32) for _ in range(2))
    out = numpy.zeros((width, heads, size), numpy.float32)
    k[:, :FAST, 0] = 1
    k[:, size // 2 - 1, 1] = 1
    v[:, numpy.arange(2 * PAIRS), FIRST + numpy.arange(2 * PAIRS)] = 1
    for h in range(heads):
        q[h, :FAST, 1], q[h, size // 2:size // 2 + FAST, 1] = numpy.cos((h + 1) * turn), \
            -numpy.sin((h + 1) * turn)
        q[h, size // 2 - 1, 1] = SINK
        angle = speed * (h + (7 if wrong else 0))
        even, odd = numpy.arange(0, 2 * PAIRS, 2), numpy.arange(1, 2 * PAIRS, 2)
        out[FIRST + even, h, even], out[FIRST + even, h, odd] = numpy.cos(angle), -numpy.sin(angle)
        out[FIRST + odd, h, even], out[FIRST + odd, h, odd] = numpy.sin(angle), numpy.cos(angle)
    return {"attn_q": q.reshape(-1, width), "attn_k": k.reshape(-1, width),
            "attn_v": v.reshape(-1, width), "attn_output": out.reshape(width, -1)}


def write_blocks(reader, path, factor, wrong):
    """Writes a draft head of DFlash."""
    arch = reader.fields["general.architecture"].contents()
    value = {f.name.replace(arch + ".", ""): f for f in reader.fields.values()}
    n_layers, width, ff, heads, kv_heads, size = (
        value[k].contents() for k in ("block_count", "embedding_length", "feed_forward_length",
                                      "attention.head_count", "attention.head_count_kv",
                                      "attention.key_length"))
    if heads < BLOCK - 1 or size != 2 * PAIRS:
        raise SystemExit("the model needs at least 15 heads of 128")
    n_own, theta, rng, q4 = 5, 10000.0, numpy.random.default_rng(5), GGMLQuantizationType.Q4_0
    writer = GGUFWriter(path, "dflash")
    for name, field in value.items():
        if name.startswith("tokenizer.") or name == "general.name":
            copy_field(writer, field)
    for key in ("embedding_length", "feed_forward_length", "attention.head_count", "vocab_size",
                "context_length", "attention.head_count_kv", "attention.key_length",
                "attention.value_length", "rope.dimension_count"):
        writer.add_uint32("dflash." + key, value[key].contents())
    writer.add_uint32("dflash.block_count", n_own)
    writer.add_uint32("dflash.block_size", BLOCK)
    writer.add_array("dflash.target_layers", [2 + i * (n_layers - 4) // 4 for i in range(5)])
    writer.add_float32("dflash.rope.freq_base", theta)
    writer.add_float32("dflash.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_uint32("tokenizer.ggml.mask_token_id", value["vocab_size"].contents() - 1)
    writer.add_float64(FACTOR, factor)

    def add(name, data, kind=q4):
        writer.add_tensor(name + ".weight", data, raw_dtype=kind)

    add("fc", noise(rng, width, 5 * width, width ** -0.5))
    reading = reading_layer(width, heads, kv_heads, size, theta, wrong)
    for i in range(n_own):
        shapes = {"attn_q": (heads * size, width), "attn_k": (kv_heads * size, width),
                  "attn_v": (kv_heads * size, width), "attn_output": (width, heads * size),
                  "ffn_gate": (ff, width), "ffn_up": (ff, width), "ffn_down": (width, ff)}
        for name, (rows, cols) in shapes.items():
            std = 0 if name in ("attn_output", "ffn_down") else width ** -0.5
            add(f"blk.{i}.{name}", quantize(reading[name], q4) if i == 0 and name in reading
                else noise(rng, rows, cols, std))
        for name, n in (("attn_norm", width), ("ffn_norm", width), ("attn_q_norm", size),
                        ("attn_k_norm", size)):
            weight = numpy.full(n, 16 if name == "attn_q_norm" else 1, numpy.float32)
            add(f"blk.{i}.{name}", weight, None)
    add("output_norm", numpy.ones(width, numpy.float32), None)
    add("enc.output_norm", numpy.zeros(width, numpy.float32), None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    p = argparse.ArgumentParser(description="a model and a draft model")
    p.add_argument("target")
    p.add_argument("draft", nargs="?")
    p.add_argument("--layers", type=int,
                   help="layers of the draft model (default: 1, or 0 with --mtp and heads)")
    p.add_argument("--mtp", action="store_true", help="the model's own layer drafts")
    p.add_argument("--eagle3", action="store_true", help="the draft model is a draft head of EAGLE-3")
    p.add_argument("--dflash", action="store_true", help="the draft model is a draft head of DFlash")
    p.add_argument("--assistant", action="store_true", help="the draft model is an assistant of Gemma 4")
    p.add_argument("--clusters", type=int, metavar="N", help="clusters of the tokens of an assistant")
    p.add_argument("--wrong", action="store_true", help="the layer is never right")
    p.add_argument("--disturb", type=float, default=0.01,
                   help="factor of the results of the next layer (default: 0.01)")
    args = p.parse_args()
    if args.mtp == (args.draft is not None):
        p.error("either a draft model or --mtp")
    first = 0 if args.mtp or args.eagle3 or args.dflash or args.assistant else 1
    layers = args.layers if args.layers is not None else first
    results = NORMS if args.assistant else RESULTS
    note = pathlib.Path(args.target + ".disturb")
    anew = not (note.exists() if args.mtp else os.path.exists(args.draft))
    before = 1.0
    if not anew:
        before = (float(note.read_text()) if args.mtp
                  else GGUFReader(args.draft).fields[FACTOR].contents())
    reader = GGUFReader(args.target, "r+")
    tensors = {t.name: t for t in reader.tensors}
    if anew and args.dflash:
        turn_embedding(tensors["token_embd.weight"])
    if anew:
        tensors["output.weight"].data[1:] = tensors["token_embd.weight"].data[:-1]
    for tensor in reader.tensors:
        found = results.fullmatch(tensor.name)
        if found and int(found[1]) == layers:
            multiply(tensor, args.disturb / before)
        elif found and anew:
            multiply(tensor, 0)
    if args.eagle3:
        write_head(reader, args.draft, args.disturb, args.wrong)
    elif args.dflash:
        write_blocks(reader, args.draft, args.disturb, args.wrong)
    elif args.assistant:
        write_assistant(reader, args.draft, args.disturb, args.wrong, args.clusters)
    elif not args.mtp:
        write_draft(reader, args.draft, layers, args.disturb)
    if not args.mtp:
        return
    for name, tensor in tensors.items():
        if name.endswith(".nextn.eh_proj.weight"):
            join_embedding(tensor, 1 if args.wrong else 0)
    note.write_text("%r\n" % args.disturb)


if __name__ == "__main__":
    main()
