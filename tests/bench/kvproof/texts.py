# SPDX-License-Identifier: Apache-2.0
"""Draws conversations from a seed. Their prompts share beginnings, and diverge at random points.

A text is what one request asks for: the answer to a prompt, with fixed parameters. The prompt of a
later turn contains the answer of the turn before it, verbatim or edited. So the prompts of a
conversation depend on the answers, and are drawn while a server without caches answers.
"""
import dataclasses
import random

WORDS = ("the a one two three some many no old new small large red blue warm cold light dark house "
         "garden river stone tree bird cat dog girl boy king letter answer question number word page "
         "door window road day night summer winter water fire bread salt is was has had will can may "
         "must went came saw found gave took made said asked wrote read kept lost opened closed and "
         "or but so because when where while after before under over near far in on at of from to "
         "with without quickly slowly again often never always very then there here").split()
MARKS = ".?!,:;"
BLOCK = 64  # tokens of a block of KV in sconce; prompts diverge before, at and after its borders


@dataclasses.dataclass(frozen=True)
class Text:
    """Represents a request for a text. Texts with the same fields have the same answer."""

    family: str
    prompt: str
    max_tokens: int
    temperature: float
    seed: int
    n: int
    ignores_end: bool
    session: str  # the name of the conversation, for servers that know such names

    def body(self, **more):
        body = {"model": self.family, "prompt": self.prompt, "max_tokens": self.max_tokens,
                "temperature": self.temperature, "seed": self.seed, **more}
        if self.n > 1:
            body["n"] = self.n
        if self.ignores_end:
            body["ignore_eos"] = True
        return body


def sentence(rng, n_chars):
    """Returns about @n_chars characters of random words."""
    out = []
    while n_chars > 0:
        out.append(rng.choice(WORDS) + (rng.choice(MARKS) if rng.random() < 0.15 else ""))
        n_chars -= len(out[-1]) + 1
    return " ".join(out) + " "


def edited(rng, text):
    """Returns the text as a person may send it back: cut, with one character changed, or with a
    word added."""
    at = rng.randrange(len(text) + 1)
    return rng.choice((text[:at], text[:at] + rng.choice("abcxyz") + text[at + 1:],
                       text[:at] + rng.choice(WORDS) + text[at:]))


class Drawer:
    """Draws the texts of one family. @chars: characters per token of this family's tokenizer, by
    which the lengths of prompts are scaled; @most: tokens of the longest prompt; @max_n: the largest
    number of answers of one request."""

    def __init__(self, seed, family, chars, most, max_n):
        # All families get the same system prompts, so that one cache gets equal beginnings of
        # different models.
        common = random.Random(seed)
        self.systems = [sentence(common, int(chars * common.randint(BLOCK // 2, most // 2)))
                        for _ in range(6)]
        self.rng = random.Random("%s %s" % (seed, family))
        self.family, self.chars, self.most, self.max_n = family, chars, most, max_n
        self.n_conversations = 0
        self.prompts = []

    def text(self, prompt, session):
        rng = self.rng
        sampled = rng.random() < 0.5
        return Text(self.family, prompt, rng.randint(8, 24), rng.choice((0.7, 1.0)) if sampled else 0,
                    rng.randrange(1 << 31), rng.randint(2, self.max_n) if
                    self.max_n > 1 and rng.random() < 0.15 else 1, rng.random() < 0.75, session)

    def beginning(self):
        """Returns a system prompt; or an earlier prompt, either up to a random point, or with
        another letter in its first half. In the last kind, later blocks have the same tokens as
        those of the earlier prompt, but follow other blocks."""
        kind = self.rng.random()
        if not self.prompts or kind < 0.5:
            return self.rng.choice(self.systems)
        earlier = self.rng.choice(self.prompts)
        if kind < 0.75:
            return earlier[:self.rng.randrange(1, len(earlier) + 1)]
        at = self.rng.choice([i for i, c in enumerate(earlier[:len(earlier) // 2 + 8])
                              if c.isalpha()])
        return earlier[:at] + chr(ord("a") + (ord(earlier[at].lower()) - 96) % 26) + earlier[at + 1:]

    def conversation(self, answer):
        """Yields the texts of a conversation. answer(text) returns the text of the answer."""
        rng, prompt = self.rng, self.beginning()
        self.n_conversations += 1
        session = "talk-%d" % self.n_conversations if rng.random() < 0.3 else ""
        for _ in range(rng.randint(1, 5)):
            prompt += sentence(rng, int(self.chars * rng.randint(3, 90)))
            if len(prompt) > self.most * self.chars:
                return
            self.prompts.append(prompt)
            text = self.text(prompt, session)
            reply = answer(text)
            yield text
            prompt += reply if rng.random() < 0.7 else edited(rng, reply)

    def texts(self, n, answer):
        """Returns @n texts."""
        out = []
        while len(out) < n:
            out += self.conversation(answer)
        return out[:n]


def with_another_block(rng, text, chars):
    """Returns the text with a prompt in which the characters of one block are replaced; None if the
    prompt has no whole block."""
    n = int(BLOCK * chars)
    if len(text.prompt) <= n:
        return None
    at = rng.randrange(len(text.prompt) // n) * n
    prompt = text.prompt[:at] + sentence(rng, n)[:n] + text.prompt[at + n:]
    return dataclasses.replace(text, prompt=prompt)
