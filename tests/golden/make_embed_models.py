#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random encoders of tests/golden/embed, and their results for a few texts.

Each model is a directory in Hugging Face layout, with modules of sentence-transformers for models
that have them. case.json has texts as ids and types, and the vectors or scores that transformers
computes from them in double precision.

Needs: torch 2.x, transformers 5.x, sentence-transformers 6.x, safetensors, numpy. Run it in this directory:

    python3 make_embed_models.py [NAME…]
"""

import copy
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForSequenceClassification, BertModel, Gemma3TextConfig,
                          Gemma3TextModel, GteConfig, GteForSequenceClassification, GteModel,
                          LlamaConfig, LlamaModel, ModernBertConfig,
                          ModernBertForSequenceClassification, ModernBertModel, NomicBertConfig,
                          NomicBertModel, Qwen3Config, Qwen3ForCausalLM, Qwen3Model, RobertaConfig,
                          RobertaModel, XLMRobertaConfig, XLMRobertaForSequenceClassification)
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextModel

from make_models import SMALL, fill, rope, write_tokenizer

OUT = pathlib.Path(__file__).resolve().parent / "embed"
LENGTHS = [5, 1, 70, 17, 64]

BERT = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, max_position_embeddings=80, pad_token_id=0)

NO_BIAS = "torch.nn.modules.linear.Identity", False
GEMMA = dict(vocab_size=96, hidden_size=48, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=3, num_key_value_heads=1, head_dim=32,
             max_position_embeddings=128, query_pre_attn_scalar=32, sliding_window=13,
             layer_types=["sliding_attention", "sliding_attention", "full_attention",
                          "sliding_attention"], use_bidirectional_attention=True)
MODERN = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
              num_attention_heads=4, max_position_embeddings=128, local_attention=12,
              pad_token_id=0, bos_token_id=1, eos_token_id=1, cls_token_id=1, sep_token_id=1)

# name: (class, config, pooling, dense layers)
MODELS = {
    "bert-mean": (BertModel, BertConfig(**BERT, type_vocab_size=2), "mean", []),
    "bert-cls-dense": (BertModel, BertConfig(**BERT | dict(hidden_size=48, num_attention_heads=3),
                                             hidden_act="gelu_new"), "cls",
                       [(24, "torch.nn.modules.activation.Tanh", True),
                        (16, "torch.nn.modules.linear.Identity", False)]),
    "bert-rank": (BertForSequenceClassification, BertConfig(**BERT, num_labels=1), "score", []),
    "roberta-mean": (RobertaModel, RobertaConfig(**BERT | dict(pad_token_id=1),
                                                 type_vocab_size=1), "mean", []),
    "xlmr-rank": (XLMRobertaForSequenceClassification, XLMRobertaConfig(
        **BERT | dict(pad_token_id=1), type_vocab_size=1, num_labels=3), "score", []),
    "nomic": (NomicBertModel, NomicBertConfig(**BERT, rope_parameters=rope("default", 1000.0)),
              "mean", []),
    "bert-f16": (BertModel, BertConfig(**BERT, type_vocab_size=2), "mean", []),
    "qwen3-last": (Qwen3ForCausalLM, Qwen3Config(
        **SMALL | dict(tie_word_embeddings=True, max_position_embeddings=128), head_dim=16,
        rope_parameters=rope("default", 1000000.0)), "last", []),
    "qwen3-rank": (Qwen3ForCausalLM, Qwen3Config(
        **SMALL | dict(max_position_embeddings=128), head_dim=16,
        rope_parameters=rope("default", 1000000.0)), "no-yes", []),
    "gemma": (Gemma3TextModel, Gemma3TextConfig(**GEMMA | dict(query_pre_attn_scalar=24)), "mean",
              []),
    "gemma-old": (Gemma3TextModel, Gemma3TextConfig(**GEMMA), "mean",
                  [(80, *NO_BIAS), (48, *NO_BIAS)]),
    "modernbert": (ModernBertModel, ModernBertConfig(**MODERN), "cls", []),
    "modernbert-rank": (ModernBertForSequenceClassification, ModernBertConfig(
        **MODERN, classifier_pooling="mean", num_labels=1), "score", []),
    "gte": (GteModel, GteConfig(**BERT, type_vocab_size=1, rope_parameters=rope("default")),
            "mean", []),
    "gte-new": (GteModel, GteConfig(**BERT, type_vocab_size=0, rope_parameters=rope("default")),
                "cls", []),
    "gte-rank": (GteForSequenceClassification, GteConfig(
        **BERT, type_vocab_size=1, num_labels=1, rope_parameters=rope("default")), "score", []),
}

# A decoder that ranks texts computes the score from the logits of these two tokens.
NO, YES = 7, 40


def write_modules(out, width, pooling, dense, seed):
    """Writes the modules that follow the model, and returns (weights, bias, activation) of the
    dense ones."""
    gen = torch.Generator().manual_seed(seed + 500)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (out / "1_Pooling").mkdir()
    (out / "1_Pooling/config.json").write_text(json.dumps({
        "word_embedding_dimension": width, "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean", "pooling_mode_max_tokens": False,
        "pooling_mode_lasttoken": pooling == "last"}) + "\n")
    steps = []
    for i, (n, act, bias) in enumerate(dense):
        folder = out / f"{i + 2}_Dense"
        folder.mkdir()
        modules.append((folder.name, "Dense"))
        (folder / "config.json").write_text(json.dumps({
            "in_features": width, "out_features": n, "bias": bias,
            "activation_function": act}) + "\n")
        w = torch.randn((n, width), generator=gen) / width ** 0.5
        tensors = {"linear.weight": w}
        if bias:
            tensors["linear.bias"] = torch.randn(n, generator=gen) * 0.3
        save_file(tensors, folder / "model.safetensors")
        steps.append((w.double(), tensors.get("linear.bias"), act))
        width = n
    modules.append((f"{len(modules)}_Normalize", "Normalize"))
    (out / "modules.json").write_text(json.dumps([
        {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
        for i, (path, kind) in enumerate(modules)]) + "\n")
    return steps


def use_new_names(out):
    """Gives keys and tensors the names of Alibaba's own code, and scales the base of the rotary
    embedding (type "ntk")."""
    path = out / "config.json"
    config = json.loads(path.read_text())
    config.pop("rope_parameters")
    config |= {"architectures": [config["architectures"][0].replace("Gte", "New")],
               "model_type": "new", "rope_theta": 500.0, "pack_qkv": True,
               "rope_scaling": {"type": "ntk", "factor": 2.0},
               "position_embedding_type": "rope", "layer_norm_type": "layer_norm",
               "logn_attention_scale": False, "logn_attention_clip1": False}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def stretch(model):
    """Gives the model the rope type "ntk" of use_new_names(), which transformers does not have."""
    dim = model.config.hidden_size // model.config.num_attention_heads
    base, factor = 500.0, 2.0
    freq = 1.0 / (base * factor) ** (torch.arange(0, dim, 2).double() / dim)
    rotary = (model.gte if hasattr(model, "gte") else model).rotary_emb
    rotary.inv_freq = freq / factor ** (2 / dim)


def use_old_gemma(path):
    """Writes the configuration in the form that transformers had before version 5, with both rotary
    bases at the top level and with a window pattern."""
    config = json.loads(path.read_text())
    bases = config.pop("rope_parameters")
    config["rope_theta"] = bases["full_attention"]["rope_theta"]
    config["rope_local_base_freq"] = bases["sliding_attention"]["rope_theta"]
    config.pop("layer_types")
    config |= {"rope_scaling": None, "_sliding_window_pattern": 3}
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def fill_from_zero(model):
    """Subtracts 1 from the weights of norms, because Gemma's norms add 1 to the stored weights."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.sub_(1.0)


