#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random assistants of Gemma 4, and what transformers computes with them.

    python3 make_assistants.py [--llama-cpp DIRECTORY]

An assistant models/NAME is a directory that transformers saved, with two more files: predicted.bin,
[2, tokens - 1, vocabulary] float32, and own.bin, [2, tokens - 1, width of the model]. Their first halves
have, for each position p from 1 on, the logits and the hidden state that the assistant computes from
token p, the hidden state of the model for token p - 1, and the model's keys and values of the tokens
before p. The second halves have the same for a further row at position p, with token p - 1 and the hidden
state that the first row made. Everything is computed in double precision. With --llama-cpp, its converter
makes models/NAME.gguf, to which this script adds the clusters of tokens, which the converter leaves out.
Names after the options say which assistants to make; without them, all are made.

models/gemma4-uneven is a model like models/gemma4 in which the norms of queries and keys differ so much
that they are balanced. Needs what make_families.py needs, and the package gguf.
"""

import argparse
import copy
import json
import pathlib
import shutil

import numpy as np
import torch
import transformers
from gguf import GGUFReader, GGUFWriter
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from family_configs import SMALL, TINY_GEMMA4, layers
from make_families import (N_TOKENS_SMALL, convert, draw_mlx, draw_tokens, fill, in_double, save,
                           write_sentencepiece)

MODELS = pathlib.Path(__file__).resolve().parent / "models"
UNEVEN = SMALL["gemma4"][1]
ASSISTANT = TINY_GEMMA4 | dict(hidden_size=32, intermediate_size=32, num_attention_heads=4,
                               hidden_size_per_layer_input=0, vocab_size_per_layer_input=0)

# name: the model, the configuration of the layers, that of the rest.
ASSISTANTS = {
    "gemma4-assistant": ("gemma4-keys", ASSISTANT | dict(
        num_hidden_layers=3, layer_types=layers("ssf"), num_key_value_heads=2,
        num_global_key_value_heads=1, attention_k_eq_v=True), {}),
    "gemma4-assistant-clusters": ("gemma4-uneven", ASSISTANT | dict(
        num_hidden_layers=2, layer_types=layers("sf")), dict(
        use_ordered_embeddings=True, num_centroids=8, centroid_intermediate_top_k=3)),
}
ASSISTANTS["gemma4-assistant-mlx"] = ASSISTANTS["gemma4-assistant-clusters"]
# Bits and columns of a group of the matrices of these assistants, in an affine format of MLX.
MLX = {"gemma4-assistant-mlx": (4, 32)}



def make_uneven(seed):
    """Makes a model whose norms of queries and keys differ."""
    out = MODELS / "gemma4-uneven"
    config = transformers.Gemma4TextConfig(**copy.deepcopy(UNEVEN))
    tokens = draw_tokens(N_TOKENS_SMALL, UNEVEN["vocab_size"], seed)
    gen = torch.Generator().manual_seed(seed)
    with in_double():
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        fill(model, seed)
        for name, p in model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                spread = torch.randn(p.shape, generator=gen, dtype=torch.float64)
                p.copy_((p * torch.exp(spread)).float().double())
        logits = model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    save(model, out, UNEVEN, {}, {}, seed)
    np.array(tokens, "<i4").tofile(out / "tokens.bin")
    logits.astype("<f4").tofile(out / "logits.bin")


def predict(model, assistant, tokens):
    """Returns the logits and the hidden states of both rows at each position."""
    out = model(tokens[None], output_hidden_states=True, return_shared_kv_states=True,
                use_cache=False)
    embed, hidden, n = model.get_input_embeddings(), out.hidden_states[-1], len(tokens)
    made = [], []
    for p in range(1, n):
        keys = {k: (a[:, :, :p], b[:, :, :p]) for k, (a, b) in out.shared_kv_states.items()}
        h = hidden[:, p - 1:p]
        for i, token in enumerate((tokens[p], tokens[p - 1])):
            row = torch.cat([embed(token[None, None]), h], -1)
            one = assistant(inputs_embeds=row, shared_kv_states=keys,
                            position_ids=torch.tensor([[p]]))
            h = one.last_hidden_state
            made[i].append((one.logits[0, 0], h[0, 0]))
    return [torch.stack([torch.stack([pair[k] for pair in row]) for row in made]) for k in (0, 1)]


def make(name, seed):
    target, values, more = ASSISTANTS[name]
    out = MODELS / name
    tokens = torch.from_numpy(np.fromfile(MODELS / target / "tokens.bin", dtype="<i4").astype("i8"))
    source = json.loads((MODELS / target / "config.json").read_text())
    width = source.get("text_config", source)["hidden_size"]
    config = transformers.Gemma4AssistantConfig(
        text_config=transformers.Gemma4TextConfig(**copy.deepcopy(values)),
        backbone_hidden_size=width, **more)
    with in_double():
        model = AutoModelForCausalLM.from_pretrained(MODELS / target, attn_implementation="eager",
                                                     dtype=torch.float64).eval()
        assistant = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        fill(assistant, seed)
        for p_name, p in assistant.named_parameters():
            if p_name.endswith("q_norm.weight"):
                p.mul_(p.shape[0] ** -0.25).copy_(p.float().double())
        if more:
            gen = torch.Generator().manual_seed(seed)
            assistant.masked_embedding.token_ordering.copy_(
                torch.randperm(values["vocab_size"], generator=gen))
        planes = draw_mlx(assistant.model, *MLX[name], seed) if name in MLX else {}
        logits, own = predict(model, assistant, tokens)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    copy.deepcopy(assistant).float().save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    saved = json.loads((out / "config.json").read_text())
    saved["text_config"].pop("per_layer_config", None)
    saved["text_config"] |= values
    if planes:
        tensors = load_file(out / "model.safetensors") | {
            "model." + k: t.float().contiguous() if t.dtype == torch.float64 else t.contiguous()
            for k, t in planes.items()}
        save_file(tensors, out / "model.safetensors", {"format": "pt"})
        bits, group = MLX[name]
        saved["quantization"] = saved["quantization_config"] = {"group_size": group, "bits": bits}
    (out / "config.json").write_text(json.dumps(saved, indent=2, sort_keys=True) + "\n")
    logits.numpy().astype("<f4").tofile(out / "predicted.bin")
    own.numpy().astype("<f4").tofile(out / "own.bin")
    print(f"{name}: logits {float(logits.std()):.3f}, hidden states {float(own.std()):.3f}")


def add_clusters(path, tensors):
    """Adds the clusters of tokens to a GGUF file."""
    reader = GGUFReader(path)
    writer = GGUFWriter(path.with_suffix(".new"), "gemma4-assistant")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kinds = field.types
            writer.add_key_value(field.name, field.contents(), kinds[0],
                                 sub_type=kinds[-1] if len(kinds) > 1 else None)
    for t in reader.tensors:
        writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    writer.add_tensor("masked_embd_centroids.weight",
                      tensors["masked_embedding.centroids.weight"].numpy())
    writer.add_tensor("masked_embd_ordering",
                      tensors["masked_embedding.token_ordering"].numpy().astype("<i4"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".new").rename(path)


def main():
    p = argparse.ArgumentParser(description="tiny assistants")
    p.add_argument("--llama-cpp", type=pathlib.Path)
    p.add_argument("names", nargs="*", choices=[*ASSISTANTS, []], metavar="NAME")
    args = p.parse_args()
    llama_cpp, names = args.llama_cpp, args.names or list(ASSISTANTS)
    jobs = []
    transformers.logging.set_verbosity_error()
    if not args.names:
        make_uneven(2)
    for seed, name in enumerate(ASSISTANTS):
        if name not in names:
            continue
        make(name, seed)
        if llama_cpp and name not in MLX:
            source = MODELS / f"{name}.source"
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(MODELS / name, source)
            for file in ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(MODELS / "gemma4" / file, source)
            write_sentencepiece(source, ASSISTANT["vocab_size"])
            jobs.append([str(source), "--outfile", str(MODELS / f"{name}.gguf"), "--outtype", "f32",
                         "--model-name", "tiny"])
    if jobs:
        convert(llama_cpp, jobs)
    for name in names:
        more = ASSISTANTS[name][2]
        if jobs and more and name not in MLX:
            add_clusters(MODELS / f"{name}.gguf", load_file(MODELS / name / "model.safetensors"))


if __name__ == "__main__":
    main()
