#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the tiny random late-interaction models of tests/golden/embed: "colbert" in the format of
ColBERT's own code, and "colbert-modern" in the format of sentence-transformers.

case-late.json has queries and documents with their vectors of tokens, and the score of each pair of
a query and a document: the sum of the best cosines. sentence-transformers computes vectors and
scores in double precision. The file also has the token ids of the texts, and says to which tokens
the encoder attends.

Needs: torch 2.x, transformers 5.x, sentence-transformers 6.x, tokenizers, safetensors. Run it in
this directory:

    python3 make_late_models.py
"""

import json
import pathlib
import shutil
import string
import tempfile

import torch
from safetensors.torch import save_file
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from tokenizers import (AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors)
from transformers import BertConfig, BertModel, ModernBertConfig, ModernBertModel

from make_models import fill

OUT = pathlib.Path(__file__).resolve().parent / "embed"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]"]
PUNCTUATION = list(".,!?;:-()'\"")
LETTERS = list(string.ascii_lowercase)
QUERIES = ["what is abc?", "b", "a question, of more words than there is room for in a query"]
DOCUMENTS = ["abc is a (short) text.", "zzz", "it's: no, yes! and - much; else?",
             "a document that is somewhat longer than the others are"]


def write_wordpiece(out, vocab_size):
    pieces = SPECIAL + PUNCTUATION + LETTERS + ["##" + c for c in LETTERS]
    assert len(pieces) <= vocab_size
    tok = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    write_tokenizer(out, tok, "BertTokenizer")


def write_bpe(out, vocab_size):
    pieces = SPECIAL[:5] + [chr(c) for c in range(33, 127)] + ["Ġ"]
    assert len(pieces) + 2 <= vocab_size
    tok = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [], unk_token="[UNK]"))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tok.add_tokens([AddedToken("[Q] ", normalized=True), AddedToken("[D] ", normalized=True)])
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    write_tokenizer(out, tok, "PreTrainedTokenizerFast")


def write_tokenizer(out, tok, kind):
    tok.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": kind, "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]",
        "unk_token": "[UNK]", "mask_token": "[MASK]", "model_max_length": 80}) + "\n")


def make_colbert(out):
    config = BertConfig(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                        num_attention_heads=4, max_position_embeddings=80, pad_token_id=0)
    model = BertModel(config).eval()
    fill(model, 300)
    gen = torch.Generator().manual_seed(301)
    tensors = {"bert." + k: v.contiguous() for k, v in model.state_dict().items()}
    save_file(tensors | {"linear.weight": torch.randn((16, 32), generator=gen) / 32 ** 0.5},
              out / "model.safetensors", {"format": "pt"})
    values = {k: v for k, v in config.to_dict().items() if v is not None}
    (out / "config.json").write_text(json.dumps(
        values | {"architectures": ["HF_ColBERT"]}, indent=2, sort_keys=True) + "\n")
    (out / "artifact.metadata").write_text(json.dumps({
        "query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_token": "[Q]",
        "doc_token": "[D]", "query_maxlen": 24, "doc_maxlen": 40, "mask_punctuation": True,
        "attend_to_mask_tokens": False, "dim": 16, "similarity": "cosine"}, indent=2) + "\n")
    write_wordpiece(out, config.vocab_size)


def make_modern(out):
    config = ModernBertConfig(
        vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
        num_attention_heads=4, max_position_embeddings=80, local_attention=24, pad_token_id=0,
        bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3)
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder)
        model = ModernBertModel(config).eval()
        fill(model, 310)
        model.save_pretrained(bare)
        write_bpe(bare, config.vocab_size)
        transformer = Transformer(str(bare), document_length=48, query_expansion={
            "strategy": "min", "attend": True, "length": 20})
        gen = torch.Generator().manual_seed(311)
        dense = Dense(32, 12, bias=False, activation_function=torch.nn.Identity(),
                      init_weight=torch.randn((12, 32), generator=gen) / 32 ** 0.5,
                      module_input_name="token_embeddings")
        MultiVectorEncoder(
            modules=[transformer, dense, MultiVectorMask(PUNCTUATION),
                     Normalize(module_input_name="token_embeddings")],
            prompts={"query": "[Q] ", "document": "[D] "}).save_pretrained(str(out))
    (out / "README.md").unlink(missing_ok=True)


def numbers(rows):
    return [[float(f"{x:.9g}") for x in row] for row in rows.tolist()]


def texts_of(model, task, texts):
    encode = model.encode_query if task == "query" else model.encode_document
    made = []
    for text in texts:
        features = model.preprocess([text], prompt=model.prompts[task], task=task)
        made.append({"text": text, "ids": features["input_ids"][0].tolist(),
                     "n_seen": int(features["attention_mask"][0].sum()),
                     "want": numbers(torch.as_tensor(encode(text)))})
    return made


def write_case(out):
    model = MultiVectorEncoder(str(out), device="cpu").double()
    case = {"query": texts_of(model, "query", QUERIES),
            "document": texts_of(model, "document", DOCUMENTS)}
    vectors = {"query": model.encode_query(QUERIES), "document": model.encode_document(DOCUMENTS)}
    # The encoder does not attend to the tokens with which these texts are padded. This case tests
    # layers with windows.
    model[0].query_expansion = {"strategy": "min", "attend": False, "length": 14}
    case["unseen"] = texts_of(model, "query", ["b", "abc x"])
    case["scores"] = [[float((torch.as_tensor(q) @ torch.as_tensor(d).T).max(1).values.sum())
                       for d in vectors["document"]] for q in vectors["query"]]
    (out / "case-late.json").write_text(json.dumps(case) + "\n")


def main():
    for name, make in (("colbert", make_colbert), ("colbert-modern", make_modern)):
        out = OUT / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        make(out)
        write_case(out)
        print(f"{name}: {sum(f.stat().st_size for f in out.rglob('*') if f.is_file())} bytes")


if __name__ == "__main__":
    main()