def vector(model, ids, types, pooling, steps):
    more = {} if isinstance(model, (
        Qwen3ForCausalLM, XLMRobertaForSequenceClassification, RobertaModel, Gemma3TextModel,
        ModernBertModel, ModernBertForSequenceClassification, GteModel,
        GteForSequenceClassification)) else dict(token_type_ids=types)
    if pooling == "no-yes":
        return model(input_ids=ids).logits[0, -1, [NO, YES]]
    if pooling == "score":
        return model(input_ids=ids, **more).logits[0]
    inner = model.model if isinstance(model, Qwen3ForCausalLM) else model
    rows = inner(input_ids=ids, **more).last_hidden_state[0]
    x = rows.mean(0) if pooling == "mean" else rows[0 if pooling == "cls" else -1]
    for w, b, act in steps:
        x = w @ x + (b.double() if b is not None else 0)
        x = torch.tanh(x) if act.endswith("Tanh") else x
    return x / x.norm()


def make(name, seed):
    cls, config, pooling, dense = MODELS[name]
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    fill(model, seed + 100)
    if name.startswith("gemma"):
        fill_from_zero(model)
    if name.endswith("f16"):
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.half())
        copy.deepcopy(model).half().save_pretrained(out)
    else:
        model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)
    write_tokenizer(out / "tokenizer.json", config.vocab_size)
    if name == "gemma-old":
        use_old_gemma(out / "config.json")
    if name in ("gte-new", "gte-rank"):
        use_new_names(out)
    steps = []
    if pooling == "no-yes":
        path = out / "tokenizer.json"
        tok = json.loads(path.read_text())
        vocab = {v: k for k, v in tok["model"]["vocab"].items()} | {NO: "no", YES: "yes"}
        tok["model"]["vocab"] = {k: v for v, k in vocab.items()}
        path.write_text(json.dumps(tok) + "\n")
    elif pooling != "score":
        steps = write_modules(out, config.hidden_size, pooling, dense, seed)
    gen = torch.Generator().manual_seed(seed + 1000)
    n_types = max(getattr(config, "type_vocab_size", 1), 1)
    texts = []
    padding = config.pad_token_id if "roberta" in config.model_type else None
    model = model.double()
    if name in ("gte-new", "gte-rank"):
        stretch(model)
    with torch.no_grad():
        for n in LENGTHS + [9] * (padding is not None):
            ids = torch.randint(2, config.vocab_size, (1, n), generator=gen)
            types = torch.randint(0, n_types, (1, n), generator=gen)
            if len(texts) == len(LENGTHS):
                # This text contains padding, which RoBERTa does not count as a position.
                ids[0, [0, 3, 4]] = padding
            y = vector(model, ids, types, pooling, steps)
            if n_types == 1:
                # A tokenizer gives type 1 to the second text of a pair; this model does not read
                # types.
                types[0, n // 2:] = 1
            texts.append({"ids": ids[0].tolist(), "types": types[0].tolist(),
                          "want": [float(f"{v:.9g}") for v in y.tolist()]})
    (out / "case.json").write_text(json.dumps({
        "kind": "scores" if pooling in ("score", "no-yes") else "vectors", "texts": texts}) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in out.rglob('*') if f.is_file())} bytes")


