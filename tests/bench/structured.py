#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares decoding with a schema and decoding without one.

    structured.py --build BUILD --model MODEL.gguf [--rounds 8] [--tokens 128]

One client asks the chat service for a fixed number of tokens, alternately without and with a
schema. Half of the schemas are new to the service. The figures are the processor time of the
service per token without and with a schema, and the median over the rounds of the ratio of these
two times. Other work on the machine disturbs processor time less than elapsed time. Each prompt is
short and used only once.
"""
import argparse
import http.client
import json
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
from activator import Service, listen_unix  # noqa: E402
from gguf_template import CHATML, set_chat_template  # noqa: E402


def schema(number):
    """Returns a schema whose documents do not end early; each number gives another grammar."""
    return {"type": "object", "additionalProperties": False,
            "required": ["title", "tags", "text%d" % number],
            "properties": {
                "title": {"type": "string", "maxLength": 40},
                "kind": {"enum": ["alpha", "beta", "gamma"]},
                "when": {"type": "string", "format": "date-time"},
                "score": {"type": "number", "minimum": 0, "maximum": 1},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 20},
                         "minItems": 3, "maxItems": 8},
                "text%d" % number: {"type": "string", "minLength": 4000}}}


def ask(path, prompt, tokens, rules):
    """Returns the number of tokens of the answer and the seconds that it took."""
    body = {"model": "structured", "max_tokens": tokens, "temperature": 0.8, "seed": 1,
            "ignore_eos": True, "messages": [{"role": "user", "content": prompt}]}
    if rules:
        body["response_format"] = {"type": "json_schema",
                                   "json_schema": {"name": "x", "strict": True, "schema": rules}}
    connection = http.client.HTTPConnection("localhost", timeout=300)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    start = time.monotonic()
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    if "usage" not in answer:
        sys.exit(json.dumps(answer))
    return answer["usage"]["completion_tokens"], time.monotonic() - start


def busy(pid):
    """Returns the processor seconds of a process."""
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", type=pathlib.Path, required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--rounds", type=int, default=8)
    p.add_argument("--tokens", type=int, default=128)
    options = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="structured-") as name:
        directory = pathlib.Path(name)
        set_chat_template(options.model, directory / "structured.gguf", CHATML)
        config, path = directory / "sconce.yaml", str(directory / "chat.sock")
        config.write_text("models:\n  directories: [%s]\n  default: structured\n"
                          "chat:\n  threads: 1\n  idle_timeout: 600s\n" % directory)
        with open(directory / "log", "wb") as log:
            service = Service([str(options.build / "services/chat/sconce-chat"), "--config",
                               str(config)], [listen_unix(path)],
                              {"XDG_RUNTIME_DIR": name, "HOME": name}, log)
            try:
                measure(service, path, options)
            finally:
                service.close()


def measure(service, path, options):
    ask(path, "warm", 8, None)
    ask(path, "warm", 8, schema(0))
    ratios, walls = [], []
    for i in range(options.rounds):
        per_token, wall = {}, {}
        for rules in ((None, schema(i // 2)), (schema(i // 2), None))[i % 2]:
            start = busy(service.pid)
            n, seconds = ask(path, "Write document %d." % i, options.tokens, rules)
            per_token[rules is None] = (busy(service.pid) - start) / n
            wall[rules is None] = n / seconds
        ratios.append(per_token[True] / per_token[False])
        walls.append(wall[False] / wall[True])
        print("free %.2f ms/token, schema %.2f ms/token (%.0f and %.0f tokens/s)" % (
            1e3 * per_token[True], 1e3 * per_token[False], wall[True], wall[False]))
    print("speed with a schema: %.1f %% by processor time, %.1f %% by the clock" % (
        100 * statistics.median(ratios), 100 * statistics.median(walls)))


if __name__ == "__main__":
    main()
