# SPDX-License-Identifier: Apache-2.0
"""Tests that a slow chat template, which comes with a model, delays only requests to its own
model."""
import http.client
import json
import shutil
import threading
import time

import pytest

from conftest import SLOW, check_log, own_metrics, Suite
from gguf_template import set_chat_template

# Comparing megabytes takes few template steps. The template repeats the comparison until a limit
# ends the template.
COMPARES = ("{% set s = 'a' * 1000000 %}{% set t = 'a' * 1000000 %}{% for a in range(99999) %}"
            "{% for b in range(99999) %}{% set x = s == t %}{% endfor %}{% endfor %}")
LOOPS = ("{% for a in range(99999) %}{% for b in range(99999) %}{% set x = a + b %}"
         "{% endfor %}{% endfor %}")


# The variables that the templates of Llama and Firefunction read.
DAYS = ("{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}"
        "{{ date_string }}|{{ datetime }}|{{ 'tools ' + functions }}")


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    path = tmp_path_factory.mktemp("templates")
    shutil.copy(model_dir / "tiny.gguf", path / "tiny.gguf")
    for name, template in (("compares", COMPARES), ("loops", LOOPS), ("days", DAYS)):
        set_chat_template(model_dir / "plain.gguf", path / (name + ".gguf"), template)
    return path


def post(suite, path, body, timeout=60):
    """Sends a request to the chat service itself, so that the test measures nothing else."""
    c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=timeout * SLOW)
    start = time.monotonic()
    c.request("POST", path, json.dumps(body))
    r = c.getresponse()
    data = json.loads(r.read())
    c.close()
    return r.status, data, time.monotonic() - start


def ask(suite, model, text="Hi", path="/v1/chat/completions"):
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    if path == "/v1/chat/completions":
        body.update(max_tokens=1, temperature=0)
    return post(suite, path, body)


@pytest.fixture(scope="module")
def suite(models):
    suite = Suite(models, chat="  max_models: 3\n  template_timeout: 2s\n")
    for model in ("tiny", "compares", "loops"):  # loads the models
        assert post(suite, "/tokenize", {"model": model, "content": "x"})[0] == 200
    yield suite
    check_log(suite.close())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/apply-template"])
@pytest.mark.parametrize("model", ["compares", "loops"])
def test_a_slow_template_ends_with_an_error(suite, model, path):
    status, answer, seconds = ask(suite, model, path=path)
    assert status == 400, answer
    assert answer["error"]["code"] == "template_limit", answer
    assert answer["error"]["param"] == "messages"
    assert seconds < 5 * SLOW


def test_templates_get_the_day_and_the_tools(suite):
    """Tests the variables that llama-server gives to templates."""
    def prompt(**more):
        body = {"model": "days", "messages": [{"role": "user", "content": "Hi"}], **more}
        return post(suite, "/apply-template", body)[1]["prompt"].split("|")

    days = {time.strftime("%d %b %Y"), time.strftime("%b %d %Y")}
    before, after, tools = prompt()
    assert {before, after} == days and tools == "tools "
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert '"name": "look"' in prompt(tools=[tool])[2]
    assert prompt(chat_template_kwargs={"date_string": "today"})[0] == "today"


def slowly(suite, model, text, n, results):
    threads = [threading.Thread(target=lambda: results.append(ask(suite, model, text)))
               for _ in range(n)]
    for t in threads:
        t.start()
    return threads


@pytest.mark.parametrize("size", [2, 100000])
def test_slow_templates_delay_no_others(suite, size):
    """Neither the service's own routes nor requests to another model wait for slow templates."""
    results, worst = [], {}
    threads = slowly(suite, "compares", "a" * size, 4, results)
    threads += slowly(suite, "loops", "a" * size, 4, results)
    while any(t.is_alive() for t in threads):
        for what, run in (("metrics", lambda: own_metrics(suite.chat_sock)),
                          ("answer", lambda: ask(suite, "tiny")),
                          ("template", lambda: ask(suite, "tiny", path="/apply-template")),
                          ("tokens", lambda: post(suite, "/tokenize",
                                                  {"model": "tiny", "content": "x"}))):
            start = time.monotonic()
            answer = run()
            assert what == "metrics" or answer[0] == 200, answer
            worst[what] = max(worst.get(what, 0), time.monotonic() - start)
    for t in threads:
        t.join()
    assert [r[0] for r in results] == [400] * 8
    assert {r[1]["error"]["code"] for r in results} == {"template_limit"}
    assert max(worst.values()) < 1 * SLOW, worst


def test_small_requests_of_a_model_do_not_wait_for_its_large_ones(suite):
    """The template rejects a small message while large ones still wait for their turn."""
    results = []
    threads = slowly(suite, "loops", "a" * 100000, 6, results)
    time.sleep(0.1)
    status, _, _ = ask(suite, "loops")
    assert status == 400 and len(results) < 6
    for t in threads:
        t.join()


def test_time_is_limited_as_configured(models):
    suite = Suite(models, chat="  max_models: 3\n  template_timeout: 1ms\n")
    try:
        status, answer, _ = ask(suite, "loops")
        assert status == 400 and answer["error"]["code"] == "template_limit"
        assert "exceeded its time limit" in answer["error"]["message"]
        assert ask(suite, "tiny")[0] == 200
    finally:
        check_log(suite.close())


def test_requests_that_were_left_are_not_rendered(suite):
    """If a client disconnects before the turn of its request, no template is rendered for this
    request."""
    body = json.dumps({"model": "loops", "messages": [{"role": "user", "content": "x"}]})
    for _ in range(30):
        c = http.client.HTTPConnection("127.0.0.1", suite.port, timeout=10)
        c.request("POST", "/v1/chat/completions", body)
        c.close()
    start = time.monotonic()
    assert ask(suite, "loops")[0] == 400
    assert time.monotonic() - start < 10 * SLOW
