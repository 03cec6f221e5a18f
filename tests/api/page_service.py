# SPDX-License-Identifier: Apache-2.0
"""A service with fixed answers, which takes the place of the chat service behind the gateway."""
import http.server
import json
import os
import socket
import socketserver
import sys
import threading
import time

MODELS = [{"id": "first", "task": "chat", "status": "unloaded", "size": 1 << 30, "meta": None},
          {"id": "second", "task": "chat", "status": "loaded", "size": 3 << 20,
           "meta": {"dtype": "Q8_0", "n_ctx": 4096}}]


def delta(**fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "gateway"

    def log_message(self, *_):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        answers = {"/v1/models": {"object": "list", "data": MODELS}, "/api/ps": {"models": []},
                   "/props": {"model_alias": "second"},
                   "/health": {"status": "ok", "models": [], "running": 0, "waiting": 0}}
        path = self.path.split("?")[0]
        self.answer(200 if path in answers else 404,
                    answers.get(path, {"error": {"message": "nothing is here"}}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((body, self.headers))
        plan = self.server.plan
        if "error" in plan:
            self.answer(429, {"error": {"message": plan["error"], "code": "queue_full"}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in plan["events"]:
                if isinstance(event, (int, float)):
                    time.sleep(event)
                else:
                    self.chunk(b": keep-alive\r\n\r\ndata: " + json.dumps(event).encode() + b"\n\n")
            if not plan.get("cut"):
                self.chunk(b"data: [DONE]\n\n")
                self.chunk(b"")
        except OSError:
            self.server.n_left += 1
        self.close_connection = True

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


class ScriptedService(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Listens at @path. `requests` has the bodies and heads of all requests; `plan` is the next
    answer: {"events": [...]}, in which a number is a pause in seconds, or {"error": message}."""

    daemon_threads = True

    def __init__(self, path):
        self.requests, self.plan, self.n_left = [], {"events": []}, 0
        if os.path.exists(path):
            os.unlink(path)
        super().__init__(path, Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def get_request(self):
        request, _ = super().get_request()
        request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return request, ("gateway", 0)

    def handle_error(self, request, client_address):
        """Reports an error, unless the gateway left."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def say(self, *pieces, reasoning=None, usage=None, cut=False, pause=0):
        """Plans an answer of these pieces of text."""
        events = [delta(role="assistant", content=None)]
        events += [delta(reasoning_content=reasoning)] if reasoning else []
        for piece in pieces:
            events += [delta(content=piece), pause]
        events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                   {"choices": [], "usage": usage}] if not cut else []
        self.plan = {"events": events, "cut": cut}

    @property
    def last(self):
        return self.requests[-1][0]
