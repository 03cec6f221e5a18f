# SPDX-License-Identifier: Apache-2.0
"""Sends HTTP requests to the endpoints of a machine, also from many clients at once."""
import http.client
import json
import threading
import time

MODEL = "sconce-guide"
PROMPT = "What is sconce?"


class Answer:
    def __init__(self, status, headers, data):
        self.status = status
        self.headers = headers
        self.data = data

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def whole_stream(self):
        """Returns whether a streamed answer ended properly."""
        return self.status == 200 and self.data.rstrip().endswith(b"data: [DONE]")

    def __repr__(self):
        return "<%d %r>" % (self.status, self.data[-400:])


class Connection(http.client.HTTPConnection):
    def __init__(self, sock):
        super().__init__("localhost")
        self.sock = sock


def request(sock, path, body=None, key=None, headers=None):
    """Sends one request on a new connection, which is closed afterwards."""
    connection = Connection(sock)
    try:
        head = {"Connection": "close", **(headers or {})}
        if key:
            head["Authorization"] = "Bearer " + key
        if body is None:
            connection.request("GET", path, headers=head)
        else:
            head["Content-Type"] = "application/json"
            connection.request("POST", path, json.dumps(body), head)
        r = connection.getresponse()
        return Answer(r.status, r.headers, r.read())
    finally:
        connection.close()


def chat_body(tokens=4, stream=False, prompt=PROMPT, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": stream,
            "max_tokens": tokens, "temperature": 0, **more}


def long_body(tokens=400, **more):
    return chat_body(tokens, ignore_eos=True, **more)


def ask(machine, body=None, user=None, port=None, key=None, path="/v1/chat/completions",
        timeout=60, headers=None):
    """Sends one chat request to a machine's gateway, through its unix socket or through @port of
    its loopback address."""
    sock = machine.connect_tcp(port, timeout) if port else \
        machine.connect(user=user, timeout=timeout)
    return request(sock, path, chat_body() if body is None else body, key, headers)


def get(machine, path, **how):
    sock = machine.connect_tcp(how.pop("port"), 30) if how.get("port") else \
        machine.connect(how.pop("service", "gateway"), how.pop("user", None), 30)
    return request(sock, path, None, **how)


def wake(machine, row, user=None):
    """Starts the service of @row by a request if it is not running; returns its PID in the
    machine."""
    if machine.show(row.unit, "MainPID", user) == "0":
        if row.name == "cache":
            machine.run(["sconce", "cache", "status"], user=user)
        elif row.answers:
            assert ask(machine, user=user).status == 200
        else:
            runtime = "/run/user/%d" % machine.uid(user) if user else "/run"
            # Only chat connects to the keep service. It keeps nothing for users whom the gateway
            # does not know, such as root at the gateway of another user.
            if row.name == "keep":
                machine.run(["curl", "-sS", "-f", "-m", "30", "-X", "POST", "--unix-socket",
                             "%s/sconce/gateway.sock" % runtime,
                             "http://localhost/v1/conversations"], user=user)
                return int(machine.show(row.unit, "MainPID", user))
            machine.run(["curl", "-sS", "-m", "30", "--unix-socket",
                         "%s/sconce/%s" % (runtime, row.socket_file), "http://localhost/health"])
    return int(machine.show(row.unit, "MainPID", user))


class Stream:
    """Reads a streamed answer in pieces."""

    def __init__(self, machine, body, user=None, timeout=60):
        self.connection = Connection(machine.connect(user=user, timeout=timeout))
        self.connection.request("POST", "/v1/chat/completions", json.dumps(body),
                                {"Content-Type": "application/json"})
        self.response = self.connection.getresponse()
        self.data = b""

    def first(self):
        """Reads until the stream has delivered text."""
        while b'"content":"' not in self.data.replace(b'"content":""', b""):
            piece = self.response.read1(65536)
            if not piece:
                raise AssertionError("the stream ended before text: %r" % self.data[-1000:])
            self.data += piece
        return self

    def rest(self):
        """Reads to the end; a broken connection is not an error here."""
        try:
            while True:
                piece = self.response.read1(65536)
                if not piece:
                    break
                self.data += piece
        except (http.client.HTTPException, OSError):
            pass
        self.connection.close()
        return self.data

    @property
    def whole(self):
        return self.data.rstrip().endswith(b"data: [DONE]")


class Crowd:
    """Runs threads that call work() repeatedly until stop(). work returns None or what went wrong;
    an exception also counts as wrong."""

    def __init__(self, work, threads=4, pause=None):
        self.work = work
        self.pause = pause  # pause(): seconds to wait between two calls
        self.done = 0
        self.wrong = []
        self.ended = threading.Event()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.live, daemon=True) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def live(self):
        while not self.ended.is_set():
            began = time.time()
            try:
                wrong = self.work()
            except Exception as e:  # any exception is a failed call
                wrong = repr(e)
            with self.lock:
                self.done += 1
                if wrong:
                    self.wrong.append((round(time.time() - began, 3), wrong))
            if self.pause:
                self.ended.wait(self.pause())

    def stop(self):
        """Returns (number of calls, list of (seconds, what went wrong))"""
        self.ended.set()
        for t in self.threads:
            t.join(120)
            if t.is_alive():
                self.wrong.append((120, "a request that never ends"))
        return self.done, self.wrong

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
