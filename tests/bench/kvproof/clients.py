# SPDX-License-Identifier: Apache-2.0
"""Sends requests for texts to an OpenAI-compatible server, and closes connections in mid-answer."""
import dataclasses
import http.client
import json
import socket
import struct
import time

PATIENCE = 120  # seconds that a server may send nothing


class Refused(Exception):
    """The server answered with an error, or with something that is no answer."""


@dataclasses.dataclass
class Answer:
    texts: tuple  # a text for each choice
    numbers: tuple  # for each choice the log probabilities of its tokens; empty if not asked for
    n_prompt: int  # tokens
    n_cached: int  # tokens of the prompt that the server took from a cache


def headers_of(text):
    more = {"X-Session-Id": text.session} if text.session else {}
    return {"Content-Type": "application/json", "Connection": "close", **more}


def usage_of(body):
    usage = body.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    return usage.get("prompt_tokens", 0), details.get("cached_tokens", 0)


def numbers_of(choice):
    """Returns the log probabilities of a choice, in the old or the new format of OpenAI's API."""
    values = choice.get("logprobs") or {}
    if values.get("content") is not None:
        return tuple(token["logprob"] for token in values["content"])
    return tuple(values.get("token_logprobs") or ())


def post(address, path, body, headers=None):
    """Returns the response to a POST with a JSON body. Closing the response closes the connection."""
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    connection.request("POST", path, json.dumps(body), headers or {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise Refused("%d %s" % (response.status, response.read()[:300].decode(errors="replace")))
    return response


def whole(response):
    body = json.loads(response.read())
    choices = sorted(body["choices"], key=lambda choice: choice.get("index", 0))
    return Answer(tuple(c["text"] for c in choices), tuple(numbers_of(c) for c in choices),
                  *usage_of(body))


def streamed(response, n):
    """Returns the answer of a stream with @n choices."""
    texts, usage, ended = [""] * n, (0, 0), False
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.startswith(b"data: [DONE]"):
            ended = True
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise Refused(str(event["error"])[:300])
        if event.get("usage"):
            usage = usage_of(event)
        for choice in event.get("choices", ()):
            texts[choice.get("index", 0)] += choice.get("text") or ""
    if not ended:
        raise Refused("the stream ended early")
    return Answer(tuple(texts), (), *usage)


def ask(address, text, more, streams=False):
    """Returns the answer to @text. @more: further fields of the request. Raises OSError,
    http.client.HTTPException or Refused."""
    if streams:
        body = text.body(stream=True, stream_options={"include_usage": True}, **more)
        return streamed(post(address, "/v1/completions", body, headers_of(text)), text.n)
    return whole(post(address, "/v1/completions", text.body(logprobs=1, **more), headers_of(text)))


def cancel(address, text, more, rng):
    """Asks for @text, but closes the connection after some bytes or some milliseconds. Half of the
    connections are reset."""
    data = json.dumps({**text.body(stream=rng.random() < 0.7, **more), "max_tokens": 200}).encode()
    with socket.create_connection(address, timeout=PATIENCE) as s:
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                  b"\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
        if rng.random() < 0.5:
            s.recv(rng.choice((1, 400, 4000)))
        else:
            time.sleep(rng.random() * 0.03)
        if rng.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
