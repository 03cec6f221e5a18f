# SPDX-License-Identifier: Apache-2.0
"""Sends ten thousand requests for vectors, valid and invalid ones mixed: each gets the right
answer.

The requests use many connections at the same time, and some invalid requests are not HTTP or not
JSON. A valid request gets the same vector each time; an invalid one gets a 4xx status and an error
code.
"""
import asyncio
import json
import random
import shutil

from conftest import ROOT, Suite, check_log
from test_embed import add_separators

N = 10000
CONNECTIONS = 32
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def good(rng):
    """Makes a random valid request; returns it and what its answer must contain."""
    text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 12)))
    kind = rng.randrange(6)
    if kind == 0:
        return "/v1/embeddings", {"input": text}, ("one", text)
    if kind == 1:
        return "/v1/embeddings", {"input": [text, "b", text]}, ("three", text)
    if kind == 2:
        return "/v1/embeddings", {"input": [rng.randint(0, 95) for _ in range(8)],
                                  "encoding_format": "base64"}, None
    if kind == 3:
        return "/v1/rerank", {"query": text, "documents": ["a", text]}, ("ranks", 2)
    if kind == 4:
        return "/similarity", {"inputs": {"source_sentence": text, "sentences": [text]}}, \
            ("same", text)
    return "/embed", {"inputs": [text]}, None


BAD = (
    lambda rng: ("/v1/embeddings", b"{\"input\": \"a"),
    lambda rng: ("/v1/embeddings", bytes(rng.randrange(256) for _ in range(40))),
    lambda rng: ("/v1/embeddings", b"[" * 200),
    lambda rng: ("/v1/embeddings", b"\"input\""),
    lambda rng: ("/v1/embeddings", b"{\"input\": \"\xff\xfe\"}"),
    lambda rng: ("/v1/embeddings", b"{\"input\": \"a\", \"input\": \"b\"}"),
    lambda rng: ("/v1/embeddings", {"input": rng.choice(["", [], [[]], None, 1, {}, ["a", None]])}),
    lambda rng: ("/v1/embeddings", {"input": [96 + rng.randrange(1000)]}),
    lambda rng: ("/v1/embeddings", {"input": "a" * 200}),
    lambda rng: ("/v1/embeddings", {"input": "a", "model": rng.choice(["x", "../a", 1, []])}),
    lambda rng: ("/v1/embeddings", {"input": "a", "dimensions": rng.choice([0, -1, 33, "8", 1e9])}),
    lambda rng: ("/v1/embeddings", {"input": "a", "f%d" % rng.randrange(100): 1}),
    lambda rng: ("/v1/embeddings", {"input": "a", "model": "bert-rank\u0000"}),
    lambda rng: ("/v1/rerank", {"query": "a", "documents": rng.choice([[], [1], "b", [{}]])}),
    lambda rng: ("/rerank", {"query": "a", "texts": rng.choice([[], [1], 5])}),
    lambda rng: ("/similarity", {"inputs": rng.choice([[], "a", {}, {"sentences": ["b"]}])}),
    lambda rng: ("/embed", {"inputs": "a", "normalize": rng.choice([1, "yes"])}),
)


async def ask(reader, writer, path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    writer.write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 b"Content-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    fields = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if line)}
    if "content-length" in fields:
        text = await reader.readexactly(int(fields["content-length"]))
    else:
        text = b""
        while (size := int(await reader.readuntil(b"\r\n"), 16)):
            text += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
    return int(lines[0].split()[1]), json.loads(text), fields.get("connection") == "close"


def check(status, answer, want, seen):
    assert status == 200, answer
    if want is None:
        return
    kind, value = want
    if kind in ("one", "three"):
        data = [item["embedding"] for item in answer["data"]]
        assert len(data) == (3 if kind == "three" else 1) and data[0] == data[-1]
        assert seen.setdefault(value, data[0]) == data[0]
    elif kind == "ranks":
        assert sorted(r["index"] for r in answer["results"]) == [0, 1]
    else:
        assert abs(answer[0] - 1) < 1e-5


def check_bad(status, answer, body):
    assert 400 <= status < 500, (status, answer, body)
    named = answer if "error_type" in answer else answer["error"]
    assert named["code"] and (named.get("message") or named["error"]), answer


async def worker(port, seed, n, seen, counts):
    rng = random.Random(seed)
    reader = writer = None
    for _ in range(n):
        if not writer:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if rng.random() < 0.5:
            path, body, want = good(rng)
            status, answer, closes = await ask(reader, writer, path, body)
            check(status, answer, want, seen)
            counts["good"] += 1
        else:
            path, body = rng.choice(BAD)(rng)
            status, answer, closes = await ask(reader, writer, path, body)
            check_bad(status, answer, body)
            counts["bad"] += 1
        if closes:
            writer.close()
            writer = None
    if writer:
        writer.close()


def test_ten_thousand_requests_of_all_kinds(tmp_path):
    for name in ("bert-mean", "bert-rank"):
        shutil.copytree(ROOT / "tests/golden/embed" / name, tmp_path / name)
    add_separators(tmp_path / "bert-rank")
    suite = Suite(tmp_path)
    seen, counts = {}, {"good": 0, "bad": 0}

    async def crowd():
        await asyncio.gather(*(worker(suite.port, i, N // CONNECTIONS + (i < N % CONNECTIONS), seen,
                                      counts) for i in range(CONNECTIONS)))

    try:
        asyncio.run(crowd())
        assert counts["good"] + counts["bad"] == N and min(counts.values()) > N * 0.45
        samples = suite.embed_metrics()
        assert samples["sconce_embed_requests_total"] == N
        assert samples["te_request_success"] == counts["good"]
        assert samples["sconce_embed_failed_total"] == counts["bad"]
        assert samples["sconce_embed_refused_total"] == samples["sconce_embed_cancelled_total"] == 0
        assert suite.embed.starts == suite.gateway.starts == 1
    finally:
        check_log(suite.close())
