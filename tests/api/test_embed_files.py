# SPDX-License-Identifier: Apache-2.0
"""Tests that the service obeys what the files of a model say about its vectors: lengths of texts,
shorter vectors, token types of text pairs."""
import json
import shutil

import pytest

from conftest import Suite, check_log
from test_embed import GOLDEN, add_config, copy_models, post, vectors


def mark_pairs(directory, kind):
    """Changes the template of text pairs: the second text and the last separator get the token type
    @kind."""
    path = directory / "tokenizer.json"
    tok = json.loads(path.read_text())
    special = lambda name, k: {"SpecialToken": {"id": name, "type_id": k}}
    text = lambda name, k: {"Sequence": {"id": name, "type_id": k}}
    tok["post_processor"] = {
        "type": "TemplateProcessing", "single": [special("}", 0), text("A", 0), special("~", 0)],
        "pair": [special("}", 0), text("A", 0), special("~", 0), text("B", kind),
                 special("~", kind)],
        "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]}
                           for t, i in (("}", 92), ("~", 93))}}
    path.write_text(json.dumps(tok))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    copy_models(path, "bert-mean", "bert-cls-dense")
    add_config(path / "bert-mean", matryoshka_dimensions=[8, 16, 32])
    for kind in (0, 1):
        shutil.copytree(GOLDEN / "modernbert-rank", path / ("marked-%d-reranker" % kind))
        mark_pairs(path / ("marked-%d-reranker" % kind), kind)
    shutil.copytree(GOLDEN / "bert-saved", path / "plain")
    (path / "nested.yaml").write_text("path: plain\nmatryoshka: true\n")
    shutil.copytree(GOLDEN / "bert-saved", path / "jina-embeddings-v3-tiny")
    return path


@pytest.fixture(scope="module")
def suite(models):
    suite = Suite(models, embed="  max_models: 8\n")
    yield suite
    check_log(suite.close())


def test_dimensions_are_for_models_that_were_trained_for_them(suite):
    """The dimensions come from the model's files, from its family's name, or from a manifest."""
    for name in ("bert-mean", "jina-embeddings-v3-tiny", "nested"):
        assert len(vectors(suite, input="abc", model=name, dimensions=8)[0]) == 8
    for path, body in (("/v1/embeddings", {"input": "abc"}), ("/embed", {"inputs": "abc"}),
                       ("/v1/similarity", {"a": ["abc"], "b": ["b"]})):
        status, answer, _ = post(suite, path,
                                 {**body, "model": "bert-cls-dense", "dimensions": 8})
        assert status == 400, path
        error = answer["error"] if isinstance(answer["error"], dict) else answer
        assert error["code"] == "unsupported_parameter" and error["param"] == "dimensions"
    # A request may ask any model for all dimensions, because then nothing is cut off.
    assert len(vectors(suite, input="abc", model="bert-cls-dense", dimensions=16)[0]) == 16


def test_texts_are_cut_where_sentence_transformers_cuts_them(suite):
    case = json.loads((GOLDEN / "bert-saved/case.json").read_text())["texts"][-1]
    text = "".join(chr(33 + i) for i in case["ids"]) + "abc" * 10
    got, = vectors(suite, input=text, model="nested", truncate=True)
    assert sum(x * y for x, y in zip(got, case["want"])) > 1 - 1e-6
    status, answer, _ = post(suite, "/v1/embeddings", {"input": text, "model": "nested"})
    assert status == 400 and "20 tokens" in answer["error"]["message"]


def test_rerankers_without_types_read_marked_pairs(suite):
    """The template gives the second text a token type for which the model has no table."""
    plain, marked = (post(suite, "/v1/rerank", {
        "model": "marked-%d-reranker" % kind, "query": "abc", "documents": ["first", "other"]})
        for kind in (0, 1))
    assert plain[0] == marked[0] == 200, marked[1]
    assert plain[1]["results"] == marked[1]["results"]
