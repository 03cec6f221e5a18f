#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tiny random models of many families, and what they compute.

Each model of family_configs.py becomes a directory OUT/NAME with these files:

    hf/             the model in Hugging Face layout, with weights in F32
    model.gguf      the same weights as a GGUF file, made by llama.cpp's converter
    tokens.json     the tokens of the test
    logits.f64.npy  the logits of these tokens, [tokens, vocabulary]

transformers computes the logits in double precision, also in the steps that it usually computes in
single precision for every type of model. The script checks that transformers computes the same
token by token, with its cache, and that it computes the same from the files.

With --small, it makes the models of SMALL instead, in the layout of the other models of
tests/golden/models: OUT/NAME is the model with tokens.bin (int32), logits.bin (float32) and
greedy.bin (int32: the tokens that follow if the model always takes the most likely one), and
OUT/NAME.gguf is the GGUF file.

Needs: torch 2.x, transformers 5.x, safetensors, tokenizers, sentencepiece, gguf, numpy, and the
sources of llama.cpp. Example:

    python3 make_families.py --llama-cpp DIR --out DIR [NAME…]
    python3 make_families.py --llama-cpp DIR --out models --small [NAME…]
"""

import argparse
import contextlib
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentencepiece import sentencepiece_model_pb2
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM
from transformers.integrations.bitnet import AutoBitLinear, pack_weights

from coded_matrices import coded_config, draw_coded
from family_configs import SMALL, VARIANTS

N_TOKENS = 300
N_TOKENS_SMALL, N_GREEDY = 72, 12
FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6],
                   dtype=torch.float64)
# To learn how a tokenizer cuts texts, the converter looks the tokenizer up in a list. It reads the
# configuration as transformers understands it. This program runs the converter with an answer for a
# tokenizer that is not in the list, without the tokens that transformers adds to the tokenizers of
# some families, and with all keys that config.json has. It converts the models that the standard
# input lists, one after the other, and prints why each failed, or null.
CONVERT = """
import json, runpy, sys, traceback
root = sys.argv[1]
sys.path.insert(0, root)
import transformers
from conversion.base import ModelBase, TextModel
transformers.AutoTokenizer = transformers.PreTrainedTokenizerFast
TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
load = ModelBase.load_hparams
ModelBase.load_hparams = staticmethod(lambda path, *a, **k: load(path, *a, **k) | json.loads(
    (path / "config.json").read_text()))
results = []
for options in json.load(sys.stdin):
    sys.argv = [root + "/convert_hf_to_gguf.py", *options]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        results.append(None)
    except (Exception, SystemExit):
        results.append(traceback.format_exc())
print(json.dumps(results))
"""


class InDouble(TorchDispatchMode):
    """Makes each operation that asks for single precision use double precision."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def double(x):
            return torch.float64 if x is torch.float32 else x
        return func(*[double(x) for x in args],
                    **{k: double(v) for k, v in (kwargs or {}).items()})


@contextlib.contextmanager
def in_double():
    torch.set_default_dtype(torch.float64)
    try:
        with InDouble(), torch.no_grad():
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def draw(name, old, gen, inputs_first, factor):
    """Draws a parameter. Norms and scales stay near the values with which the model begins, times
    @factor."""
    noise = torch.randn(old.shape, generator=gen, dtype=torch.float64)
    last = name.rpartition(".")[2]
    if last == "A_log":
        return noise - 2.0
    if last in ("dt_bias", "sinks"):
        return noise
    if last in ("layer_scalar", "per_expert_scale"):
        return 0.8 + noise * 0.1
    if last.endswith("bias"):
        return noise * 0.3
    if old.dim() == 1:
        return (old + noise * 0.2) * factor
    return noise * (1.5 / old.shape[-2 if inputs_first and old.dim() == 3 else -1] ** 0.5)


def fill(model, seed):
    """Draws all weights. Their values have the precision of F32."""
    gen = torch.Generator().manual_seed(seed)
    inputs_first = model.config.model_type == "gpt_oss"
    # These models do not divide the scores of attention by the root of the head size, because the
    # norms of q and k do so. If the scores were large, rounding to F32 would change the results.
    unscaled = model.config.model_type in ("gemma3n_text", "gemma4_text")
    saved = set(model.state_dict())
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        is_norm = name.endswith(("q_norm.weight", "k_norm.weight"))
        factor = p.shape[0] ** -0.25 if unscaled and is_norm else 1
        if name in saved:
            p.copy_(torch.from_numpy(
                draw(name, p, gen, inputs_first, factor).numpy().astype("<f4").astype("<f8")))


