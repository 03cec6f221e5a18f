# SPDX-License-Identifier: Apache-2.0
"""Tests multivectors (one vector per token), tasks with their prompts, and rankings by late
interaction.

The model that makes multivectors is the tiny jina-v4 of tests/golden/embed. The expected vectors
come from another implementation.
"""
import base64
import json
import struct
import subprocess

import pytest

from conftest import BUILD, SLOW, Suite, check_log
from test_embed import GOLDEN, copy_models, norm, post, vectors

SCONCE = BUILD / "services/cli/sconce"

pytestmark = pytest.mark.sanitize


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("token-models")
    copy_models(path, "jina-v4", "bert-mean")
    suite = Suite(path, embed="  default_model: jina-v4\n  max_token_vectors: 64KiB\n"
                  "  max_models: 4\n")
    yield suite
    check_log(suite.close())


def rows(suite, **body):
    status, answer, _ = post(suite, "/v1/embeddings", {"return_multivector": True, **body})
    assert status == 200, answer
    assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
    assert all(item["object"] == "embeddings" for item in answer["data"])
    return [item["embeddings"] for item in answer["data"]]


def late(query, document):
    return sum(max(sum(x * y for x, y in zip(q, d)) for d in document) for q in query)


def test_they_are_those_of_another_implementation(suite):
    for text in json.loads((GOLDEN / "jina-v4/case-rows.json").read_text())["texts"]:
        got, = rows(suite, input=text["ids"], task=text["task"])
        assert len(got) == len(text["ids"]) and {len(v) for v in got} == {24}
        assert all(abs(norm(v) - 1) < 1e-5 for v in got)
        # The golden file has the vector of the last token.
        assert sum(x * y for x, y in zip(got[-1], text["want"])) > 0.999 * norm(text["want"])


def test_both_formats_and_both_endpoints_say_the_same(suite):
    texts = ["abc", "b", "a longer text, of letters"]
    plain = rows(suite, input=texts)
    assert len({len(text) for text in plain}) > 1
    for name in ("encoding_format", "embedding_type"):
        packed = rows(suite, input=texts, **{name: "base64"})
        assert [[list(struct.unpack("<24f", base64.b64decode(v, validate=True))) for v in text]
                for text in packed] == \
            [[list(struct.unpack("24f", struct.pack("24f", *v))) for v in text] for text in plain]
    assert post(suite, "/embed_all", {"inputs": texts})[1] == plain
    assert post(suite, "/embed_all", {"inputs": "abc"})[1] == plain[:1]
    # The vectors of a text depend neither on its neighbors nor on the form of the input.
    assert rows(suite, input="b") == [plain[1]]
    assert rows(suite, input=[{"text": "b"}, "abc"]) == [plain[1], plain[0]]
    assert all(abs(norm(v) - 1) < 1e-5 for v in rows(suite, input="abc", dimensions=8)[0])


def test_usage_counts_tokens(suite):
    status, answer, _ = post(suite, "/v1/embeddings", {"input": ["abc", "b"],
                                                       "return_multivector": True})
    assert status == 200 and answer["model"] == "jina-v4" and answer["object"] == "list"
    assert answer["usage"]["total_tokens"] == sum(len(d["embeddings"]) for d in answer["data"])


def test_other_models_return_the_rows_before_pooling(suite):
    text = "a text of letters"
    whole, = vectors(suite, model="bert-mean", input=text, normalize=False)
    raw = post(suite, "/embed_all", {"model": "bert-mean", "inputs": text})[1][0]
    assert rows(suite, model="bert-mean", input=text, normalized=False) == [raw]
    for i, x in enumerate(whole):
        assert abs(sum(v[i] for v in raw) / len(raw) - x) < 1e-4 * norm(whole)
    for v in post(suite, "/embed_all", {"model": "bert-mean", "inputs": text,
                                        "normalize": True})[1][0]:
        assert abs(norm(v) - 1) < 1e-5


def test_tasks_name_their_prompts(suite):
    def same(named, text, **other):
        assert vectors(suite, input="abc", task=named) == vectors(suite, input=text, **other)

    same("retrieval.query", "Query: abc", task="retrieval")
    same("retrieval.passage", "Passage: abc", task="retrieval")
    same("code.query", "Query: abc", task="code")
    same("code.passage", "abc", task="code", prompt_name="passage")
    same("text-matching", "abc", task="text-matching")
    assert rows(suite, input="abc", task="code.query") == \
        rows(suite, input="Query: abc", task="code")
    for task, param in (("retrieval.none", "prompt_name"), ("none", "task"), ("none.query", "task"),
                        ("retrieval.", "task"), (".query", "task"), ("query", "task")):
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a", "task": task})
        assert (status, answer["error"]["param"]) == (400, param), answer
    for body in ({"prompt_name": "passage"}, {"prompt": "a"}, {"input": [5, 6]}):
        status, answer, _ = post(suite, "/v1/embeddings",
                                 {"input": "a", "task": "retrieval.query", **body})
        assert (status, answer["error"]["param"]) == (400, "task"), answer
        assert answer["error"]["code"] == "invalid_value"


