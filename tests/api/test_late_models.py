# SPDX-License-Identifier: Apache-2.0
"""Tests late-interaction models as ColBERT's own code, PyLate and sentence-transformers store them:
markers, padded queries, tokens that do not count. The expected values come from
sentence-transformers.
"""
import json
import shutil
import struct
import urllib.request

import pytest

from conftest import Suite, check_log
from test_embed import GOLDEN, copy_models, post

PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


def case_of(name):
    return json.loads((GOLDEN / name / "case-late.json").read_text())


def edit(path, **values):
    config = json.loads(path.read_text()) if path.exists() else {}
    config.update(values)
    path.write_text(json.dumps(config))


def read_tensors(path):
    """Returns the tensors of a safetensors file: {name: (description, bytes)}."""
    data = path.read_bytes()
    n, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {name: (t, data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
            for name, t in head.items()}


def write_tensors(path, tensors):
    head, data = {}, b""
    for name, (t, piece) in tensors.items():
        head[name] = {**t, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def make_pylate(path):
    """Stores colbert in PyLate's format: the markers are in the configuration, and the projection is
    in a folder of its own."""
    shutil.copytree(GOLDEN / "colbert", path)
    tensors = read_tensors(path / "model.safetensors")
    (path / "1_Dense").mkdir()
    write_tensors(path / "1_Dense/model.safetensors",
                  {"linear.weight": tensors.pop("linear.weight")})
    write_tensors(path / "model.safetensors",
                  {k.removeprefix("bert."): v for k, v in tensors.items()})
    (path / "artifact.metadata").unlink()
    edit(path / "config.json", architectures=["BertModel"])
    edit(path / "1_Dense/config.json", in_features=32, out_features=16, bias=False,
         activation_function="torch.nn.modules.linear.Identity")
    (path / "modules.json").write_text(json.dumps([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}]))
    edit(path / "config_sentence_transformers.json", model_type="ColBERT", query_prefix="[unused0] ",
         document_prefix="[unused1] ", query_length=24, document_length=40,
         attend_to_expansion_tokens=False, skiplist_words=list(PUNCTUATION), prompts={},
         default_prompt_name=None, similarity_fn_name="MaxSim")


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("late-models")
    copy_models(path, "colbert", "colbert-modern")
    make_pylate(path / "colbert-pylate")
    suite = Suite(path, embed="  max_models: 8\n")
    yield suite
    check_log(suite.close())


def rows(suite, model, text, **body):
    status, answer, _ = post(suite, "/v1/embeddings", {
        "model": model, "input": text, "return_multivector": True, **body})
    assert status == 200, answer
    return answer["data"][0]["embeddings"]


def is_near(got, want):
    assert len(got) == len(want)
    for x, y in zip(got, want):
        assert sum(a * b for a, b in zip(x, y)) > 0.999995


@pytest.mark.parametrize("model, golden", [("colbert", "colbert"), ("colbert-pylate", "colbert"),
                                           ("colbert-modern", "colbert-modern")])
def test_vectors_are_those_of_sentence_transformers(suite, model, golden):
    case = case_of(golden)
    for text in case["query"]:
        is_near(rows(suite, model, text["text"], prompt_name="query", truncate=True), text["want"])
    for text in case["document"]:
        is_near(rows(suite, model, text["text"], truncate=True), text["want"])
        is_near(rows(suite, model, text["text"], prompt_name="document", truncate=True),
                text["want"])
    texts = [text["text"] for text in case["document"]]
    answer = post(suite, "/embed_all", {"model": model, "inputs": texts, "truncate": True})[1]
    for got, text in zip(answer, case["document"]):
        is_near(got, text["want"])


@pytest.mark.parametrize("model", ["colbert", "colbert-modern"])
def test_rankings_are_those_of_sentence_transformers(suite, model):
    case = case_of(model)
    texts = [text["text"] for text in case["document"]]
    for query, scores in zip(case["query"], case["scores"]):
        status, answer, _ = post(suite, "/rerank", {
            "model": model, "query": query["text"], "texts": texts, "raw_scores": True,
            "truncate": True})
        assert status == 200, answer
        for item in answer:
            assert abs(item["score"] - scores[item["index"]]) < 2e-4
        assert [item["index"] for item in answer] == \
            sorted(range(len(texts)), key=lambda i: -scores[i])
        status, answer, _ = post(suite, "/v1/rerank", {"model": model, "query": query["text"],
                                                       "documents": texts})
        for item in answer["results"]:
            assert abs(item["relevance_score"] * len(query["want"]) - scores[item["index"]]) < 2e-4


def test_long_texts_are_cut_on_request(suite):
    for body, n in (({"prompt_name": "query"}, 24), ({}, 40)):
        status, answer, _ = post(suite, "/v1/embeddings", {
            "model": "colbert", "input": "a" * 60, "return_multivector": True, **body})
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
        assert " %d tokens" % n in answer["error"]["message"]
        assert len(rows(suite, "colbert", "a" * 60, truncate=True, **body)) == n


def test_they_are_listed_among_those_of_vectors(suite):
    models = json.load(urllib.request.urlopen(suite.url + "/v1/models", timeout=30))["data"]
    tasks = {model["id"]: model["task"] for model in models}
    assert tasks["colbert"] == tasks["colbert-modern"] == "embedding"


def test_late_models_make_no_other_results(suite):
    for model in ("colbert", "colbert-modern"):
        status, answer, _ = post(suite, "/v1/embeddings", {"model": model, "input": "a"})
        assert status == 400 and answer["error"]["code"] == "unsupported_model"
        assert "late interaction" in answer["error"]["message"]


def test_words_of_a_client_stand_behind_the_marker(suite):
    assert rows(suite, "colbert", "b", prompt="a ") == rows(suite, "colbert", "a b")
    status, answer, _ = post(suite, "/v1/embeddings", {
        "model": "colbert", "input": "a", "return_multivector": True, "prompt_name": "passage"})
    assert status == 400 and answer["error"]["code"] == "unknown_prompt"
    ids = [2, 6, 18, 3]
    assert rows(suite, "colbert", ids) == rows(suite, "colbert", "a")


def test_all_token_ids_of_a_client_count(suite):
    ids = [2, 6, 18, 7, 3]  # "a."
    assert len(rows(suite, "colbert", ids)) == 5
    assert [v for i, v in enumerate(rows(suite, "colbert", ids)) if i != 3] == \
        rows(suite, "colbert", "a.")


@pytest.mark.parametrize("name, file, values, told", [
    ("colbert", "artifact.metadata", {"query_maxlen": "x"}, "query_maxlen"),
    ("colbert", "artifact.metadata", {"doc_maxlen": 0}, "doc_maxlen"),
    ("colbert-modern", "sentence_bert_config.json", {"query_expansion": {"strategy": "new"}}, "new"),
    ("colbert-modern", "sentence_bert_config.json",
     {"query_expansion": {"strategy": "min", "length": 9, "token": "[NONE]"}}, "[NONE]"),
    ("colbert-modern", "2_MultiVectorMask/config.json", {"keep_only_token_ids": [5]},
     "keep_only_token_ids"),
    ("colbert-modern", "2_MultiVectorMask/config.json", {"skiplist_words": [5]}, "skiplist_words"),
    ("colbert-modern", "2_MultiVectorMask/config.json", {"skiplist_words": 5}, "skiplist_words"),
    ("colbert-modern", "1_Dense/config.json", {"use_residual": True}, "use_residual"),
])
def test_files_with_unsupported_features_are_refused(tmp_path, name, file, values, told):
    copy_models(tmp_path, name)
    edit(tmp_path / name / file, **values)
    suite = Suite(tmp_path)
    try:
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a", "model": name,
                                                           "return_multivector": True})
        assert status == 400
        assert answer["error"]["code"] in ("model_unusable", "unsupported_model")
        assert told in answer["error"]["message"]
    finally:
        suite.close()


def test_queries_may_skip_too_and_need_not_be_filled(tmp_path):
    copy_models(tmp_path, "colbert-modern")
    path = tmp_path / "colbert-modern"
    edit(path / "2_MultiVectorMask/config.json", skiplist_tasks=["query", "document"])
    edit(path / "sentence_bert_config.json", query_expansion=None, query_length=10)
    suite = Suite(tmp_path)
    try:
        assert len(rows(suite, "colbert-modern", "a.b", prompt_name="query")) == 5
        assert len(rows(suite, "colbert-modern", "a.b")) == 5
        assert len(rows(suite, "colbert-modern", "a" * 30, prompt_name="query", truncate=True)) == 10
    finally:
        check_log(suite.close())
