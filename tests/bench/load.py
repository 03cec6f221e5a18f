# SPDX-License-Identifier: Apache-2.0
"""Generates load with little work of its own: many streamed completions at once over raw HTTP/1.1,
on one thread.

The generator shares the machine with the servers that it measures. Therefore it does little work
per event, and it reports how much of a CPU it used.
"""
import asyncio
import json
import random
import resource
import time

from figures import median, percentile


def words(seed, n):
    """Returns a text of n short words that no other seed gives. Each word has one or two tokens,
    as usual words do."""
    rng = random.Random(seed)
    return " ".join("".join(rng.choices("etaoinshrdlu", k=2)) for _ in range(n))


def request(path, body):
    data = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % (path.encode(), len(data))) + data


def chat_request(model, text, n_tokens):
    return request("/v1/chat/completions", {
        "model": model, "messages": [{"role": "user", "content": text}], "stream": True,
        "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True,
        "stream_options": {"include_usage": True}})


def completion_request(model, text, n_tokens):
    """Returns the bytes of a request. @text is a string or a list of tokens."""
    return request("/v1/completions", {
        "model": model, "prompt": text, "stream": True, "max_tokens": n_tokens, "temperature": 0,
        "ignore_eos": True, "stream_options": {"include_usage": True}})


class Stream(asyncio.Protocol):
    """Represents one request and its streamed answer; `times` has the time at which each piece
    arrived."""

    def __init__(self, data):
        self.data = data
        self.times = []
        self.n_tokens = self.n_prompt = self.n_cached = 0
        self.text = ""
        self.begin = self.end = 0.0
        self.buffer = b""
        self.body = b""
        self.head = None
        self.left = 0  # bytes of the current chunk, its line end included
        self.done = asyncio.get_running_loop().create_future()
        self.on_piece = None

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.data)

    def data_received(self, data):
        self.now = time.perf_counter()
        self.buffer += data
        if self.head is None:
            head, mark, rest = self.buffer.partition(b"\r\n\r\n")
            if not mark:
                return
            self.head, self.buffer = head, rest
        if b" 200 " not in self.head.split(b"\r\n")[0] + b" ":
            return  # such an answer is evaluated when the connection ends
        self.take_chunks()

    def take_chunks(self):
        while True:
            if self.left == 0:
                line, mark, rest = self.buffer.partition(b"\r\n")
                if not mark:
                    return
                self.buffer = rest
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    self.finish()
                    return
                self.left = size + 2
            if len(self.buffer) < self.left:
                return
            self.body += self.buffer[:self.left - 2]
            self.buffer = self.buffer[self.left:]
            self.left = 0
            *events, self.body = self.body.split(b"\n\n")
            for event in events:
                self.take_event(event)

    def take_event(self, event):
        if not event.startswith(b"data: ") or event == b"data: [DONE]":
            return
        reply = json.loads(event[6:])
        if reply.get("usage"):
            self.n_tokens = reply["usage"]["completion_tokens"]
            self.n_prompt = reply["usage"]["prompt_tokens"]
            details = reply["usage"].get("prompt_tokens_details") or {}
            self.n_cached = details.get("cached_tokens", 0)
        for choice in reply.get("choices", ()):
            piece = choice.get("text") or choice.get("delta", {}).get("content")
            if piece:
                self.text += piece
                self.times.append(self.now)
                if self.on_piece:
                    self.on_piece(self)
        if "error" in reply:
            self.fail(str(reply["error"]))

    def finish(self):
        self.end = time.perf_counter()
        if not self.done.done():
            self.done.set_result(self)
        self.transport.close()

    def fail(self, text):
        if not self.done.done():
            self.done.set_exception(RuntimeError(text))
        self.transport.close()

    def connection_lost(self, error):
        if not self.done.done():
            self.fail("the answer ended early: %r %r" % (self.head, self.buffer[:500]))

    @property
    def first(self):
        """Returns the seconds from before the connection to the first piece of text."""
        return self.times[0] - self.begin

    def gaps(self, begin=0.0, end=float("inf")):
        times = [t for t in self.times if begin <= t <= end]
        return [b - a for a, b in zip(times, times[1:])]


async def start(address, data):
    stream = Stream(data)
    stream.begin = time.perf_counter()
    loop = asyncio.get_running_loop()
    if isinstance(address, str):
        await loop.create_unix_connection(lambda: stream, address)
    else:
        await loop.create_connection(lambda: stream, *address)
    return stream


def one(address, data):
    """Sends one request and waits for the end of its answer."""

    async def run():
        stream = await start(address, data)
        return await stream.done

    return asyncio.run(run())


class Wave:
    """Holds the results of clients that sent their requests at the same time."""

    def __init__(self, streams, cpu):
        self.seconds = max(s.end for s in streams) - min(s.begin for s in streams)
        self.n_tokens = sum(s.n_tokens for s in streams)
        self.n_prompt = sum(s.n_prompt for s in streams)
        self.tok_s = self.n_tokens / self.seconds
        self.first = median([s.first for s in streams if s.times])
        self.token = median([(s.times[-1] - s.times[0]) / (len(s.times) - 1)
                             for s in streams if len(s.times) > 1] or [0.0])
        self.cpu = cpu / self.seconds  # CPU time of this process, as a part of one CPU


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def wave(address, requests):
    """Sends all requests at once and waits for all answers."""

    async def run():
        streams = await asyncio.gather(*(start(address, r) for r in requests))
        await asyncio.gather(*(s.done for s in streams))
        return streams

    before = cpu_seconds()
    streams = asyncio.run(run())
    return Wave(streams, cpu_seconds() - before)


class Gaps:
    """Holds the gaps between the pieces of one stream, alone and during the prefill of other
    prompts; and the speed of this prefill."""

    def __init__(self, alone, disturbed, others):
        self.n = len(disturbed)
        self.n_others = len(others)
        self.others_tok_s = median([s.n_prompt / (s.end - s.begin) for s in others])
        self.median_alone = median(alone)
        self.median = median(disturbed)
        self.p99 = percentile(disturbed, 0.99)
        self.longest = max(disturbed, default=0.0)


def gaps(address, streaming, others, n_alone, seconds):
    """Measures gaps while one client streams. Once it has @n_alone pieces, sends the other
    requests, one after another, for @seconds."""

    async def run():
        stream = await start(address, streaming)
        ready = asyncio.get_running_loop().create_future()

        def on_piece(s):
            if len(s.times) == n_alone and not ready.done():
                ready.set_result(None)

        stream.on_piece = on_piece
        await asyncio.wait((ready, stream.done), return_when=asyncio.FIRST_COMPLETED)
        begin = time.perf_counter()
        answered = []
        for other in others:
            left = begin + seconds - time.perf_counter()
            if left <= 0 or stream.done.done():
                break
            asked = await start(address, other)
            await asyncio.wait((asked.done, stream.done), timeout=left,
                               return_when=asyncio.FIRST_COMPLETED)
            if asked.end > 0:
                answered.append(asked)
            else:
                asked.done.cancel()
                asked.transport.abort()
        last = time.perf_counter()
        if not stream.done.done():
            stream.on_piece = None
            stream.times.append(last)  # the last gap has not ended, and is at least this long
            stream.done.cancel()
        # The gap in which the first other prompt was sent counts as disturbed.
        before = max([t for t in stream.times if t <= begin], default=begin)
        result = Gaps(stream.gaps(end=begin)[2:], stream.gaps(before, last), answered)
        stream.transport.abort()
        return result

    return asyncio.run(run())