@pytest.mark.parametrize("path, body, code, param", [
    ("/v1/embeddings", {"input": "a", "return_multivector": 1}, "invalid_type",
     "return_multivector"),
    ("/v1/embeddings", {"input": "a", "embedding_type": "binary"}, "invalid_value",
     "embedding_type"),
    ("/v1/embeddings", {"input": "a", "normalized": 1}, "invalid_type", "normalized"),
    ("/v1/embeddings", {"input": "a", "return_multivector": True, "dimensions": 25},
     "invalid_value", "dimensions"),
    ("/v1/embeddings", {"input": [{"image": "a"}]}, "invalid_type", "input[0]"),
    ("/v1/embeddings", {"input": [{"text": "a", "image": "b"}]}, "unknown_field",
     "input[0].image"),
    ("/v1/embeddings", {"input": [{"text": ""}]}, "empty_input", "input[0]"),
    # 64 KiB are 682 vectors of 24 numbers.
    ("/v1/embeddings", {"input": [[5] * 100] * 7, "return_multivector": True}, "too_many_vectors",
     "input"),
    ("/embed_all", {"inputs": [[5] * 100] * 7}, "too_many_vectors", "inputs"),
    ("/embed_all", {"inputs": "a", "raw": True}, "unknown_field", "raw"),
    ("/embed_all", {"inputs": ""}, "empty_input", "inputs"),
    ("/embed_all", {"input": "a"}, "unknown_field", "input"),
    ("/v1/rerank", {"model": "jina-v4", "query": "a", "documents": ["b"], "instruction": "c"},
     "unsupported_field", "instruction"),
    ("/v1/rerank", {"model": "jina-v4", "query": "a", "documents": ["b"],
                    "task": "retrieval.query"}, "unknown_task", "task"),
    ("/v1/rerank", {"model": "jina-v4", "query": "a", "documents": ["b" * 90] * 64},
     "too_many_vectors", "documents"),
])
def test_mistakes_in_requests_are_named(suite, path, body, code, param):
    status, answer, _ = post(suite, path, body)
    assert status == 400, answer
    if path == "/embed_all":
        assert (answer["code"], answer["param"]) == (code, param)
        assert answer["error_type"] == ("Empty" if code == "empty_input" else "Validation")
    else:
        assert (answer["error"]["code"], answer["error"]["param"]) == (code, param)


def test_the_limit_is_for_vectors_of_tokens_alone(suite):
    assert len(rows(suite, input=[[5] * 97] * 7)) == 7
    assert len(rows(suite, input=[[5] * 100] * 7, dimensions=20)) == 7
    assert len(vectors(suite, input=[[5] * 100] * 7)) == 7


def test_rankings_by_late_interaction(suite):
    texts = ["zzz", "abc def", "a", "what is abc?"]
    query, = rows(suite, input="abc", task="retrieval.query")
    documents = rows(suite, input=texts, task="retrieval.passage")
    want = [late(query, d) for d in documents]
    status, answer, _ = post(suite, "/v1/rerank", {
        "model": "jina-v4", "query": "abc", "documents": texts, "return_documents": True})
    assert status == 200, answer
    assert [item["index"] for item in answer["results"]] == \
        sorted(range(4), key=lambda i: -want[i])
    for item in answer["results"]:
        assert abs(item["relevance_score"] - want[item["index"]] / len(query)) < 1e-5
        assert item["document"]["text"] == texts[item["index"]]
    assert answer["usage"]["total_tokens"] == len(query) + sum(map(len, documents))
    status, raw, _ = post(suite, "/rerank", {"model": "jina-v4", "query": "abc", "texts": texts,
                                             "raw_scores": True})
    assert status == 200 and all(abs(item["score"] - want[item["index"]]) < 1e-4 for item in raw)
    status, best, _ = post(suite, "/v1/rerank", {"model": "jina-v4", "query": "abc", "top_n": 1,
                                                 "documents": texts, "task": "code"})
    query, = rows(suite, input="abc", task="code.query")
    documents = rows(suite, input=texts, task="code.passage")
    want = [late(query, d) / len(query) for d in documents]
    assert len(best["results"]) == 1
    assert abs(best["results"][0]["relevance_score"] - max(want)) < 1e-5


def test_health_and_metrics_say_what_models_make(suite):
    rows(suite, input="a")
    vectors(suite, input="a")
    deep = json.loads(suite.observe("/health?deep=1"))
    assert {"token_vectors", "vectors"} <= {m["makes"] for m in deep["services"]["embed"]["models"]}
    assert suite.metrics()[
        'sconce_embed_model_tokens_total{model_name="jina-v4",makes="token_vectors"}'] > 0


def run(suite, *words, text=None):
    return subprocess.run([str(SCONCE), "embed", "--address", "unix:" + suite.gateway_sock,
                           *map(str, words)], capture_output=True, text=True, input=text,
                          timeout=60 * SLOW)


def test_the_command_line_has_them(suite, tmp_path):
    r = run(suite, "--token-vectors", "--task", "code.query", "abc")
    assert r.returncode == 0, r.stderr
    assert json.loads(r.stdout) == rows(suite, input="abc", task="code.query")[0]
    texts = ["abc", "b", "a longer text"] * 5
    (tmp_path / "in.txt").write_text("".join(t + "\n" for t in texts[:2] + [""] + texts[2:]))
    r = run(suite, tmp_path / "in.txt", "--token-vectors", "-b", 4, "-o", tmp_path / "out.jsonl")
    assert r.returncode == 1 and "in.txt:3: " in r.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == 16 and "error" in lines.pop(2)
    for line, text in zip(lines, texts):
        assert line["embeddings"] == rows(suite, input=text)[0]
    r = run(suite, tmp_path / "in.txt", "--token-vectors", "-o", tmp_path / "out.npy")
    assert r.returncode == 2 and ".npy" in r.stderr
    (tmp_path / "long.txt").write_text(("a" * 90 + "\n") * 10)
    r = run(suite, tmp_path / "long.txt", "--token-vectors")
    assert r.returncode == 1 and "fewer at once" in r.stderr
    assert run(suite, tmp_path / "long.txt", "--token-vectors", "-b", 2).returncode == 0
