# SPDX-License-Identifier: Apache-2.0
"""Tests the web page in Chromium: clicks and types as a person would, and reads what is shown."""
import json
import re

import pytest

import browser as browsers
from conftest import AUDIO
from page_helpers import (ANSWER, SPEECH, USAGE, ask, assert_policy_holds, browser,  # noqa: F401
                          count, keyed_suite, models, needs_browser, page, real, ready,
                          scripted_suite, sound, start)

pytestmark = [pytest.mark.full, needs_browser]


# --- real models ---

def test_a_real_model_answers_with_speed_and_cache(browser, real):
    start(browser, real.url)
    ready(browser)
    browser.click("#settings-button")
    browser.type("#set-max_tokens", "90")
    browser.type("#set-temperature", "0")
    browser.click("#settings-button")
    ask(browser, "Once upon a time there was a girl. " * 4)
    first = browser.text(ANSWER + " .note")
    assert re.search(r"\d+ tokens? · [\d.]+ tokens/s · 0 of \d+ prompt tokens from the cache", first)
    ask(browser, "And then?")
    cached = re.search(r"(\d+) of (\d+) prompt tokens from the cache", browser.text(ANSWER + " .note"))
    assert 64 <= int(cached[1]) < int(cached[2])
    assert count(browser, ".message") == 4 and browser.text(ANSWER + " .text")
    assert_policy_holds(browser)


def test_the_similarities_of_texts(browser, real):
    start(browser, real.url)
    browser.click("#tab-vectors")
    browser.wait("return document.querySelector('#vector-model').value === 'bert-mean'")
    browser.click("#add-text")
    browser.run("const all = document.querySelectorAll('.row textarea'); all[3].value = all[0].value")
    browser.click("#compare")
    browser.wait("return document.querySelector('#vector-result td.heat')")
    rows = browser.run("return [...document.querySelectorAll('#vector-result tbody tr')].map("
                       "row => [...row.querySelectorAll('td')].map(cell => cell.textContent))")
    assert len(rows) == 4 and all(rows[i][i] == "1.000" for i in range(4)) and rows[0][3] == "1.000"
    assert rows[0][1] == rows[1][0] != "1.000"
    for _ in range(3):
        browser.click(".row button")
    browser.click("#compare")
    browser.wait_text("#notice", "at least two texts")


@pytest.mark.skipif(not AUDIO.exists(), reason="a build without the audio service")
def test_dictation(browser, real):
    start(browser, real.url)
    browser.wait("return document.querySelector('#dictate').checkVisibility()")
    browser.type("#prompt", "Note:")
    browser.click("#dictate")
    browser.wait("return document.querySelector('#dictate').ariaPressed === 'true'")
    browser.run("return new Promise(done => setTimeout(done, 4000))")
    browser.click("#dictate")
    browser.wait("return document.querySelector('#prompt').value.length > 20")
    said = browser.run("return document.querySelector('#prompt').value")
    want = re.findall(r"\w+", json.loads((SPEECH / "texts.json").read_text())["0.opus"].lower())
    heard = re.findall(r"\w+", said.lower())
    # The recording may begin within a word.
    assert said.startswith("Note: ") and len(set(want) & set(heard)) >= len(set(want)) / 2, said
    assert_policy_holds(browser)


def test_the_state_of_services_and_models(browser, real):
    start(browser, real.url)
    browser.click("#tab-machine")
    browser.wait_text("#models", "bert-mean")
    assert re.search(r"tiny\s+chat", browser.text("#models"))
    browser.wait_text("#version", "gateway: ok")
    browser.click("#ask-services")
    # The port needs no key, and gives only the right to infer.
    browser.wait_text("#services", 'needs the right "observe"')
    browser.wait_text("#view-machine", "fetches no models for clients")
    assert not browser.shows("#pull")


def test_through_a_port_that_leads_to_the_unix_socket(browser, real):
    port = browsers.open_port(real.gateway_sock)
    url = "http://127.0.0.1:%d/" % port.getsockname()[1]
    start(browser, url)
    browser.run("localStorage.setItem('sconce.settings', '{\"max_tokens\": 20}')")
    browser.open(url)
    ask(browser, "Once")
    assert "tokens/s" in browser.text(ANSWER + " .note")
    # The gateway sees its own user, who has all rights.
    browser.click("#tab-machine")
    browser.click("#ask-services")
    browser.wait("return document.querySelectorAll('#services tbody tr').length === 3")
    assert re.search(r"chat\s+ok\s+.*tiny loaded", browser.text("#services"))
    port.close()


# --- the conversation ---

