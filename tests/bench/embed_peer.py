# SPDX-License-Identifier: Apache-2.0
"""Computes vectors with a Python library. embed_service.py starts this program with the Python
interpreter that has the library.

    embed_peer.py sentence-transformers|onnxruntime MODEL_DIR

Prints its name, then reads objects {"texts": […], "answer": BOOL}, one per line. For each object it
prints {"seconds": S}, and also the vectors if "answer" is true. Uses two threads.
"""
import json
import os
import pathlib
import sys
import tempfile
import time

import need

os.environ.update(OMP_NUM_THREADS="2", MKL_NUM_THREADS="2", TOKENIZERS_PARALLELISM="false",
                  HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
PART = 32  # texts per padded batch, as in sentence-transformers


def tokenizer(directory):
    tok = need.module("tokenizers", pypi="tokenizers").Tokenizer.from_file(directory + "/tokenizer.json")
    tok.enable_padding()
    tok.enable_truncation(256)
    return tok


def by_length(texts, compute):
    """Computes the longest texts first, so that little is padded. Returns vectors in text order."""
    order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
    out = [None] * len(texts)
    for i in range(0, len(order), PART):
        part = order[i:i + PART]
        for k, v in zip(part, compute([texts[j] for j in part])):
            out[k] = v
    return out


class SentenceTransformers:
    def __init__(self, directory):
        self.torch = torch = need.module("torch", "python3-torch", "torch")
        torch.set_num_threads(2)
        try:
            from sentence_transformers import SentenceTransformer
            self.model = SentenceTransformer(directory, device="cpu")
            self.name = "sentence-transformers"
        except ImportError:
            transformers = need.module("transformers", pypi="transformers")
            self.model = transformers.AutoModel.from_pretrained(directory).eval()
            self.tok = tokenizer(directory)
            self.name = "transformers"

    def compute(self, texts):
        torch = self.torch
        with torch.inference_mode():
            e = self.tok.encode_batch(texts)
            ids = torch.tensor([x.ids for x in e])
            mask = torch.tensor([x.attention_mask for x in e])
            h = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            v = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            return torch.nn.functional.normalize(v).numpy()

    def embed(self, texts):
        if self.name == "transformers":
            return by_length(texts, self.compute)
        return self.model.encode(texts, batch_size=PART, normalize_embeddings=True,
                                 show_progress_bar=False)


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, directory):
        self.np = need.module("numpy", "python3-numpy", "numpy")
        onnxruntime = need.module("onnxruntime", pypi="onnxruntime")
        self.tok = tokenizer(directory)
        with tempfile.TemporaryDirectory() as d:
            path = next(pathlib.Path(directory).rglob("model.onnx"), None)
            if not path:
                path = os.path.join(d, "model.onnx")
                export(directory, path)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 2
            self.session = onnxruntime.InferenceSession(str(path), options,
                                                        ["CPUExecutionProvider"])
        self.inputs = {i.name for i in self.session.get_inputs()}

    def compute(self, texts):
        np = self.np
        e = self.tok.encode_batch(texts)
        mask = np.array([x.attention_mask for x in e], np.int64)
        feed = {"input_ids": np.array([x.ids for x in e], np.int64), "attention_mask": mask,
                "token_type_ids": np.zeros_like(mask)}
        h = self.session.run(None, {k: v for k, v in feed.items() if k in self.inputs})[0]
        v = (h * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return v / np.linalg.norm(v, axis=1, keepdims=True)

    def embed(self, texts):
        return by_length(texts, self.compute)


def export(directory, path):
    torch = need.module("torch", "python3-torch", "torch")
    transformers = need.module("transformers", pypi="transformers")
    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    ids = torch.ones((2, 8), dtype=torch.int64)

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.model(input_ids=input_ids, attention_mask=attention_mask,
                              token_type_ids=token_type_ids).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "n", 1: "len"} for name in names + ["rows"]}
    with torch.inference_mode():
        torch.onnx.export(Rows(), (ids, ids, ids * 0), path, input_names=names,
                          output_names=["rows"], dynamic_axes=axes, dynamo=False)


def main():
    kinds = {"sentence-transformers": SentenceTransformers, "onnxruntime": OnnxRuntime}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to standard output
    peer = kinds[sys.argv[1]](sys.argv[2])
    print(peer.name, file=out, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        begin = time.perf_counter()
        vectors = peer.embed(question["texts"])
        answer = {"seconds": time.perf_counter() - begin}
        if question.get("answer"):
            answer["vectors"] = [[float(x) for x in v] for v in vectors]
        print(json.dumps(answer), file=out, flush=True)


main()