def draw_mxfp4(model, seed):
    """Replaces the matrices of the experts by values that MXFP4 can hold. Returns the codes, of
    which each byte has two, and the scales of blocks of 32 values."""
    gen = torch.Generator().manual_seed(seed)
    planes = {}
    for name, p in model.named_parameters():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            continue
        shape = (p.shape[0], p.shape[2], p.shape[1] // 32)
        codes = torch.randint(0, 16, (*shape, 32), generator=gen)
        scales = torch.randint(122, 126, shape, generator=gen)
        values = FP4[codes] * torch.exp2((scales - 127).double())[..., None]
        p.copy_(values.reshape(p.shape[0], p.shape[2], p.shape[1]).transpose(1, 2))
        planes[name + "_blocks"] = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
        planes[name + "_scales"] = scales.to(torch.uint8)
    return planes


def use_ternary(model, kind):
    """Makes the matrices of the layers ternary. Returns the tensors that the file has for them."""
    planes = {}
    for name, old in list(model.named_modules()):
        if not isinstance(old, torch.nn.Linear) or name == "lm_head":
            continue
        new = AutoBitLinear(old.in_features, old.out_features, False, old.weight.device,
                            torch.float64, online_quant=kind == "online")
        new.weight.copy_(old.weight)
        if kind == "packed":
            scale = old.weight.abs().mean()
            new.weight.copy_((old.weight / scale).round().clamp(-1, 1))
            new.weight_scale.fill_(float(np.float32(scale)))
            planes[name + ".weight"] = pack_weights(new.weight.clone())
            planes[name + ".weight_scale"] = new.weight_scale
        model.set_submodule(name, new)
    return planes


def ternary_values(w):
    """Returns what llama.cpp's converter makes of a matrix of BitNet, in the same precision."""
    w = w.float()
    inverse = 1 / w.abs().mean().clamp(min=1e-5)
    return (w * inverse).round().clamp(-1, 1) / inverse


def draw_mlx(model, bits, group, seed):
    """Draws the matrices in an affine format of MLX. Returns the tensors that the file has."""
    gen = torch.Generator().manual_seed(seed)
    planes = {}
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.Linear, torch.nn.Embedding)):
            continue
        rows, cols = module.weight.shape
        codes = torch.randint(0, 1 << bits, (rows, cols), generator=gen)
        sizes = 0.7 + 0.6 * torch.rand((rows, cols // group), generator=gen)
        scales = (sizes * module.weight.std() * 2 / (1 << bits)).half()
        biases = (-scales.double() * ((1 << bits) - 1) / 2).half()
        module.weight.copy_(scales.double().repeat_interleave(group, 1) * codes
                            + biases.double().repeat_interleave(group, 1))
        parts = codes.reshape(rows, -1, 32 // bits) << bits * torch.arange(32 // bits)
        planes[name + ".weight"] = torch.from_numpy(parts.sum(-1).numpy().astype("<u4"))
        planes[name + ".scales"], planes[name + ".biases"] = scales, biases
    return planes


def write_tokenizer(out, vocab_size):
    """Writes a tokenizer whose tokens are characters, except the last one: it joins two."""
    pieces = ["<pad>", "<s>", "</s>"] + [chr(33 + i) for i in range(vocab_size - 4)] + ["AB"]
    vocab = {p: i for i, p in enumerate(pieces)}
    added = [{"id": i, "content": p, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for i, p in enumerate(pieces[:3])]
    (out / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": None, "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": True, "vocab": vocab,
                  "merges": [["A", "B"]]}}) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "bos_token": "<s>",
        "eos_token": "</s>"}) + "\n")


def write_sentencepiece(out, vocab_size):
    """Writes the file that the converter needs for some families. It is not part of the model."""
    proto = sentencepiece_model_pb2.ModelProto()
    kind = proto.SentencePiece.Type
    for i in range(vocab_size):
        piece = ["<unk>", "<s>", "</s>"][i] if i < 3 else chr(33 + i - 3)
        proto.pieces.add(piece=piece, score=-float(i), type=(
            kind.UNKNOWN if i == 0 else kind.CONTROL if i < 3 else kind.NORMAL))
    proto.trainer_spec.model_type = proto.trainer_spec.ModelType.BPE
    (out / "tokenizer.model").write_bytes(proto.SerializeToString())


def nest(out, config, architecture, extra, seed):
    """Gives the tensors the names that they have in models that also see images, and adds tensors
    of other parts of such models. Returns what config.json has for them."""
    gen = torch.Generator().manual_seed(seed)
    tensors = load_file(out / "model.safetensors")
    moved = {name.replace("model.", "model.language_model.", 1): t for name, t in tensors.items()}
    moved |= {name: torch.randn(shape, generator=gen) for name, shape in extra.items()}
    moved["model.visual.patch_embed.proj.weight"] = torch.randn((8, 3), generator=gen)
    save_file(moved, out / "model.safetensors", {"format": "pt"})
    kind = config["model_type"].removesuffix("_text")
    vision = "siglip_vision_model" if kind == "gemma3" else kind + "_vision"
    return {"architectures": [architecture], "model_type": kind, "text_config": config,
            "vision_config": {"model_type": vision, "hidden_size": 8},
            "tie_word_embeddings": config["tie_word_embeddings"]}