def test_settings_go_into_the_request(browser, page):
    page.say("Yes.", usage=USAGE)
    ready(browser)
    assert browser.run("return document.querySelector('#model').value") == "second"
    ask(browser, "Plain?")
    assert set(page.last) == {"model", "messages", "stream", "stream_options", "timings_per_token"}
    browser.run("const m = document.querySelector('#model'); m.value = 'first';"
                "m.dispatchEvent(new Event('change'))")
    browser.click("#settings-button")
    browser.type("#set-system", "Be brief.")
    browser.type("#set-temperature", "0.5")
    browser.type("#set-top_k", "40")
    browser.type("#set-seed", "7")
    browser.run("const r = document.querySelector('#set-reasoning_effort'); r.value = 'low';"
                "r.dispatchEvent(new Event('change'))")
    browser.click("#settings-button")
    ask(browser, "With settings?")
    body = page.last
    assert (body["model"], body["temperature"], body["top_k"], body["seed"]) == ("first", 0.5, 40, 7)
    assert body["reasoning_effort"] == "low"
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == "Be brief."
    assert page.requests[-1][1]["X-Session-Id"].startswith("page-")
    browser.open(browser.run("return location.href"))  # the settings survive
    ready(browser)
    assert browser.run("return document.querySelector('#model').value") == "first"
    assert browser.run("return document.querySelector('#set-system').value") == "Be brief."


def test_an_answer_is_shown_while_it_arrives_and_can_be_stopped(browser, page):
    page.say("Begin", " and", *[" on"] * 200, pause=0.05)
    ready(browser)
    browser.type("#prompt", "Talk")
    browser.press("enter")
    browser.wait_text(ANSWER, "Begin and on")
    assert browser.run("return document.querySelector(arguments[0]).ariaBusy", ANSWER) == "true"
    assert browser.shows("#stop") and not browser.shows("#send")
    browser.click("#stop")
    browser.wait_text(ANSWER, "Stopped.")
    text = browser.text(ANSWER + " .text")
    assert text.startswith("Begin and on") and browser.shows("#send")
    browser.type("#prompt", "Again")
    browser.press("enter")
    browser.wait_text(ANSWER, "Begin")
    browser.press("escape")
    browser.wait_text(ANSWER, "Stopped.")
    # The part that was received counts as the answer.
    assert page.last["messages"][1]["content"].startswith("Begin and on")
    assert count(browser, ".message") == 4


def test_retry_and_edit_replace_what_follows(browser, page):
    page.say("one")
    ask(browser, "First question")
    page.say("two")
    ask(browser, "Second question")
    page.say("two again")
    browser.click(ANSWER + " .message-foot button")
    browser.wait_text(ANSWER, "two again")
    assert [m["content"] for m in page.last["messages"]] == ["First question", "one", "Second question"]
    page.say("three")
    browser.click(".user .message-foot button")
    browser.wait("return document.activeElement.closest('.user') !== null")
    browser.press("!", "enter")
    browser.wait_text(ANSWER, "three")
    assert [m["content"] for m in page.last["messages"]] == ["First question!"]
    assert count(browser, ".message") == 2
    browser.click(".user .message-foot button")
    browser.press("escape")
    assert browser.text(".user .text") == "First question!"


def test_conversations_are_kept_in_the_browser_until_they_are_deleted(browser, page):
    page.say("Blue.")
    ask(browser, "Why is the sky blue?")
    browser.click("#new")
    page.say("Green.")
    ask(browser, "And grass?")
    browser.open(browser.run("return location.href"))
    browser.wait("return document.querySelectorAll('#conversations li').length === 2")
    assert browser.text("#conversations li:first-child .open") == "And grass?"
    assert "stay in this browser" in browser.text("#list")
    browser.click("#conversations li:last-child .open")
    browser.wait_text(ANSWER, "Blue.")
    browser.click("#conversations li:first-child button:last-child")
    browser.wait("return document.querySelectorAll('#conversations li').length === 1")
    assert "grass" not in browser.run("return JSON.stringify(localStorage)")
    browser.click("#clear")
    browser.call("POST", browser.session + "/alert/accept", {})
    browser.wait("return document.querySelectorAll('#conversations li').length === 0")
    assert "sky" not in browser.run("return JSON.stringify(localStorage)")


def test_errors_are_shown_and_do_not_end_the_conversation(browser, page):
    page.plan = {"error": "The queue is full."}
    ask(browser, "Anything?")
    assert "The queue is full." in browser.text(ANSWER + " .error")
    page.say("half", cut=True, pause=0.5)
    browser.click(ANSWER + " .message-foot button")
    browser.wait_text(ANSWER, "ended in the middle of its answer")
    assert browser.text(ANSWER + " .text") == "half"
    page.say("whole")
    browser.click(ANSWER + " .message-foot button")
    browser.wait_text(ANSWER, "whole")
    assert not browser.shows(ANSWER + " .error")


