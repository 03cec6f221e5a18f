# SPDX-License-Identifier: Apache-2.0
"""Renders chat templates with Python's jinja2, configured as in transformers, and with libinfer.

Needs the packages jinja2 and transformers.
"""
import datetime
import json
import os
import signal
import subprocess

from transformers.utils.chat_template_utils import _compile_jinja_template

NOW = 1753185600  # 2025-07-22 12:00 UTC


class TooSlow(Exception):
    pass


def oracle(template, variables, now=NOW):
    """Returns the rendered text, or None if jinja2 raises any exception."""
    def stop(*_):
        raise TooSlow
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 5)
    try:
        compiled = _compile_jinja_template(template)
        compiled.globals["strftime_now"] = (
            lambda f: datetime.datetime.fromtimestamp(now).strftime(f))
        text = compiled.render(**variables)
        text.encode()
        return text
    except TooSlow:
        raise
    except (Exception, RecursionError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class Ours:
    """Runs libinfer's renderer in a process with pipes. @program: the path of
    tests/unit/chat/render-cli in the build directory."""

    def __init__(self, program):
        self.program = program
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def __call__(self, template, variables, now=NOW):
        """Returns (text or None, error or None)."""
        line = json.dumps({"template": template, "vars": variables, "now": now}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            self.process.wait()
            self.start()
            return None, "CRASHED"
        reply = json.loads(reply)
        return reply.get("text"), reply.get("error")


def default_program():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("RENDER_CLI",
                          os.path.join(here, "../../build/tests/unit/chat/render-cli"))