def save(model, out, values, how, planes, seed):
    """Writes the model's directory."""
    copy.deepcopy(model).float().save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    config = json.loads((out / "config.json").read_text())
    config.pop("per_layer_config", None)
    config |= values | {"dtype": "float32"}
    if planes:
        tensors = load_file(out / "model.safetensors")
        for name in planes:
            tensors.pop(name.removesuffix("_blocks").removesuffix("_scales"), None)
        if how.get("coded"):
            tensors = {name: t for name, t in tensors.items() if ".experts." not in name
                       and not any(plane.startswith(name.removesuffix("weight"))
                                   for plane in planes)}
        kept = (torch.uint8, torch.uint32, torch.float16, torch.int16, torch.int32, torch.int64,
                torch.bfloat16, torch.float8_e4m3fn)
        tensors |= {name: t if t.dtype in kept else t.float().contiguous()
                    for name, t in planes.items()}
        save_file(tensors, out / "model.safetensors", {"format": "pt"})
    if how.get("mxfp4"):
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
            "lm_head"]}
    if how.get("ternary"):
        config["quantization_config"] = {
            "quant_method": "bitnet", "linear_class": "autobitlinear",
            "quantization_mode": "offline" if how["ternary"] == "packed" else "online"}
    if how.get("mlx"):
        bits, group = how["mlx"]
        config["quantization"] = config["quantization_config"] = {"group_size": group, "bits": bits}
    if how.get("coded"):
        config["quantization_config"] = coded_config(how["coded"])
    if how.get("prefix"):
        config = nest(out, config, how["prefix"], how.get("extra", {}), seed)
    (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    write_tokenizer(out, values["vocab_size"])


def build(row, seed):
    """Returns a model in double precision, and the tensors that its file stores differently."""
    config_class, values, how = row
    config = getattr(transformers, config_class)(**copy.deepcopy(values))
    config._attn_implementation = config._experts_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    fill(model, seed)
    planes = draw_mxfp4(model, seed) if how.get("mxfp4") else {}
    if how.get("mlx"):
        planes = draw_mlx(model, *how["mlx"], seed)
    if how.get("coded"):
        planes = draw_coded(model, how["coded"], seed)
    if how.get("ternary"):
        planes = use_ternary(model, how["ternary"])
    if how.get("converted"):
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and name != "lm_head":
                module.weight.copy_(ternary_values(module.weight))
    return model, planes


def logits_of(model, tokens):
    return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def logits_by_token(model, tokens, first=17):
    """Computes the first tokens as a whole, and then the others one by one."""
    out = model(torch.tensor([tokens[:first]]), use_cache=True)
    rows = [out.logits[0]]
    for t in tokens[first:]:
        out = model(torch.tensor([[t]]), past_key_values=out.past_key_values, use_cache=True)
        rows.append(out.logits[0])
    return torch.cat(rows).numpy()


def nmse(x, want):
    return float(((x - want) ** 2).sum() / (want ** 2).sum())


def use_old_bitnet(path):
    """Changes a model of BitNet for the converter. The converter knows the tensors by the names
    that they have in an older model, and it makes their matrices ternary, with the mean of the
    magnitudes as the factor. This mean is smaller than the factor of a matrix that is ternary
    already. Therefore the zeros of such a matrix are replaced by numbers that the converter rounds
    to zero, and the others by larger ones, so that the mean is the factor."""
    tensors = load_file(path / "model.safetensors")
    for name, t in tensors.items():
        if name.endswith("_proj.weight") and t.abs().unique().numel() == 2:
            factor, zeros = t.abs().max(), t == 0
            small = zeros * 0.25 * factor
            larger = (t.numel() * factor - small.sum()) / (~zeros).sum()
            tensors[name] = torch.where(zeros, small, t.sign() * larger)
    save_file({k.replace("attn_sub_norm", "inner_attn_ln").replace("ffn_sub_norm",
                                                                   "ffn_layernorm"): t
               for k, t in tensors.items()}, path / "model.safetensors", {"format": "pt"})


def prepare(hf, out, values):
    """Copies a model for the converter. Returns the converter's options."""
    source = out.with_suffix(".source")
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(hf, source)
    write_sentencepiece(source, values["vocab_size"])
    if json.loads((hf / "config.json").read_text())["model_type"] == "bitnet":
        use_old_bitnet(source)
    # Otherwise the converter insists on a block that predicts a second token.
    hybrid = "linear_num_key_heads" in values and "mtp_num_hidden_layers" not in values
    return [str(source), "--outfile", str(out), "--outtype", "f32", "--model-name", "tiny",
            *(["--no-mtp"] if hybrid else [])]


def convert(llama_cpp, jobs):
    """Runs llama.cpp's converter on models, one list of options for each, and prints failures."""
    run = subprocess.run([sys.executable, "-c", CONVERT, str(llama_cpp)], input=json.dumps(jobs),
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    for options, failed in zip(jobs, json.loads(run.stdout.splitlines()[-1])):
        shutil.rmtree(options[0])
        if failed:
            print(f"{options[2]}: {failed}")


def check_files(hf, tokens, want):
    """Returns, as text, how much the logits that transformers computes from the files in F32 differ
    from @want, or why it computes none."""
    try:
        model = AutoModelForCausalLM.from_pretrained(hf, attn_implementation="eager",
                                                     dtype=torch.float32).eval()
        with torch.no_grad():
            return f"{nmse(logits_of(model, tokens).astype('f8'), want):.1e}"
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0][:120]}"


