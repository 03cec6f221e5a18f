# SPDX-License-Identifier: Apache-2.0
"""Measures what a newcomer sees: how long a command, or the page, shows nothing new."""
import json
import os
import pty
import select
import time

import browser as browsers

# If a program shows nothing new for longer than this, it seems to hang.
PATIENCE = 2 * float(os.environ.get("SCONCE_TEST_SLOW", "1"))
QUESTION = "What is sconce?"
STATE = ("const a = document.querySelectorAll('.assistant'), last = a[a.length - 1];"
         "return [document.body.innerText.length, a.length > 0 && last.ariaBusy === 'false', last && last.innerText]")


class Watch:
    """Remembers the longest time in which nothing new was shown, from its creation on, and what came after it."""

    def __init__(self):
        self.began = self.last = time.monotonic()
        self.silence, self.before = 0, ""

    def sign(self, what):
        now = time.monotonic()
        if now - self.last > self.silence:
            self.silence, self.before = now - self.last, what
        self.last = now

    def stop(self):
        self.sign("the end")
        self.seconds = self.last - self.began
        return self


def watch_command(machine, command, user=None, timeout=600):
    """Runs a command line in the machine at a terminal; returns (status, output, Watch)."""
    own, theirs = pty.openpty()
    watch = Watch()
    process = machine.popen(["sh", "-c", command], user=user, stdin=theirs, stdout=theirs, stderr=theirs,
                            start_new_session=True)
    os.close(theirs)
    output = b""
    while select.select([own], [], [], timeout)[0]:
        try:
            part = os.read(own, 65536)
        except OSError:  # the other end is closed
            break
        watch.sign(part.decode(errors="replace").strip()[-60:])
        output += part
    os.close(own)
    status = process.wait(timeout)
    return status, output.decode(errors="replace"), watch.stop()


def watch_page(socket_path):
    """Opens the page behind a unix socket in Chromium, and asks a question; returns (answer, Watch)."""
    browser = browsers.Browser()
    port = browsers.open_port(str(socket_path))
    try:
        # The first page that a browser shows waits for processes of the browser.
        browser.open("data:text/html,<p>a browser that is used</p>")
        browser.run("return fetch('data:,x').then(r => r.text())")
        watch = Watch()
        browser.open("http://127.0.0.1:%d/" % port.getsockname()[1])
        watch.sign("the page")
        browser.run("localStorage.setItem('sconce.settings', JSON.stringify({max_tokens: 60}))")
        browser.open("http://127.0.0.1:%d/" % port.getsockname()[1])
        browser.wait("return document.querySelector('#model').value !== ''")
        watch.sign("the names of the models")
        browser.type("#prompt", QUESTION)
        browser.press("enter")
        watch.sign("the question")
        before, end = None, time.monotonic() + 120
        while time.monotonic() < end:
            length, finished, answer = browser.run(STATE)
            if (length, finished) != before:
                watch.sign("a part of the answer")
                before = (length, finished)
            if finished:
                return answer, watch.stop()
            time.sleep(0.02)
        raise AssertionError("the page shows no answer: " + browser.text("body"))
    finally:
        port.close()
        browser.close()


def api_command(socket):
    body = json.dumps({"model": "first", "stream": True, "max_tokens": 40,
                       "messages": [{"role": "user", "content": QUESTION}]})
    return "curl -sSN --unix-socket %s http://localhost/v1/chat/completions -d '%s'" % (socket, body)