# Models that sentence-transformers saves itself: name: (class, config, pooling).
SAVED = {
    "qwen3-saved": (Qwen3Model, Qwen3Config(
        **SMALL | dict(tie_word_embeddings=True), head_dim=8,
        rope_parameters=rope("default", 1000000.0)), "lasttoken"),
    "llama-saved": (LlamaModel, LlamaConfig(**SMALL, rope_parameters=rope("default")), "mean"),
    "bert-saved": (BertModel, BertConfig(**BERT, type_vocab_size=2), "mean"),
}
SAVED_LENGTH = 20


def make_saved(name, seed):
    """Lets sentence-transformers write a directory. The class of the model has no head, and only
    the tokenizer's configuration has the length at which texts are truncated. sentence-transformers
    also truncates the texts and computes the vectors."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import (Normalize, Pooling,
                                                                   Transformer)
    from transformers import PreTrainedTokenizerFast

    cls, config, pooling = SAVED[name]
    out, raw = OUT / name, OUT / (name + ".raw")
    shutil.rmtree(out, ignore_errors=True)
    model = cls(config).eval()
    fill(model, seed)
    model.save_pretrained(raw)
    write_tokenizer(raw / "tokenizer.json", config.vocab_size)
    tok = PreTrainedTokenizerFast(tokenizer_file=str(raw / "tokenizer.json"), pad_token="!",
                                  model_max_length=SAVED_LENGTH)
    tok.save_pretrained(raw)
    module = Transformer(str(raw))
    st = SentenceTransformer(modules=[module, Pooling(config.hidden_size, pooling_mode=pooling),
                                      Normalize()], device="cpu")
    st.save_pretrained(str(out), create_model_card=False)
    shutil.rmtree(raw)
    st = SentenceTransformer(str(out), device="cpu").double()
    gen = torch.Generator().manual_seed(seed + 1)
    texts = []
    for n in (5, SAVED_LENGTH, 2 * SAVED_LENGTH):
        ids = torch.randint(1, config.vocab_size, (n,), generator=gen).tolist()
        y = st.encode("".join(chr(33 + i) for i in ids), precision="float32")
        texts.append({"ids": ids[:SAVED_LENGTH], "types": [0] * min(n, SAVED_LENGTH),
                      "want": [float(f"{v:.9g}") for v in y.tolist()]})
    (out / "case.json").write_text(json.dumps({
        "kind": "vectors", "max_tokens": st.max_seq_length, "texts": texts}) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in out.rglob('*') if f.is_file())} bytes")


JINA_TASKS = ["retrieval", "text-matching", "code"]
JINA_RANK, JINA_ALPHA, JINA_MULTI = 4, 6, 24
ADAPTED = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def make_jina(name, seed):
    """Makes a model in the form of jina-embeddings-v4: the language model, a projector, adapters of
    all tasks in one file, and tensors for images. The model of a task is the language model plus
    the matrices of the task's adapter."""
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    (out / "adapters").mkdir(parents=True)
    config = Qwen2_5_VLTextConfig(
        **SMALL | dict(hidden_size=64, max_position_embeddings=128), use_sliding_window=False,
        rope_parameters=dict(rope_type="default", rope_theta=1000000.0, mrope_section=[2, 3, 3]))
    config._attn_implementation = "eager"
    base = Qwen2_5_VLTextModel(config).eval()
    fill(base, seed)
    gen = torch.Generator().manual_seed(seed + 1)
    projector = torch.randn((JINA_MULTI, 64), generator=gen) / 8
    bias = torch.randn(JINA_MULTI, generator=gen) * 0.3
    save_file({"model.language_model." + k: v.contiguous() for k, v in base.state_dict().items()} |
              {"multi_vector_projector.weight": projector, "multi_vector_projector.bias": bias,
               "lm_head.weight": torch.zeros(96, 64), "visual.merger.ln_q.weight": torch.ones(4)},
              out / "model.safetensors")
    text = {k: v for k, v in config.to_dict().items() if v is not None}
    (out / "config.json").write_text(json.dumps({
        "architectures": ["JinaEmbeddingsV4Model"], "model_type": "qwen2_5_vl",
        "multi_vector_projector_dim": JINA_MULTI, "single_vector_pool_strategy": "mean",
        "task_names": JINA_TASKS, "matryoshka_dims": [16, 32, 64],
        "text_config": text}, indent=2, sort_keys=True) + "\n")
    (out / "adapters/adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "r": JINA_RANK, "lora_alpha": JINA_ALPHA, "bias": "none",
        "use_rslora": False, "use_dora": False, "lora_bias": False, "fan_in_fan_out": False,
        "rank_pattern": {}, "alpha_pattern": {}, "modules_to_save": None}) + "\n")
    write_tokenizer(out / "tokenizer.json", config.vocab_size)
    adapters, models = {}, {}
    for task in JINA_TASKS:
        model = copy.deepcopy(base).double()
        whole = dict(model.named_parameters()) | {"projector": projector.double()}
        for key, w in whole.items():
            if key != "projector" and not any(f".{p}.weight" in key for p in ADAPTED):
                continue
            a = torch.randn((JINA_RANK, w.shape[1]), generator=gen) / w.shape[1] ** 0.5
            b = torch.randn((w.shape[0], JINA_RANK), generator=gen) / JINA_RANK ** 0.5
            with torch.no_grad():
                w += b.double() @ a.double() * (JINA_ALPHA / JINA_RANK)
            stem = "base_model.model." + (
                "multi_vector_projector" if key == "projector" else
                "model.language_model." + key.removesuffix(".weight"))
            adapters[f"{stem}.lora_A.{task}.weight"] = a
            adapters[f"{stem}.lora_B.{task}.weight"] = b
        models[task] = model, whole["projector"]
    save_file(adapters, out / "adapters/adapter_model.safetensors")
    texts, rows = [], []
    with torch.no_grad():
        for i, n in enumerate([5, 40, 1, 17, 30, 9]):
            ids = torch.randint(2, config.vocab_size, (1, n), generator=gen)
            task = JINA_TASKS[i % 3]
            y = models[task][0](input_ids=ids).last_hidden_state[0]
            x = y.mean(0)
            z = y @ models[task][1].T + bias.double()
            texts.append({"ids": ids[0].tolist(), "types": [0] * n, "task": task,
                          "want": [float(f"{v:.9g}") for v in (x / x.norm()).tolist()]})
            rows.append({"ids": ids[0].tolist(), "types": [0] * n, "task": task, "want": [
                float(f"{v:.9g}") for v in (z[-1] / z[-1].norm()).tolist()]})
    (out / "case.json").write_text(json.dumps({"kind": "vectors", "texts": texts}) + "\n")
    (out / "case-rows.json").write_text(json.dumps({"kind": "rows", "texts": rows}) + "\n")
    print(f"{name}: {sum(f.stat().st_size for f in out.rglob('*') if f.is_file())} bytes")


def main():
    for seed, name in enumerate(MODELS):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, seed)
    for seed, name in enumerate(SAVED):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make_saved(name, seed + 800)
    if len(sys.argv) == 1 or "jina-v4" in sys.argv[1:]:
        make_jina("jina-v4", 700)


if __name__ == "__main__":
    main()
