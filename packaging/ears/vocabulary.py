# SPDX-License-Identifier: Apache-2.0
"""Selects the tokens of sconce-ears, a small Whisper for tests, from Whisper's tokens: the tokens
that the sentences of corpus.py need, the tokens of all bytes, and the intermediate tokens of byte
pair encoding. The selected tokens keep Whisper's order. The special tokens come after all of them,
also in Whisper's order."""
import base64
import re

from corpus import Grammar

LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr "
    "bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn "
    "yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw "
    "su").split()
OTHERS = ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>",
          "<|notimestamps|>"]
EOT, SOT = "<|endoftext|>", "<|startoftranscript|>"


def merge(parts, ranks, into=None):
    """Encodes one word, which is split into @parts, with byte pair encoding. Adds to @into the
    pairs that are joined."""
    parts = list(parts)
    while len(parts) > 1:
        pairs = [(ranks.get(a + b, 1 << 30), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
        rank, i = min(pairs)
        if rank == 1 << 30:
            break
        if into is not None:
            into[parts[i] + parts[i + 1]] = (parts[i], parts[i + 1])
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


def pieces(text):
    """Cuts a text of the grammar as the pre-tokenizer of GPT-2 does: into words with the space before them, and
    punctuation."""
    return re.findall(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", text)


def byte_letters():
    """Returns the character that GPT-2's vocabulary uses for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}


class Vocabulary:
    def __init__(self, tokens, merges):
        """@tokens: the bytes of the tokens, in order; @merges: the pairs of tokens that are joined, in order."""
        self.tokens, self.merges = tokens, merges
        self.ranks = {t: i for i, t in enumerate(tokens)}
        self.special = [EOT, SOT] + [f"<|{l}|>" for l in LANGUAGES] + OTHERS
        self.ids = {t: len(tokens) + i for i, t in enumerate(self.special)}
        self.first_time = len(tokens) + len(self.special)
        self.cache = {}

    @classmethod
    def from_tiktoken(cls, path):
        """Makes the vocabulary. @path: multilingual.tiktoken, which has a token per line: its bytes in base64,
        and its position."""
        lines = (l.split() for l in path.read_bytes().splitlines())
        ranks = {base64.b64decode(l[0]): int(l[1]) for l in lines if len(l) == 2}
        used, grammar = {}, Grammar()
        texts = {w for t in grammar.sentences + sum(grammar.macros.values(), []) for w in t.split()
                 if "{" not in w} | {w.capitalize() for w in grammar.first_words()}
        for text in texts | {"a.", "a,", "a?"}:
            for word in pieces(" " + text):
                merge([bytes([b]) for b in word.encode()], ranks, used)
        keep = sorted({bytes([b]) for b in range(256)} | set(used), key=ranks.get)
        return cls(keep, [used[t] for t in keep if t in used])

    def encode(self, text):
        """Returns the ids of plain text; special tokens are not recognized in it."""
        out = []
        for word in pieces(text):
            if word not in self.cache:
                parts = merge([bytes([b]) for b in word.encode()], self.ranks)
                self.cache[word] = [self.ranks[p] for p in parts]
            out += self.cache[word]
        return out

    def decode(self, ids):
        return b"".join(self.tokens[i] for i in ids if i < len(self.tokens)).decode(errors="replace")

    def time(self, seconds):
        return self.first_time + min(1500, max(0, round(seconds * 50)))
