# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of the web page for the documents, with Chromium.

    python3 tests/docs/page_pictures.py SOCKET FOLDER

SOCKET is the unix socket of a gateway. Its models are sconce-guide and one for vectors.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from browser import Browser, open_port  # noqa: E402

QUESTIONS = ["How do I add a model?", "What does an error 429 mean?"]


def chat(browser, folder):
    browser.wait("return document.querySelector('#model').value !== ''")
    browser.run("document.querySelector('#model').value = 'sconce-guide'")
    browser.click("#settings-button")
    browser.type("#set-temperature", "0")
    browser.click("#settings-button")
    for i, question in enumerate(QUESTIONS):
        browser.type("#prompt", question)
        browser.press("enter")
        browser.wait("return document.querySelectorAll('.note').length > arguments[0]", i)
    browser.screenshot(folder / "page-chat.png")


def vectors(browser, folder):
    browser.click("#tab-vectors")
    browser.click("#compare")
    browser.wait("return document.querySelector('#vector-result table')")
    browser.screenshot(folder / "page-vectors.png")


def machine(browser, folder):
    browser.click("#tab-machine")
    browser.wait("return document.querySelector('#models table')")
    browser.click("#ask-services")
    browser.wait("return document.querySelector('#services table')")
    browser.screenshot(folder / "page-machine.png")


def phone(browser, folder):
    browser.click("#tab-chat")
    for _ in range(2):  # from the system's theme to the dark one
        browser.click("#theme-button")
    browser.resize(390, 720)
    browser.screenshot(folder / "page-phone.png")


def main(path, folder):
    browser = Browser()
    url = "http://127.0.0.1:%d/" % open_port(path).getsockname()[1]
    try:
        browser.resize(1100, 700)
        browser.open(url)
        for part in (chat, vectors, machine, phone):
            part(browser, pathlib.Path(folder))
    finally:
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
