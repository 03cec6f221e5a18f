# SPDX-License-Identifier: Apache-2.0
"""Tests llama-server's routes: /completion, /infill, /props, /slots, and those without /v1."""
import json
import shutil
import struct
import threading
import urllib.error
import urllib.request

import pytest

from conftest import ROOT, STORIES, Suite, check_log

pytestmark = pytest.mark.sanitize
GOLDEN = ROOT / "tests/golden/embed"
FIM = {"tokenizer.ggml.fim_pre_token_id": 509, "tokenizer.ggml.fim_suf_token_id": 510,
       "tokenizer.ggml.fim_mid_token_id": 511}


def add_numbers(source, target, pairs):
    """Copies a GGUF file and adds metadata: numbers, and a text that keeps the data aligned."""
    data = source.read_bytes()
    magic, version, n_tensors, n_meta = struct.unpack_from("<4sIQQ", data, 0)
    extra = b""
    for key, value in pairs.items():
        kind, form = (6, "f") if isinstance(value, float) else (4, "I")
        extra += struct.pack("<Q%dsI%s" % (len(key), form), len(key), key.encode(), kind, value)
    pad = -(len(extra) + 8 + 3 + 4 + 8) % 32
    extra += struct.pack("<Q3sIQ", 3, b"pad", 8, pad) + b"x" * pad
    target.write_bytes(struct.pack("<4sIQQ", magic, version, n_tensors, n_meta + len(pairs) + 1) +
                       extra + data[24:])


