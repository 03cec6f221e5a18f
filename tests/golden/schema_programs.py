# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that compare_schemas.py compares: each class compiles a schema, and tells which
documents its program permits."""
import json
import signal
import sys
from unittest import mock

import numpy

from check_schemas import Cli

END = 256  # the token that ends a document
MOST_BYTES = 4000


class Late(Exception):
    pass


class Limit:
    """Raises Late in a `with` block that takes more than this number of seconds of processor
    time."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def ring(*_):
            raise Late
        signal.signal(signal.SIGPROF, ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_PROF, 0)


class Sconce:
    name = "sconce"

    def __init__(self, path):
        self.cli = Cli(path)  # without a tokenizer: its walks go byte by byte

    def compile(self, schema):
        return self.cli.compile(schema)[1]

    def follow(self, data):
        """Returns how many bytes may be written, and whether the document is then whole."""
        n, whole = self.cli.ask("A", data).split()
        return int(n), whole == "1"

    def walk(self, r, wishes):
        return self.cli.walk(r.randrange(1 << 32))


class Masked:
    """Represents a program whose masks have one bit for each byte, and one for the end."""

    def walk(self, r, wishes):
        """Returns (ended, text) of a random walk. Strings of the document are often taken from
        @wishes, the strings of the schema. The walk prefers bytes that close a string, an array or
        an object, above all after 150 bytes."""
        self.start()
        text, wish, string = bytearray(), b"", False
        while len(text) < MOST_BYTES:
            allowed = self.allowed()
            bytes_ = numpy.flatnonzero(allowed[:256])
            if allowed[END] and (not len(bytes_) or r.random() < 0.5):
                return True, bytes(text)
            if not len(bytes_):
                return False, bytes(text)
            c = self.pick(r, allowed, bytes_, text, wish, string)
            wish = wish[1:] if wish and wish[0] == c else b""
            if c == 0x22 and not (string and text[-1] == 0x5c and text[-2:] != b"\\\\"):
                string = not string
                if string and wishes and r.random() < 0.8:
                    wish = r.choice(wishes) + b'"'
            text.append(c)
            self.step(int(c))
        return False, bytes(text)

    def pick(self, r, allowed, bytes_, text, wish, string):
        if wish and allowed[wish[0]]:
            return wish[0]
        if string:
            if allowed[0x22] and r.random() < 0.25:
                return 0x22
            nice = [b for b in bytes_ if 0x30 <= b < 0x7b and b != 0x5c]
            return r.choice(nice or list(bytes_))
        late = len(text) > 150
        for closing in (0x5d, 0x7d):
            if allowed[closing] and r.random() < (0.8 if late else 0.25):
                return closing
        if late and allowed[0x2c] and not allowed[0x7d] and not allowed[0x5d]:
            return 0x2c
        nice = [b for b in bytes_ if b > 0x20]
        return r.choice(nice if nice and r.random() < 0.97 else list(bytes_))


class Llguidance(Masked):
    name = "llguidance"

    def __init__(self):
        import llguidance
        self.api = llguidance.LLMatcher
        self.tokenizer = llguidance.LLTokenizer("byte")
        self.end = self.tokenizer.eos_token

    def compile(self, schema):
        self.grammar = self.api.grammar_from_json_schema(json.dumps(schema))
        message = self.api.validate_grammar(self.grammar, self.tokenizer)
        self.start()
        return message or None

    def start(self):
        self.matcher = self.api(self.tokenizer, self.grammar)

    def allowed(self):
        bits = numpy.unpackbits(numpy.frombuffer(self.matcher.compute_bitmask(), dtype=numpy.uint8),
                                bitorder="little")
        bits[END] = bits[self.end]
        return bits

    def step(self, byte):
        self.matcher.consume_token(byte)

    def follow(self, data):
        self.start()
        n = self.matcher.try_consume_tokens(list(data))
        return n, n == len(data) and self.matcher.is_accepting()


class Xgrammar(Masked):
    name = "xgrammar"

    def __init__(self):
        import tvm_ffi  # noqa: F401  before torch gets a stand-in
        for module in ("torch", "transformers"):
            try:
                __import__(module)
            except ImportError:
                sys.modules[module] = mock.MagicMock(name=module)
        import xgrammar
        self.api = xgrammar
        tokens = [bytes([i]) for i in range(256)] + [b"</s>"]
        info = xgrammar.TokenizerInfo(tokens, vocab_type=xgrammar.VocabType.RAW,
                                      stop_token_ids=[END])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = numpy.zeros((1, -(-len(tokens) // 32)), dtype=numpy.int32)

    def compile(self, schema):
        try:
            self.grammar = self.compiler.compile_json_schema(
                json.dumps(schema), any_whitespace=True, strict_mode=False)
        except Late:
            raise
        except Exception as error:
            return str(error).strip().splitlines()[0]
        self.start()
        return None

    def start(self):
        self.matcher = self.api.GrammarMatcher(self.grammar)

    def allowed(self):
        self.mask.fill(-1)
        self.matcher.fill_next_token_bitmask(self.mask)
        return numpy.unpackbits(self.mask.view(numpy.uint8), bitorder="little")

    def step(self, byte):
        self.matcher.accept_token(byte)

    def follow(self, data):
        self.start()
        for n, byte in enumerate(data):
            if not self.matcher.accept_token(byte):
                return n, False
        return len(data), self.matcher.is_completed()


