# SPDX-License-Identifier: Apache-2.0
"""Fixtures and helpers of the tests of the web page in Chromium.

A service with fixed answers takes the place of the chat service where a test needs a certain
answer. `tests/run.sh full` installs Chromium; the tests are skipped where it is missing.
"""
import shutil
import subprocess

import pytest

import browser as browsers
from conftest import ROOT, Suite, check_log
from page_service import ScriptedService

missing = browsers.missing()
needs_browser = pytest.mark.skipif(missing is not None, reason=str(missing))

SPEECH = ROOT / "tests/golden/audio/ears"
ANSWER = ".assistant:last-child"
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Provides a recording as a browser's microphone takes it."""
    path = tmp_path_factory.mktemp("sound") / "speech.wav"
    subprocess.run(["ffmpeg", "-v", "error", "-i", SPEECH / "0.opus", "-ar", "48000", "-ac", "1",
                    "-af", "apad=pad_dur=3", path], check=True)
    return path


@pytest.fixture(scope="module")
def browser(sound):
    made = browsers.Browser(["--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream",
                             "--use-file-for-fake-audio-capture=%s" % sound,
                             "--host-resolver-rules=MAP a.example 127.0.0.1"])
    yield made
    made.close()


@pytest.fixture(scope="module")
def models(model_dir, tmp_path_factory):
    directory = tmp_path_factory.mktemp("page-models")
    shutil.copy(model_dir / "tiny.gguf", directory)
    shutil.copytree(ROOT / "tests/golden/embed/bert-mean", directory / "bert-mean")
    shutil.copytree(ROOT / "packaging/ears/sconce-ears", directory / "sconce-ears")
    return directory


@pytest.fixture(scope="module")
def real(models):
    """Provides all services with real models."""
    suite = Suite(models)
    yield suite
    check_log(suite.close())


@pytest.fixture(scope="module")
def scripted_suite(models):
    suite = Suite(models)
    suite.chat.close()
    suite.scripted = ScriptedService(suite.chat_sock)
    yield suite
    suite.scripted.shutdown()
    suite.scripted.server_close()
    check_log(suite.close())


@pytest.fixture
def page(browser, scripted_suite):
    """Provides the page without anything that earlier tests stored, and fails if the browser
    reports that the page broke its own policy."""
    start(browser, scripted_suite.url)
    yield scripted_suite.scripted
    assert_policy_holds(browser)


def start(browser, url):
    browser.open(url)
    browser.run("localStorage.clear(); sessionStorage.clear()")
    browser.open(url)
    browser.resize(1100, 760)
    browser.log()


def ready(browser):
    browser.wait("return document.querySelector('#model').value !== ''")


def assert_policy_holds(browser):
    for line in browser.log():
        assert "Content Security Policy" not in line and "TypeError" not in line, line


def ask(browser, text):
    """Sends a message, and waits until its answer has ended."""
    ready(browser)
    browser.type("#prompt", text)
    browser.press("enter")
    browser.wait("const a = document.querySelectorAll('.assistant'), u = document.querySelectorAll('.user');"
                 "return a.length === u.length && a.length && a[a.length - 1].ariaBusy === 'false'")


def count(browser, css):
    return browser.run("return document.querySelectorAll(arguments[0]).length", css)


@pytest.fixture
def keyed_suite(models):
    suite = Suite(models, gateway="  api_keys: [{key: secret-key, rights: [infer, observe]}]\n")
    suite.chat.close()
    suite.scripted = ScriptedService(suite.chat_sock)
    yield suite
    suite.scripted.shutdown()
    suite.scripted.server_close()
    check_log(suite.close())