def make_mistral(target):
    """Makes a tiny model whose tokens for filling in the middle have Mistral's names."""
    shutil.copytree(ROOT / "tests/golden/models/llama-gqa", target)
    tokenizer = json.loads((target / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    for old, name in (("{", "[PREFIX]"), ("|", "[SUFFIX]"), ("}", "[MIDDLE]")):
        vocab[name] = vocab.pop(old)
        tokenizer["added_tokens"].append(
            {"id": vocab[name], "content": name, "single_word": False, "lstrip": False,
             "rstrip": False, "normalized": False, "special": True})
    (target / "tokenizer.json").chmod(0o644)
    (target / "tokenizer.json").write_text(json.dumps(tokenizer))


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("llama-models")
    shutil.copy(model_dir / "tiny.gguf", path / "tiny.gguf")
    add_numbers(model_dir / "tiny.gguf", path / "coder.gguf",
                {**FIM, "general.sampling.temp": 0.25, "general.sampling.top_k": 7})
    (path / "named.yaml").write_text(
        "path: coder.gguf\nname: named\nsampling:\n  temperature: 0.5\n  min_p: 0.125\n")
    make_mistral(path / "mistral")
    shutil.copytree(GOLDEN / "bert-mean", path / "bert-mean")
    shutil.copytree(GOLDEN / "bert-rank", path / "bert-rank")
    return path


@pytest.fixture(scope="module")
def suite(models):
    suite = Suite(models, chat="  context: 256\n  max_sequences: 2\n  most_tokens: 64\n"
                               "sampling:\n  top_p: 0.75\n",
                  embed="  default_model: bert-mean\n  default_reranker: bert-rank\n")
    yield suite
    check_log(suite.close())


def call(suite, path, body=None, headers=None):
    """Returns the status and the answer; with a body it is a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(suite.url + path, data,
                                     {"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request, timeout=60) as r:
            return r.status, json.load(r)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def stream(suite, path, body):
    request = urllib.request.Request(suite.url + path, json.dumps({**body, "stream": True}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as r:
        lines = r.read().decode().split("\n\n")
    return [json.loads(x[6:]) for x in lines if x.startswith("data: {")]


def refused(suite, path, body, param):
    status, answer = call(suite, path, body)
    assert status == 400, answer
    assert answer["error"]["param"] == param, answer
    return answer["error"]


def test_completion(suite):
    status, a = call(suite, "/completion", {"prompt": "Once upon a time", "n_predict": 8,
                                            "temperature": 0, "return_tokens": True})
    assert status == 200
    assert len(a["tokens"]) == 8 and a["tokens_predicted"] == 8 and a["stop"] is True
    assert a["stop_type"] == "limit" and a["stopping_word"] == "" and a["truncated"] is False
    assert a["prompt"].endswith("Once upon a time") and a["tokens_evaluated"] > 4
    settings = a["generation_settings"]
    assert settings["n_predict"] == 8 and settings["temperature"] == 0 and settings["n_ctx"] == 256
    assert settings["top_k"] == 40 and settings["top_p"] == 0.75
    t = a["timings"]
    assert t["predicted_n"] == 8 and t["prompt_n"] + t["cache_n"] == a["tokens_evaluated"]
    assert t["prompt_ms"] > 0 and t["predicted_per_second"] > 0
    events = stream(suite, "/completion", {"prompt": "Once upon a time", "n_predict": 8,
                                           "temperature": 0})
    assert "".join(e["content"] for e in events) == a["content"]
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    assert sum((e["tokens"] for e in events), []) == a["tokens"]


def test_prompts(suite, stories):
    """Tests the forms of prompts: tokens, mixtures, objects, and lists of them."""
    text = "There was a cat"
    ids = call(suite, "/tokenize", {"content": text, "add_special": True})[1]["tokens"]
    base = {"n_predict": 4, "temperature": 0}
    one = call(suite, "/completion", {**base, "prompt": text})[1]
    status, many = call(suite, "/completion", {**base, "prompt": [
        ids, text, {"prompt_string": text}]})
    assert status == 200
    assert [a["content"] for a in many] == [one["content"]] * 3
    assert [a["index"] for a in many] == [0, 1, 2]
    mixed = call(suite, "/completion", {**base, "prompt": [1, 2, text, 3]})[1]
    assert mixed["tokens_evaluated"] == len(ids) - 1 + 3
    two = call(suite, "/completion", {**base, "prompt": text, "n_cmpl": 2})[1]
    assert len(two) == 2
    for bad in ([], {"prompt_string": 1}, [512], [True, 1], 7):
        assert call(suite, "/completion", {"prompt": bad})[0] == 400
    refused(suite, "/completion", {"prompt": {"prompt_string": "x", "multimodal_data": ["x"]}},
            "prompt.multimodal_data")


def test_fields(suite):
    body = {"prompt": "I", "n_predict": 3, "temperature": 0}
    a = call(suite, "/completion", {**body, "response_fields": [
        "content", "generation_settings/n_predict", "missing/too"]})[1]
    assert set(a) == {"content", "generation_settings/n_predict"}
    a = call(suite, "/completion", {**body, "n_probs": 3})[1]
    assert len(a["completion_probabilities"]) == 3
    first = a["completion_probabilities"][0]
    assert first["logprob"] <= 0 and len(first["top_logprobs"]) == 3 and "id" in first
    a = call(suite, "/completion", {**body, "n_probs": 3, "temperature": 1, "top_k": 2,
                                    "post_sampling_probs": True})[1]
    first = a["completion_probabilities"][0]
    assert 0 < first["prob"] <= 1 and 1 <= len(first["top_probs"]) <= 2
    a = call(suite, "/completion", {**body, "ignore_eos": True})[1]
    assert a["generation_settings"]["logit_bias"][0]["bias"] is None
    a = call(suite, "/completion", {**body, "stop": ["e"], "n_predict": 64})[1]
    assert a["stop_type"] == "word" and a["stopping_word"] == "e" and "e" not in a["content"]
    a = call(suite, "/completion", {**body, "stop": ["e"], "n_predict": 64,
                                    "include_stop_str_in_output": True})[1]
    assert a["content"].endswith("e")
    a = call(suite, "/completion", {**body, "samplers": ["top_k", "temperature"]})[1]
    assert a["generation_settings"]["samplers"][-2:] == ["top_k", "temperature"]
    # Every sampler of llama.cpp is accepted.
    assert call(suite, "/completion", {
        **body, "temperature": 1, "dry_multiplier": 0.8, "dry_sequence_breakers": ["\n"],
        "xtc_probability": 0.5, "top_n_sigma": 1, "dynatemp_range": 0.3, "typical_p": 0.9,
        "repeat_last_n": -1, "repeat_penalty": 1.1, "min_keep": 2})[0] == 200
    assert call(suite, "/completion", {**body, "temperature": 1, "mirostat": 2})[0] == 200
    refused(suite, "/completion", {**body, "samplers": ["none"]}, "samplers")
    refused(suite, "/completion", {**body, "lora": [{"id": 0}]}, "lora")
    refused(suite, "/completion", {**body, "nonsense": 1}, "nonsense")
    refused(suite, "/completion", {**body, "mirostat": 3}, "mirostat")


def test_lengths(suite):
    """Tests that most_tokens limits the length that a request asks for, also if the request asks for
    no limit with -1."""
    body = {"prompt": "Once", "temperature": 0, "ignore_eos": True}
    for n in (-1, 1000):
        a = call(suite, "/completion", {**body, "n_predict": n})[1]
        assert a["tokens_predicted"] == 64 and a["generation_settings"]["n_predict"] == 64
    a = call(suite, "/completion", {**body, "n_predict": 0})[1]
    assert a["content"] == "" and a["tokens_predicted"] == 0
    # min_tokens keeps the text from ending; n_indent ends it in a line that begins with
    # fewer spaces, before the first word.
    a = call(suite, "/completion", {"prompt": "Once", "temperature": 0, "stop_token_ids": [5],
                                    "min_tokens": 3, "n_predict": 8})[1]
    assert a["tokens_predicted"] >= 3
    a = call(suite, "/completion", {**body, "n_indent": 1000, "grammar": 'root ::= "a\\n  b"'})[1]
    assert a["content"] == "a\n  ", a
    assert a["stop_type"] == "limit" and a["has_new_line"] is True


def test_bias(suite):
    words = [" cat", " dog", " the"]
    body = {"prompt": "Once upon a time", "temperature": 0, "n_predict": 32}
    for bias in ([[w, False] for w in words], {w: -100 for w in words}, [[4, 1.5], ["cat", -1]]):
        assert call(suite, "/completion", {**body, "logit_bias": bias})[0] == 200
    a = call(suite, "/completion", {**body, "n_predict": 1})[1]
    ids = call(suite, "/tokenize", {"content": "x"})[1]["tokens"]
    forced = call(suite, "/completion", {**body, "n_predict": 1, "return_tokens": True,
                                         "logit_bias": [[ids[-1], 1000.0]]})[1]
    assert forced["tokens"] == ids[-1:] and a["content"] != forced["content"]
    refused(suite, "/completion", {**body, "logit_bias": [[1]]}, "logit_bias")
    refused(suite, "/v1/completions", {**body, "n_predict": 1, "logit_bias": {"cat": 1}},
            "logit_bias")


def test_progress(suite):
    events = stream(suite, "/completion", {"prompt": "the quick brown fox " * 9, "n_predict": 2,
                                           "return_progress": True, "timings_per_token": True,
                                           "cache_prompt": False})
    progress = [e["prompt_progress"] for e in events if "prompt_progress" in e]
    assert progress[0]["processed"] == progress[0]["cache"] == 0
    assert progress[-1]["processed"] == progress[-1]["total"] > 32
    assert all("timings" in e for e in events)
    events = stream(suite, "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "return_progress": True})
    assert [e for e in events if "prompt_progress" in e]


def test_infill(suite):
    body = {"input_prefix": "def f(", "input_suffix": "  return x\n", "n_predict": 4,
            "model": "coder"}
    status, a = call(suite, "/infill", {**body, "prompt": "x"})
    assert status == 200 and a["tokens_predicted"] == 4
    with_extra = call(suite, "/infill", {**body, "input_extra": [
        {"filename": "a.py", "text": "x = 1\n"}]})[1]
    assert with_extra["tokens_evaluated"] > a["tokens_evaluated"]
    # A prefix that is longer than the context loses its beginning.
    a = call(suite, "/infill", {**body, "input_prefix": "x = 1\n" * 500})[1]
    assert a["tokens_evaluated"] < 256
    for extra in ([{}], [{"filename": "x"}], [{"filename": 1, "text": "x"}], {}, [1]):
        status, a = call(suite, "/infill", {**body, "input_extra": extra})
        assert status == 400 and a["error"]["param"].startswith("input_extra")
    # llama.vim and llama.vscode send these fields. Vim and JavaScript write times differently.
    editor = {**body, "id_slot": 0, "prompt": "x", "stop": [], "n_indent": 4, "top_k": 40,
              "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"], "stream": False,
              "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000}
    a = call(suite, "/infill", {
        **editor, "response_fields": ["content", "timings/prompt_n", "truncated"],
        "input_extra": [{"text": "int a;\n", "time": [12, 345], "filename": "a.c"}]})[1]
    assert set(a) == {"content", "timings/prompt_n", "truncated"}
    several = call(suite, "/infill", {
        **editor, "n_cmpl": 3,
        "input_extra": [{"text": "int a;\n", "time": 1795659362123, "filename": "a.c"}]})[1]
    assert [a["generation_settings"]["samplers"][-1] for a in several] == ["infill"] * 3
    assert call(suite, "/infill", {**editor, "n_predict": 0, "samplers": [],
                                   "response_fields": [""]}) == (200, {})
    refused(suite, "/infill", {"input_prefix": "x"}, "input_suffix")
    refused(suite, "/infill", {**body, "model": "tiny"}, "model")
    status, a = call(suite, "/v1/completions", {"model": "coder", "prompt": "def f(",
                                                "suffix": "return", "max_tokens": 4})
    assert status == 200 and a["usage"]["completion_tokens"] == 4
    refused(suite, "/v1/completions", {"model": "tiny", "prompt": "x", "suffix": "y"}, "suffix")


def test_texts_of_a_seed_are_those_of_llama_cpp(suite, stories):
    """The texts are those of llama-server with the same model and seed (tools/server/tests)."""
    seed = {"seed": 42, "top_p": 0.95, "kv_type": "f16"}
    text = {"prompt": "I believe the meaning of life is", "n_predict": 8, **seed}
    a = call(suite, "/completion", text)[1]
    assert a["content"] == " going to get an"
    assert a["generation_settings"]["samplers"] == [
        "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    chat = {"messages": [{"role": "system", "content": "Book"}, {"role": "user", "content": "Hey"}],
            "max_tokens": 8, **seed}
    first = call(suite, "/chat/completions", chat)[1]["choices"][0]["message"]["content"]
    same = {**chat, "temperature": 0.8, "top_k": 40, "min_p": 0.05}
    assert call(suite, "/v1/chat/completions", {**same, "samplers": [
        "top_k", "top_p", "min_p", "temperature"]})[1]["choices"][0]["message"]["content"] == first


def test_models_of_mistral_read_the_suffix_first(suite):
    body = {"model": "mistral", "input_prefix": "ab", "input_suffix": "yz", "n_predict": 1}
    for middle in ("", "c"):
        a = call(suite, "/infill", {**body, "prompt": middle})[1]
        # The tokenizer of this model writes spaces between tokens.
        assert a["prompt"].replace(" ", "") == "[SUFFIX]yz[PREFIX]ab" + middle


def test_fim_of_mistral(suite):
    """Tests /v1/fim/completions, Mistral's route for the middle of a text."""
    body = {"model": "coder", "prompt": "def f(", "suffix": "return", "max_tokens": 4,
            "temperature": 0, "min_tokens": 2}
    status, a = call(suite, "/v1/fim/completions", body)
    assert status == 200 and a["object"] == "chat.completion" and a["id"].startswith("chatcmpl-")
    choice = a["choices"][0]
    assert choice["message"]["role"] == "assistant" and choice["finish_reason"] == "length"
    legacy = call(suite, "/v1/completions", body)[1]
    assert choice["message"]["content"] == legacy["choices"][0]["text"]
    assert a["usage"]["prompt_tokens"] == legacy["usage"]["prompt_tokens"]
    chunks = stream(suite, "/v1/fim/completions", body)
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == choice[
        "message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    random = {**body, "temperature": 2, "max_tokens": 12, "stop": ["zz"]}
    texts = [call(suite, "/v1/fim/completions", {**random, "random_seed": n})[1]["choices"][0][
        "message"]["content"] for n in (7, 7, 8, 9, 10, 11)]
    assert texts[0] == texts[1]
    # A model other than stories260K may be certain of its text.
    assert len(set(texts)) > 1 or not STORIES.exists()
    assert call(suite, "/v1/fim/completions", {"model": "coder", "prompt": "x"})[0] == 200
    for wrong, param in (({"prompt": None}, "prompt"), ({"prompt": ["x"]}, "prompt"),
                         ({"suffix": 1}, "suffix"), ({"random_seed": -1}, "random_seed"),
                         ({"model": "tiny"}, "model"), ({"messages": []}, "messages")):
        status, a = call(suite, "/v1/fim/completions", {**body, **wrong})
        assert status == 400 and a["error"]["param"] == param, a


def test_sampling_sources(suite):
    """Tests the order: request, manifest, model, configuration, API."""
    call(suite, "/completion", {"model": "named", "prompt": "x", "n_predict": 1})
    settings = call(suite, "/props?model=named")[1]["default_generation_settings"]
    params, sources = settings["params"], settings["sources"]
    assert (params["temperature"], sources["temperature"]) == (0.5, "manifest")
    assert (params["min_p"], sources["min_p"]) == (0.125, "manifest")
    assert (params["top_k"], sources["top_k"]) == (7, "model")
    assert (params["top_p"], sources["top_p"]) == (0.75, "configuration")
    assert sources["presence_penalty"] == "default"
    a = call(suite, "/completion", {"model": "named", "prompt": "x", "n_predict": 1,
                                    "temperature": 0.875})[1]
    assert a["generation_settings"]["temperature"] == 0.875
    assert a["generation_settings"]["top_k"] == 7


def test_props(suite):
    status, a = call(suite, "/props")
    assert status == 200
    assert a["model_path"].endswith("tiny.gguf") and a["total_slots"] == 2
    assert a["default_generation_settings"]["n_ctx"] == 256
    call(suite, "/completion", {"prompt": "x", "n_predict": 1})
    a = call(suite, "/props")[1]
    assert a["is_sleeping"] is False and "message" in a["chat_template"]
    assert call(suite, "/props?model=none")[0] == 404
    assert call(suite, "/props", {})[0] == 405


def test_slots(suite):
    """Tests that running answers occupy slots."""
    status, slots = call(suite, "/slots")
    assert status == 200 and [s["is_processing"] for s in slots] == [False, False]
    assert slots[0]["n_ctx"] == 256 and "params" not in slots[0]
    body = {"prompt": "x", "n_predict": 60, "ignore_eos": True, "n_cmpl": 2, "id_slot": 0}
    seen = []
    done = threading.Event()

    def watch():
        while not done.is_set():
            seen.append(sum(s["is_processing"] for s in call(suite, "/slots")[1]))

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(5):
        assert call(suite, "/completion", body)[0] == 200
    done.set()
    thread.join()
    assert max(seen) >= 1
    assert call(suite, "/slots/0?action=save", {"filename": "x"})[0] == 501


def test_chat(suite):
    """Tests chats without /v1: an answer continues the assistant's last message."""
    user = {"role": "user", "content": "Hi"}
    body = {"max_tokens": 4, "temperature": 0, "verbose": True}
    status, a = call(suite, "/chat/completions", {**body, "messages": [user]})
    assert status == 200 and a["object"] == "chat.completion"
    assert a["__verbose"]["prompt"].endswith("<assistant>")
    last = {"role": "assistant", "content": "Well"}
    prompts = [call(suite, path, {**body, **more, "messages": [user, last]})[1]["__verbose"]["prompt"]
               for path, more in (("/chat/completions", {}),
                                  ("/v1/chat/completions", {"continue_final_message": True,
                                                            "add_generation_prompt": False}))]
    assert prompts[0] == prompts[1] and prompts[0].endswith("<assistant>Well")
    parts = {**last, "content": [{"type": "text", "text": "Well"}, {"type": "text", "text": "no"}]}
    a = call(suite, "/chat/completions", {**body, "messages": [user, parts]})[1]
    assert a["__verbose"]["prompt"].endswith("<assistant>Well\n\nno")
    a = call(suite, "/v1/chat/completions", {**body, "messages": [user, last]})[1]
    assert a["__verbose"]["prompt"].endswith("<assistant>")
    refused(suite, "/v1/chat/completions",
            {"messages": [user, last], "continue_final_message": True,
             "add_generation_prompt": True}, "continue_final_message")
    refused(suite, "/chat/completions", {"messages": [user, last, last]}, "messages")
    # llama.vim sends the prompt twice: first only to have it computed in advance, then for an
    # answer.
    editor = {"messages": [user], "id_slot": 0, "stream": False, "cache_prompt": True}
    a = call(suite, "/v1/chat/completions", {**editor, "n_predict": 0, "samplers": [],
                                             "response_fields": [""]})[1]
    assert a["usage"]["completion_tokens"] == 0 and not a["choices"][0]["message"]["content"]
    a = call(suite, "/v1/chat/completions", {**editor, "min_p": 0.1, "temperature": 0.1,
                                             "samplers": ["min_p", "temperature"], "n_predict": 4})
    assert a[0] == 200
    refused(suite, "/v1/chat/completions", {**editor, "samplers": ["none"]}, "samplers")
    status, a = call(suite, "/chat/completions/input_tokens", {"messages": [user]})
    assert status == 200
    n = call(suite, "/v1/chat/completions", {"messages": [user], "max_tokens": 1})[1]
    assert a["input_tokens"] == n["usage"]["prompt_tokens"]


def test_errors(suite):
    """Tests llama-server's format of errors."""
    e = call(suite, "/completion", {"prompt": "I believe " * 400})[1]["error"]
    assert e["code"] == 400 and e["type"] == "exceed_context_size_error"
    assert e["n_ctx"] == 256 and e["n_prompt_tokens"] > 0
    e = call(suite, "/completion", {})[1]["error"]
    assert e["type"] == "invalid_request_error" and e["param"] == "prompt"
    assert call(suite, "/models")[1]["data"]


def test_ignored(suite):
    """Tests fields that are accepted without effect."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": -1, "seed": -1,
            "stop": ["a", "e"], "verbosity": "low", "prompt_cache_retention": "24h", "n_keep": 4,
            "priority": 1, "request_id": "x", "spaces_between_special_tokens": True}
    assert call(suite, "/v1/chat/completions", body)[0] == 200
    refused(suite, "/v1/chat/completions", {**body, "max_tokens": 0}, "max_tokens")
    refused(suite, "/v1/chat/completions", {**body, "verbosity": 1}, "verbosity")
    a = call(suite, "/v1/completions", {"prompt": "a b c d e f g", "max_tokens": 1,
                                        "truncate_prompt_tokens": 3})[1]
    assert a["usage"]["prompt_tokens"] == 3


def test_embeddings(suite):
    status, a = call(suite, "/embedding", {"content": "abc"})
    b = call(suite, "/v1/embeddings", {"input": "abc"})[1]
    assert status == 200 and a[0]["embedding"][0] == b["data"][0]["embedding"]
    assert len(call(suite, "/embeddings", {"input": ["a", "b"]})[1]) == 2
    assert call(suite, "/embeddings", {"input": "a", "embd_normalize": 0})[0] == 400


def test_rankings(suite):
    """Tests that all formats of rankings have the same scores."""
    texts = ["abc", "de", "fgh"]
    jina = call(suite, "/reranking", {"query": "ab", "documents": texts})[1]["results"]
    cohere = call(suite, "/v2/rerank", {"model": "bert-rank", "query": "ab", "documents": texts})[1]
    assert cohere["results"] == jina and cohere["meta"]["api_version"]["version"] == "2"
    cohere = call(suite, "/v2/rerank", {"model": "bert-rank", "query": "ab", "documents": texts,
                                        "return_documents": True})[1]["results"]
    assert [r["document"]["text"] for r in cohere] == [texts[r["index"]] for r in jina]
    assert call(suite, "/v1/reranking", {"query": "ab", "documents": texts})[1]["results"] == jina
    score = call(suite, "/v1/score", {"text_1": "ab", "text_2": texts})[1]
    by_index = {r["index"]: r["relevance_score"] for r in jina}
    assert [d["score"] for d in score["data"]] == [by_index[i] for i in range(3)]
    assert call(suite, "/score", {"text_1": "ab", "text_2": "abc"})[1]["data"][0]["index"] == 0
    refused(suite, "/v1/score", {"text_1": ["a", "b"], "text_2": ["c", "d"]}, "text_1")
    assert len(call(suite, "/rerank", {"query": "ab", "texts": texts, "top_n": 2})[1]) == 2


def test_info(suite):
    a = call(suite, "/info")[1]
    assert a["model_id"] == "bert-mean" and "embedding" in a["model_type"]
    assert a["max_client_batch_size"] == 2048


def test_metrics(suite):
    call(suite, "/completion", {"prompt": "x", "n_predict": 4})
    text = suite.observe("/metrics").decode()
    for name in ("sconce_chat_queue_seconds", "sconce_chat_next_token_seconds",
                 "vllm:request_queue_time_seconds", "vllm:inter_token_latency_seconds",
                 "sconce_chat_step_tokens"):
        assert "# TYPE %s histogram" % name in text and name + "_bucket{" in text
    values = suite.metrics()
    assert values["llamacpp:tokens_predicted_total"] >= 4
    assert values["llamacpp:n_decode_total"] > 0 and values["llamacpp:n_tokens_max"] > 4


def test_trace(make_suite):
    """Tests that the trace id of a client's traceparent is in the gateway's log, if it is valid."""
    suite = make_suite()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    for value in ("00-%s-00f067aa0ba902b7-01" % trace, "00-" + "x" * 32 + "-00f067aa0ba902b7-01"):
        call(suite, "/v1/models", headers={"traceparent": value})
    suite.gateway.close()
    lines = [x for x in open(suite.log_path) if "GET /v1/models" in x]
    assert len([x for x in lines if "trace=" + trace in x]) == 1
    assert "trace=x" not in "".join(lines)
