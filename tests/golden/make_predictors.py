#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes what the layers that predict further tokens (MTP) compute in models of make_families.py.

    python3 make_predictors.py MODEL…

Each MODEL is a directory that `make_families.py --small` made. The script writes MODEL/predicted.bin,
[tokens, vocabulary] float32: row p has the logits for the token after next, computed from the
embedding of token p and the hidden state of token p - 1, which is zero for the first token. The
layer is a layer with attention of transformers in double precision; transformers itself has no class
for the parts around it. Needs what make_families.py needs.
"""

import json
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from make_families import in_double


def parts_of(model):
    """Returns the classes of the layer, the norm and the rotation of a model."""
    decoder = model.model
    return type(decoder.layers[-1]), type(decoder.norm), decoder.rotary_emb


def join_experts(tensors):
    """Returns the tensors of the model as the class of transformers names them: the matrices of all
    experts of a layer are one tensor."""
    joined = {}
    for name, t in tensors.items():
        if name.startswith(("mtp.", "model.visual.")):
            continue
        name = name.replace("model.language_model.", "model.")
        if ".experts.0.gate_proj" in name:
            def all_of(part, name=name):
                source = name.replace("model.", "model.language_model.", 1)
                names = [source.replace(".0.gate_proj", f".{i}.{part}") for i in range(len(tensors))]
                return torch.stack([tensors[n] for n in names if n in tensors])
            head = name.split(".experts.")[0] + ".experts."
            joined[head + "gate_up_proj"] = torch.cat([all_of("gate_proj"), all_of("up_proj")], 1)
            joined[head + "down_proj"] = all_of("down_proj")
        elif ".experts." not in name:
            joined[name] = t
    return joined


def predict(path, tensors):
    config = json.loads((path / "config.json").read_text())["text_config"]
    tokens = torch.from_numpy(np.fromfile(path / "tokens.bin", dtype="<i4").astype("i8"))[None]
    names = {"qwen3_5_text": "Qwen3_5TextConfig", "qwen3_5_moe_text": "Qwen3_5MoeTextConfig"}
    config = getattr(transformers, names[config.pop("model_type")])(**config)
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().double()
    model.load_state_dict(join_experts(tensors))
    layer_class, norm_class, rotary = parts_of(model)
    layer = layer_class(config, config.num_hidden_layers - 1).eval().double()
    layer.load_state_dict({k.removeprefix("mtp.layers.0."): t for k, t in tensors.items()
                           if k.startswith("mtp.layers.0.")})

    def norm(name, x):
        module = norm_class(config.hidden_size, eps=config.rms_norm_eps)
        module.weight.data = tensors[f"mtp.{name}.weight"]
        return module(x)

    n = tokens.shape[1]
    hidden = model.model(tokens, use_cache=False).last_hidden_state
    before = torch.cat([torch.zeros_like(hidden[:, :1]), hidden[:, :-1]], 1)
    x = torch.cat([norm("pre_fc_norm_embedding", model.model.embed_tokens(tokens)),
                   norm("pre_fc_norm_hidden", before)], -1) @ tensors["mtp.fc.weight"].T
    positions = torch.arange(n)[None]
    mask = torch.full((n, n), float("-inf")).triu(1)[None, None]
    x = layer(x, position_embeddings=rotary(x, positions.expand(3, 1, n)), attention_mask=mask,
              position_ids=positions)
    logits = model.lm_head(norm("norm", x[0] if isinstance(x, tuple) else x))[0]
    logits.numpy().astype("<f4").tofile(path / "predicted.bin")
    print(f"{path.name}: predicted logits {float(logits.std()):.3f}")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for model_path in map(pathlib.Path, sys.argv[1:]):
        # in_double() would misread the bytes of the file.
        loaded = {k: t.double() for k, t in load_file(model_path / "model.safetensors").items()}
        with in_double():
            predict(model_path, loaded)
