# SPDX-License-Identifier: Apache-2.0
"""Drives a headless Chromium through chromedriver, with the HTTP protocol of W3C WebDriver.

The packages chromium and chromium-driver of Debian contain both programs. Nothing else is needed.
"""
import base64
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

from sockets import copy_bytes

SLOW = float(os.environ.get("SCONCE_TEST_SLOW", "1"))
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name of a reference to an element
KEYS = {"enter": "\ue007", "escape": "\ue00c", "tab": "\ue004", "right": "\ue014", "left": "\ue012",
        "shift": "\ue008", "control": "\ue009", "null": "\ue000"}


def missing():
    """Returns why no browser can be started, or None."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            return "%s is not installed (the packages chromium and chromium-driver)" % program
    return None


def open_port(path):
    """Opens a port that leads to the unix socket @path, as `ssh -L` does; returns the listening
    socket. Closing the socket closes the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(path)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy_bytes, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener


class Browser:
    """Represents one browser with one window and a profile of its own."""

    def __init__(self, arguments=(), size=(1100, 760), dark=False):
        self.profile = tempfile.mkdtemp(prefix="sconce-browser-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.address = "http://127.0.0.1:%d" % port
        env = dict(os.environ, HOME=self.profile)
        self.driver = subprocess.Popen(["chromedriver", "--port=%d" % port, "--log-level=OFF"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        # Chromium's own sandbox needs user namespaces, which containers often lack, and it refuses
        # to run for root. The pages come from the gateway under test.
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--no-first-run", "--disable-background-networking", "--lang=en",
                     "--hide-scrollbars", "--user-data-dir=" + self.profile,
                     "--window-size=%d,%d" % size, *arguments]
        if dark:
            arguments.append("--force-dark-mode")
        want = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"args": arguments}}
        self.session = ""
        try:
            self._wait_for_driver()
            self.session = "/session/" + self.call(
                "POST", "/session", {"capabilities": {"alwaysMatch": want}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def _wait_for_driver(self):
        end = time.monotonic() + 30 * SLOW
        while time.monotonic() < end:
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise TimeoutError("chromedriver does not answer")

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        """Sends one command of WebDriver and returns its value."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300 * SLOW) as r:
                return json.load(r)["value"]
        except urllib.error.HTTPError as e:
            value = json.load(e)["value"]
            raise AssertionError("%s: %s" % (value["error"], value["message"])) from None

    def open(self, url):
        self.call("POST", self.session + "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the body of a JavaScript function and returns its value."""
        return self.call("POST", self.session + "/execute/sync",
                         {"script": script, "args": list(arguments)})

    def find(self, css):
        return self.call("POST", self.session + "/element",
                         {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        """Clicks where a person would click; fails if something else is there."""
        self.wait("return document.querySelector(arguments[0]) !== null", css)
        self.call("POST", "%s/element/%s/click" % (self.session, self.find(css)), {})

    def type(self, css, text):
        self.call("POST", "%s/element/%s/value" % (self.session, self.find(css)), {"text": text})

    def press(self, *keys):
        """Presses keys one after the other in the element with the focus."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys
                   for kind in ("keyDown", "keyUp")]
        self.call("POST", self.session + "/actions",
                  {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def text(self, css):
        """Returns the text of the first element, as it is shown."""
        return self.run("const e = document.querySelector(arguments[0]);"
                        "return e && e.innerText", css)

    def shows(self, css):
        return self.run("const e = document.querySelector(arguments[0]);"
                        "return e !== null && e.checkVisibility()", css)

    def wait(self, script, *arguments, timeout=60):
        """Waits until a script returns a value that counts as true, and returns it."""
        end = time.monotonic() + timeout * SLOW
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError("after %d s not true: %s %s; the page: %s" % (
                    timeout, script, arguments, self.run("return document.body.innerText")))
            time.sleep(0.05)

    def wait_text(self, css, part, timeout=60):
        """Waits until an element has a text that contains @part."""
        return self.wait("const e = document.querySelector(arguments[0]);"
                         "return e && e.innerText.includes(arguments[1])", css, part, timeout=timeout)

    def resize(self, width, height):
        """Gives the page this size, as on a phone: windows of Chromium are not narrower than 500."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=False)

    def devtools(self, command, **parameters):
        return self.call("POST", self.session + "/goog/cdp/execute",
                         {"cmd": command, "params": parameters})

    def log(self):
        """Returns what the browser reported since the last call, such as violations of the policy."""
        return [entry["message"] for entry in
                self.call("POST", self.session + "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        png = self.call("GET", self.session + "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(png))
