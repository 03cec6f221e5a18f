# SPDX-License-Identifier: Apache-2.0
"""Runs `sconce serve` for tests, on this system or in a container, and finds its service processes.

    with Serve("sconce", "/run/here", "/var/lib/sconce/models", machine.run, machine.popen) as s:
        s.pid("chat")
"""
import os
import subprocess
import time


def run_here(argv, check=False):
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=60)


def popen_here(argv, **how):
    return subprocess.Popen([str(word) for word in argv], **how)


class Serve:
    """@directory: an existing directory for the sockets. If the directory @models is empty, the
    model sconce-guide is put into it."""

    def __init__(self, sconce, directory, models, run=run_here, popen=popen_here):
        self.run = lambda argv: run(argv, check=False)
        self.sconce = sconce
        self.directory = directory
        self.door = "%s/door.sock" % directory
        script = ("cd %s && echo $$ >serve.pid && export HOME=$PWD XDG_RUNTIME_DIR=$PWD && "
                  "exec %s serve --listen unix:%s --listen 127.0.0.1:0 --models %s >serve.log 2>&1"
                  % (directory, sconce, self.door, models))
        self.process = popen(["sh", "-c", script], stdin=subprocess.DEVNULL)
        self.wait(lambda: self.run(["test", "-S", self.door]).returncode == 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.run(["sh", "-c", "kill $(cat %s/serve.pid)" % self.directory])
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.run(["sh", "-c", "kill -9 $(cat %s/serve.pid)" % self.directory])
            self.process.wait()

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(self.run(["cat", "%s/serve.log" % self.directory]).stdout)
            time.sleep(0.02)

    def ask(self):
        """Requests one completion through gateway and chat; returns the output of curl. A socket exists
        a moment before it accepts connections, therefore curl tries again."""
        body = '{"model": "sconce-guide", "prompt": "a", "max_tokens": 1}'
        r = self.run(["curl", "-sS", "--max-time", "30", "--retry", "5", "--retry-delay", "1",
                      "--retry-connrefused", "--unix-socket", self.door,
                      "-H", "Content-Type: application/json", "-d", body,
                      "http://localhost/v1/completions"])
        return r.stdout + r.stderr

    def find(self, service):
        r = self.run(["sh", "-c", "pgrep -P $(cat %s/serve.pid) -x %s" %
                      (self.directory, ("sconce-" + service)[:15])])
        return int(r.stdout.split()[0]) if r.stdout.strip() else None

    def pid(self, service):
        """Returns the PID of a service; starts the service if it is not running."""
        if service == "cache":
            # Asks the cache service directly, because chat asks it only for blocks that chat does
            # not have in memory.
            self.run([self.sconce, "cache", "status", "--socket", self.runtime + "/cache.sock"])
        elif service == "keep":
            # Only chat connects to this service.
            self.run(["curl", "-sS", "--max-time", "30", "--unix-socket", self.door, "-X", "POST",
                      "http://localhost/v1/conversations"])
        elif not self.find(service) and service not in ("gateway", "chat"):
            self.run(["curl", "-sS", "--max-time", "30", "--unix-socket",
                      "%s/%s.sock" % (self.runtime, service), "http://localhost/health"])
        elif not self.find(service):
            answer = self.ask()
            assert '"choices"' in answer, answer
        self.wait(lambda: self.find(service))
        return self.find(service)

    @property
    def runtime(self):
        return os.path.join(str(self.directory), "sconce")