def test_reasoning_is_folded(browser, page):
    page.say("42", reasoning="Let me **count**.", usage=USAGE)
    ask(browser, "How many?")
    assert browser.text(ANSWER + " summary") == "Reasoning"
    assert not browser.shows(ANSWER + " .reasoning-text") and browser.text(ANSWER + " .text") == "42"
    browser.click(ANSWER + " summary")
    assert browser.text(ANSWER + " .reasoning-text") == "Let me count."
    assert "64 of 100 prompt tokens from the cache" in browser.text(ANSWER + " .note")
    ask(browser, "Sure?")
    assert page.last["messages"][1] == {"role": "assistant", "content": "42"}


# --- keys and other origins ---

def test_the_key_is_asked_once_and_kept_in_the_tab(browser, keyed_suite):
    suite = keyed_suite
    start(browser, suite.url)
    browser.wait("return document.querySelector('#key-dialog').open")
    assert "session storage" in browser.text("#key-dialog")
    browser.type("#key", "wrong")
    browser.press("enter")
    browser.wait("return document.querySelector('#key-dialog').open && document.querySelector('#key').value === ''")
    browser.type("#key", "secret-key")
    browser.press("enter")
    ready(browser)
    assert browser.text("#key-button") == "Key: set"
    suite.scripted.say("Hello.")
    ask(browser, "Hello?")
    assert "Hello." in browser.text(ANSWER)
    browser.open(browser.run("return location.href"))
    ready(browser)
    assert not browser.run("return document.querySelector('#key-dialog').open")
    assert browser.run("return sessionStorage.length") == 1
    assert "secret-key" not in browser.run("return JSON.stringify(localStorage) + location.href + document.cookie")
    # This key has the right to observe, which a deep health check needs.
    browser.click("#tab-machine")
    browser.click("#ask-services")
    browser.wait_text("#services", "audio")
    browser.click("#key-button")
    browser.click("#key-forget")
    browser.wait("return document.querySelector('#key-dialog').open")
    assert browser.run("return sessionStorage.length") == 0


def test_a_name_that_leads_to_this_machine_is_not_trusted(browser, scripted_suite):
    """Tests DNS rebinding: the page under a name of another domain gets no answers."""
    scripted = scripted_suite.scripted
    start(browser, scripted_suite.url.replace("127.0.0.1", "a.example"))
    scripted.say("Secret.")
    before = len(scripted.requests)
    ask(browser, "Hello?")
    assert "Pages of this origin are not allowed" in browser.text(ANSWER + " .error")
    assert len(scripted.requests) == before
    start(browser, scripted_suite.url.replace("127.0.0.1", "localhost"))
    ask(browser, "Hello?")
    assert "Secret." in browser.text(ANSWER)


# --- pulls ---

PULL = """
window.pulls = [];
const original = window.fetch;
window.fetch = async (path, options) => {
    if (path !== "api/pull") return original(path, options);
    const body = JSON.parse(options.body);
    if (!body.model) return new Response('{"error":"model is missing"}', {status: 400});
    window.pulls.push(body);
    if (arguments[0]) return new Response(JSON.stringify({error: "no such model"}), {status: arguments[0]});
    const stream = new ReadableStream({start(controller) { window.pullMore = (object) => object
        ? controller.enqueue(new TextEncoder().encode(JSON.stringify(object) + "\\n")) : controller.close(); }});
    options.signal.addEventListener("abort", () => { window.pullAborted = true; });
    return new Response(stream);
};
"""


def test_pulls_show_their_progress(browser, page):
    browser.run(PULL, 0)
    browser.click("#tab-machine")
    browser.wait("return document.querySelector('#pull').checkVisibility()")
    browser.type("#pull-name", "owner/model:Q4_K_M")
    browser.press("enter")
    browser.wait("return window.pullMore !== undefined")
    browser.run("pullMore({status: 'pulling manifest'})")
    browser.wait_text("#pull-text", "pulling manifest")
    browser.run("pullMore({status: 'pulling abc', total: 4 * 1024 * 1024, completed: 1024 * 1024})")
    browser.wait_text("#pull-text", "pulling abc: 1.0 MiB of 4.0 MiB")
    assert browser.run("return document.querySelector('#pull-progress').position") == 0.25
    browser.run("pullMore({status: 'success'}); pullMore(null)")
    browser.wait_text("#pull-text", "success")
    assert not browser.shows("#pull-progress")
    assert browser.run("return window.pulls") == [{"model": "owner/model:Q4_K_M", "stream": True}]
    browser.run("delete window.pullMore")
    browser.press("enter")
    browser.wait("return window.pullMore !== undefined")
    browser.run("pullMore({error: 'the disk is full'})")
    browser.wait_text("#pull-text", "the disk is full")


@pytest.mark.parametrize("status, text", [(403, "right to manage"), (404, "fetches no models"), (500, "no such model")])
def test_refused_pulls_say_why(browser, page, status, text):
    browser.run(PULL, status)
    browser.click("#tab-machine")
    browser.wait("return document.querySelector('#pull').checkVisibility()")
    browser.type("#pull-name", "x")
    browser.press("enter")
    browser.wait_text("#pull-text", text)