def draw_tokens(n, vocab_size, seed):
    gen = torch.Generator().manual_seed(seed + 1000)
    return torch.randint(3, vocab_size, (n,), generator=gen).tolist()


def make(name, seed, root):
    """Makes a model of VARIANTS. Returns the converter's options, or None."""
    _, values, how = row = VARIANTS[name]
    out = root / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tokens = draw_tokens(N_TOKENS, values["vocab_size"], seed)
    with in_double():
        model, planes = build(row, seed)
        want = logits_of(model, tokens)
        steps = nmse(logits_by_token(model, tokens), want)
    save(model, out / "hf", values, how, planes, seed)
    (out / "tokens.json").write_text(json.dumps(tokens) + "\n")
    np.save(out / "logits.f64.npy", want)
    print(f"{name}: logits {want.std():.3f}, by token {steps:.1e}, from files in F32",
          check_files(out / "hf", tokens, want), flush=True)
    return prepare(out / "hf", out / "model.gguf", values) if how.get("gguf", True) else None


def greedy_tokens(model, tokens):
    """Returns the tokens that follow, and the smallest distance between the best two logits."""
    made, least = [], float("inf")
    for _ in range(N_GREEDY):
        best = torch.from_numpy(logits_of(model, tokens + made)[-1]).topk(2)
        made.append(int(best.indices[0]))
        least = min(least, float(best.values[0] - best.values[1]))
    return made, least


class Roundings:
    """Measures how close the inputs of ternary matrices come to values that round differently.
    F32 computes the same integers as double precision only if none is too close."""

    def __init__(self, model):
        self.least = 1.0
        for module in model.modules():
            if isinstance(module, AutoBitLinear):
                module.register_forward_pre_hook(self.look)

    def look(self, _module, inputs):
        x = inputs[0] * 127 / inputs[0].abs().amax(-1, keepdim=True)
        self.least = min(self.least, float((x - x.floor() - 0.5).abs().min()))


def make_small(name, seed, root):
    """Makes a model of SMALL, with the first seed whose results do not depend on rounding.
    Returns the converter's options, or None."""
    _, values, how = row = SMALL[name]
    out = root / name
    shutil.rmtree(out, ignore_errors=True)
    while True:
        tokens = draw_tokens(N_TOKENS_SMALL, values["vocab_size"], seed)
        with in_double():
            model, planes = build(row, seed)
            roundings = Roundings(model)
            want = logits_of(model, tokens)
            made, least = greedy_tokens(model, tokens)
        if roundings.least > 4e-5 and least > 0.02:
            break
        seed += 1000
    with in_double():
        steps = nmse(logits_by_token(model, tokens), want)
    save(model, out, values, how, planes, seed)
    np.array(tokens, dtype="<i4").tofile(out / "tokens.bin")
    np.array(made, dtype="<i4").tofile(out / "greedy.bin")
    want.astype("<f4").tofile(out / "logits.bin")
    print(f"{name}: {sum(f.stat().st_size for f in out.iterdir())} bytes, seed {seed}, logits",
          f"{want.std():.3f}, by token {steps:.1e}, from files in F32",
          check_files(out, tokens, want), flush=True)
    return prepare(out, root / f"{name}.gguf", values) if how.get("gguf", True) else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama-cpp", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("names", nargs="*", help="beginnings of names")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    jobs = [(make_small if args.small else make)(name, seed, args.out)
            for seed, name in enumerate(SMALL if args.small else VARIANTS)
            if not args.names or name.startswith(tuple(args.names))]
    convert(args.llama_cpp, [job for job in jobs if job])


if __name__ == "__main__":
    main()
