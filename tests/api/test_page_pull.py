# SPDX-License-Identifier: Apache-2.0
"""Fetches models on the web page in Chromium, from a hub on this machine, and watches the progress that is shown."""
import re
import time

import pytest

from conftest import SLOW
from page_helpers import (ANSWER, ask, assert_policy_holds, browser, needs_browser, ready,  # noqa: F401
                          sound, start)
from store_service import ALL, ASKS, WEIGHTS, Stores

pytestmark = [pytest.mark.full, needs_browser]
PATIENCE = 2  # seconds in which something new has to be shown
SHOWN = ("const p = document.querySelector('#pull-progress');"
         "return [document.querySelector('#pull-text').innerText, !p.hidden,"
         " p.hasAttribute('value') ? p.position : null]")
MIB = 1 << 20


@pytest.fixture
def stores(hub, certificate):
    made = Stores(hub, certificate[0], chat=True)
    yield made
    made.close()


def open_page(browser, stores, key):  # noqa: F811
    """Opens the page about the machine with a key, as the dialog asks for it."""
    start(browser, stores.url)
    browser.wait("return document.querySelector('#key-dialog').open")
    browser.type("#key", key)
    browser.press("enter")
    browser.wait("return !document.querySelector('#key-dialog').open")
    browser.click("#tab-machine")


def fetch(browser, name):  # noqa: F811
    browser.wait("return document.querySelector('#pull').checkVisibility()")
    browser.run("document.querySelector('#pull-name').value = ''")
    browser.type("#pull-name", name)
    browser.press("enter")


def watch(browser, until):  # noqa: F811
    """Returns what the page shows, one (text, whether the bar is shown, its position, seconds) for each change, until
    the text matches @until."""
    seen, end = [], time.monotonic() + 60 * SLOW
    while time.monotonic() < end:
        text, is_shown, position = browser.run(SHOWN)
        if not seen or seen[-1][:3] != (text, is_shown, position):
            seen.append((text, is_shown, position, time.monotonic()))
        if re.search(until, text):
            return seen
        time.sleep(0.02)
    raise AssertionError(seen)


def test_a_model_is_fetched_and_answers(browser, stores, hub):  # noqa: F811
    hub.put_repository("org/small-GGUF", {"small-Q8_0.gguf": WEIGHTS})
    hub.pace = 0.15
    open_page(browser, stores, ALL)
    fetch(browser, "org/small-GGUF:Q8_0")
    seen = watch(browser, "success")
    counts = [text for text, _, _, _ in seen if re.search(r"^pulling [0-9a-f]{12}: [\d.]+ \w+ of 2\.0 MiB$", text)]
    positions = [position for _, is_shown, position, _ in seen if is_shown and position is not None]
    assert len(set(counts)) > 3, seen
    assert positions == sorted(positions) and len(set(positions)) > 3
    assert positions[0] < 0.5 and positions[-1] > 0.9
    silence = max(b[3] - a[3] for a, b in zip(seen, seen[1:]))
    assert silence < PATIENCE * SLOW, seen
    browser.wait("return document.querySelector('#pull-progress').hidden")
    browser.wait_text("#view-machine", "small-Q8_0")
    # The model is there at once.
    browser.click("#tab-chat")
    browser.run("localStorage.setItem('sconce.settings', JSON.stringify({max_tokens: 20}))")
    browser.open(stores.url)
    ready(browser)
    assert browser.run("return document.querySelector('#model').value") == "small-Q8_0"
    ask(browser, "What is sconce?")
    assert browser.text(ANSWER + " .text")
    assert_policy_holds(browser)


def test_a_stopped_pull_goes_on_with_what_is_missing(browser, stores, hub):  # noqa: F811
    data = WEIGHTS * (40 * MIB // len(WEIGHTS))
    hub.put_repository("org/long-GGUF", {"long-Q8_0.gguf": data})
    hub.pace = 0.01
    open_page(browser, stores, ALL)
    fetch(browser, "org/long-GGUF:Q8_0")
    # Three connections fetch chunks of 16, 16 and 8 MiB. Then the smallest one is complete.
    watch(browser, r": (29|3\d)\.\d MiB of 39\.\d MiB")
    browser.click("#pull-stop")
    browser.wait_text("#pull-text", "Stopped.")
    assert not browser.shows("#pull-progress") and not stores.has("long-Q8_0")
    stores.wait(lambda: stores.running() == 0)
    hub.requests.clear()
    fetch(browser, "org/long-GGUF:Q8_0")
    watch(browser, "success")
    asked = [tuple(map(int, re.findall(r"\d+", headers["Range"]))) for _, headers in hub.requests if "Range" in headers]
    assert 0 < sum(last - first + 1 for first, last in asked) <= 32 * MIB + 1, asked
    assert stores.has("long-Q8_0")


def test_a_fault_of_the_hub_is_shown(browser, stores, hub):  # noqa: F811
    open_page(browser, stores, ALL)
    fetch(browser, "org/none-GGUF")
    browser.wait("return /org.none-GGUF/.test(document.querySelector('#pull-text').innerText)"
                 " && document.querySelector('#pull-progress').hidden")
    hub.put_repository("org/wrong-GGUF", {"wrong-Q8_0.gguf": WEIGHTS})
    path = next(path for path in hub.files if path.endswith("wrong-Q8_0.gguf"))
    hub.files[path] = WEIGHTS[:-1] + b"x"
    fetch(browser, "org/wrong-GGUF")
    browser.wait("return /digest/.test(document.querySelector('#pull-text').innerText)"
                 " && document.querySelector('#pull-progress').hidden")
    assert not stores.has("wrong-Q8_0")


def test_a_key_without_the_right_may_not_fetch(browser, stores):  # noqa: F811
    open_page(browser, stores, ASKS)
    browser.wait_text("#pull-text", "right to manage")
    assert not browser.shows("#pull")
