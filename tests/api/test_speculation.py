# SPDX-License-Identifier: Apache-2.0
"""Tests drafts: the configuration switches them on, and answers are the same with and without
them."""
import json
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from conftest import BUILD, DATA, ROOT, Suite, check_log

openai = pytest.importorskip("openai")

GUIDE = ROOT / "packaging/guide/sconce-guide.gguf"
PROMPT = "one two three four one two three four one two three four one two three"
CASES = [{"temperature": 0}, {"temperature": 1, "seed": 7}, {"temperature": 1, "seed": 8, "n": 3},
         {"temperature": 0, "stop": [" four"]}, {"temperature": 0.5, "seed": 3, "logprobs": 2},
         {"temperature": 0, "frequency_penalty": 0.5},
         {"temperature": 0, "extra_body": {"grammar": 'root ::= ("one " | "two ")+'}}]


def start(path, kind):
    shutil.copy(GUIDE, path / "guide.gguf")
    suite = Suite(path, chat="  context: 512\nspeculative:\n  kind: %s\n" % kind)
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def complete(**body):
        return client.completions.create(model="guide", prompt=PROMPT, max_tokens=64, **body)
    return suite, complete


def result(answer):
    return [(c.text, c.finish_reason, c.logprobs and c.logprobs.token_logprobs)
            for c in answer.choices]


def test_drafts_change_no_answer(tmp_path):
    plain, complete = start(tmp_path, "none")
    expected = [result(complete(**case)) for case in CASES]
    details = complete(**CASES[0]).usage.completion_tokens_details
    check_log(plain.close())
    assert details.accepted_prediction_tokens == details.rejected_prediction_tokens == 0

    fast, complete = start(tmp_path, "auto")
    accepted = rejected = 0
    # From the second round on, the answers of the first one are the drafts.
    for _ in range(4):
        for case, want in zip(CASES, expected):
            answer = complete(**case)
            assert result(answer) == want, case
            details = answer.usage.completion_tokens_details
            accepted += details.accepted_prediction_tokens
            rejected += details.rejected_prediction_tokens
    metrics = fast.chat_metrics()
    check_log(fast.close())
    assert accepted > 0
    assert metrics["llamacpp:spec_decode_num_accepted_tokens_total"] == accepted
    assert metrics["llamacpp:spec_decode_num_draft_tokens_total"] == accepted + rejected
    assert metrics["llamacpp:spec_decode_num_drafts_total"] > 0


def post(suite, body):
    request = urllib.request.Request(suite.url + "/completion", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def test_a_request_limits_drafts(tmp_path):
    suite, _ = start(tmp_path, "suffix")
    body = {"model": "guide", "prompt": PROMPT, "n_predict": 64, "temperature": 0}
    for _ in range(4):
        status, text = post(suite, {**body, "speculative.n_max": 0})
        assert status == 200, text
    assert suite.chat_metrics()["llamacpp:spec_decode_num_drafts_total"] == 0
    for name, bad in (("n_max", -1), ("n_min", "x"), ("p_min", 1.5)):
        status, text = post(suite, {**body, "speculative." + name: bad})
        assert status == 400 and "speculative." + name in text
    status, text = post(suite, {**body, "speculative.n_max": 3, "speculative.n_min": 4})
    assert status == 400 and "'speculative.n_min': 4 is more than 'speculative.n_max', which is 3" in text
    assert post(suite, {**body, "speculative.n_max": 3, "speculative.n_min": 3})[0] == 200
    check_log(suite.close())


def start_with_model(path, extra="", kind="model"):
    shutil.copy(GUIDE, path / "guide.gguf")
    shutil.copy(GUIDE, path / "small.gguf")
    suite = Suite(path, chat="  context: 512\n%sspeculative:\n  kind: %s\n  model: small\n"
                  % (extra, kind))
    client = openai.OpenAI(base_url=suite.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def complete(model="guide", **body):
        return client.completions.create(model=model, prompt=PROMPT, max_tokens=64, **body)
    return suite, complete


@pytest.mark.parametrize("kind", ["model", "auto"])
def test_a_draft_model_changes_no_answer(tmp_path, kind):
    plain, complete = start(tmp_path, "none")
    expected = [result(complete(**case)) for case in CASES]
    check_log(plain.close())

    fast, complete = start_with_model(tmp_path, kind=kind)
    accepted = 0
    for _ in range(3):
        for case, want in zip(CASES, expected):
            answer = complete(**case)
            assert result(answer) == want, case
            accepted += answer.usage.completion_tokens_details.accepted_prediction_tokens
    # A request to the draft model itself gets no drafts. Here both models have the same weights, so the answer is the
    # same.
    assert result(complete(model="small", **CASES[0])) == expected[0]
    log = fast.close()
    check_log(log)
    assert accepted > 0
    assert "guide is computed with drafts of small" in log
    assert "small is computed" not in log


def test_a_draft_model_with_other_tokens_is_not_used(tmp_path):
    other = DATA / "models/stories260K/stories260K.gguf"
    if not other.exists():
        pytest.skip("there is no model with another vocabulary")
    shutil.copy(other, tmp_path / "small.gguf")
    shutil.copy(GUIDE, tmp_path / "guide.gguf")
    suite = Suite(tmp_path, chat="  context: 512\nspeculative:\n  kind: model\n  model: small\n")
    status, text = post(suite, {"model": "guide", "prompt": PROMPT, "n_predict": 8})
    assert status == 200, text
    log = suite.close()
    assert "guide is computed without drafts of small: " in log
    run = subprocess.run([BUILD / "services/cli/sconce", "run", GUIDE, "hello", "--draft", other],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 1 and "both must have the same vocabulary" in run.stderr


def test_run_and_manifests_take_draft_models(tmp_path):
    shutil.copy(GUIDE, tmp_path / "small.gguf")
    shutil.copy(GUIDE, tmp_path / "big.gguf")
    (tmp_path / "pair.yaml").write_text("path: big.gguf\ndrafter: small\n")

    def run(*args):
        return subprocess.run([BUILD / "services/cli/sconce", "run", *args, PROMPT, "-n", "64", "-v",
                               "--temperature", "0", "--models", tmp_path],
                              capture_output=True, text=True, timeout=60)
    plain = run("big")
    for args in (["big", "--draft", "small"], ["pair", "--draft-kind", "model"]):
        fast = run(*args)
        assert fast.returncode == 0, fast.stderr
        assert fast.stdout == plain.stdout
        assert "drafted tokens accepted" in fast.stderr
    assert "drafted" not in run("pair").stderr
    bad = run("small", "--draft-kind", "model")
    assert bad.returncode == 1 and "need a draft model" in bad.stderr
