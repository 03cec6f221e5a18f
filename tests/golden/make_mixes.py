# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/mixes.txt: the number formats that llama-quantize chooses for the tensors of
models of several shapes.

Usage: make_mixes.py LLAMA_QUANTIZE > tests/golden/mixes.txt (needs the package gguf)

A line "model ARCH LAYERS HEADS KV_HEADS EXPERTS TIED COLUMNS FF JOINED" begins a model, and a line
"mix NAME" a mix. A line "TENSOR TYPE*N TYPE*N …" gives the formats of a tensor outside the layers,
or of a tensor of each layer in their order. Tensors without a line have the format of the mix.
"""
import os
import re
import subprocess
import sys
import tempfile

import gguf
import numpy as np

MODELS = [("llama", 32, 8, 2, 8, 0, 256, 32, 0), ("llama", 80, 8, 1, 0, 0, 256, 32, 0),
          ("llama", 24, 8, 4, 0, 0, 256, 256, 0), ("falcon", 36, 8, 8, 0, 0, 256, 256, 1),
          ("qwen3moe", 20, 8, 2, 16, 1, 256, 32, 0), ("llama", 12, 4, 4, 0, 1, 96, 160, 0)]
MIXES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K "
         "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS TQ1_0 TQ2_0 "
         "MXFP4_MOE").split()
MOST = {"IQ2_S": "IQ2_XS", "IQ2_M": "IQ2_S", "IQ3_XS": "IQ3_S", "IQ3_M": "IQ3_S", "MXFP4_MOE": "MXFP4"}


def write(path, arch, layers, heads, kv, experts, tied, cols, ff, joined):
    w = gguf.GGUFWriter(path, arch)
    for key, x in (("block_count", layers), ("context_length", 512), ("embedding_length", cols),
                   ("feed_forward_length", ff), ("attention.head_count", heads),
                   ("attention.head_count_kv", kv), ("vocab_size", 32)):
        w.add_uint32(f"{arch}.{key}", x)
    w.add_float32(arch + ".attention.layer_norm_rms_epsilon", 1e-5)
    w.add_float32(arch + ".attention.layer_norm_epsilon", 1e-5)
    if experts:
        w.add_expert_count(experts)
        w.add_expert_used_count(2)
    w.add_tokenizer_model("no_vocab")

    def put(name, *shape):
        w.add_tensor(name, np.zeros(shape, np.float32))
    put("token_embd.weight", 32, cols)
    put("output_norm.weight", cols)
    if not tied:
        put("output.weight", 32, cols)
    for i in range(layers):
        for name in ("attn_qkv",) if joined else ("attn_q", "attn_k", "attn_v"):
            put(f"blk.{i}.{name}.weight", cols, cols)
        put(f"blk.{i}.attn_output.weight", cols, cols)
        put(f"blk.{i}.attn_norm.weight", cols)
        if experts:
            put(f"blk.{i}.ffn_gate_inp.weight", experts, cols)
        end, n = ("_exps", (experts,)) if experts else ("", ())
        put(f"blk.{i}.ffn_gate{end}.weight", *n, ff, cols)
        put(f"blk.{i}.ffn_up{end}.weight", *n, ff, cols)
        put(f"blk.{i}.ffn_down{end}.weight", *n, cols, ff)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def choices(quantize, path, mix):
    out = subprocess.run([quantize, "--dry-run", path, mix], capture_output=True, text=True)
    found = {}
    for line in (out.stdout + out.stderr).splitlines():
        m = re.match(r"\[ *\d+/ *\d+\] +(\S+) +- \[.*?\], type = +(\S+?),.*?(?:\((\w+)\))?$", line)
        if m:
            name = re.sub(r"^blk\.\d+\.", "", m[1])
            found.setdefault(name, []).append((m[3] or m[2]).upper())
    assert found, out
    return found


def main():
    with tempfile.TemporaryDirectory() as tmp:
        for i, model in enumerate(MODELS):
            path = os.path.join(tmp, f"{i}.gguf")
            write(path, *model)
            print("model", *model)
            for mix in MIXES:
                print("mix", mix)
                for name, types in sorted(choices(sys.argv[1], path, mix).items()):
                    runs = []
                    for t in types:
                        if runs and runs[-1][0] == t:
                            runs[-1][1] += 1
                        else:
                            runs.append([t, 1])
                    kept = name.endswith("_norm.weight") or name == "ffn_gate_inp.weight"
                    most = MOST.get(mix, re.sub("_[SML]$", "", mix) if mix[0] == "Q" else mix)
                    if not kept and runs[0] != [most, len(types)]:
                        print(name, *(f"{t}*{n}" for t, n in runs))


main()
