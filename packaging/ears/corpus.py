# SPDX-License-Identifier: Apache-2.0
"""Generates the sentences of sconce-ears from a small grammar (corpus.txt), with a seeded random generator.

A tenth of the sentences that have five or more words is held out: these sentences are not used in training, only in
tests. A checksum of the text selects them.
"""
import pathlib
import random
import re
import zlib

HERE = pathlib.Path(__file__).parent
FIELD = re.compile(r"\{(\w+)\}")


class Grammar:
    def __init__(self, path=HERE / "corpus.txt"):
        self.macros, self.sentences, self.weights = {}, [], []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            if line[0].isdigit():
                weight, text = line.split(" ", 1)
                self.sentences.append(text)
                self.weights.append(int(weight))
            else:
                name, options = line.split(": ", 1)
                self.macros[name] = options.split(" | ")

    def words(self):
        """Returns all words of all sentences, in lower case."""
        texts = self.sentences + [o for options in self.macros.values() for o in options]
        return sorted({w for t in texts for w in plain(FIELD.sub(" ", t))})

    def first_words(self):
        """Returns the first words of all sentences, with the case that they have in the grammar."""
        out, todo = set(), [t.split()[0] for t in self.sentences]
        while todo:
            m = FIELD.match(word := todo.pop())
            if m is None:
                out.add(word)
            else:
                todo += [o.split()[0] for o in self.macros[m.group(1)]]
        return sorted(out)

    def draw(self, rng):
        text = rng.choices(self.sentences, self.weights)[0]
        while (m := FIELD.search(text)) is not None:
            text = text[:m.start()] + rng.choice(self.macros[m.group(1)]) + text[m.end():]
        text = text[0].upper() + text[1:]
        return text if text[-1] in "?!" else text + "."


def plain(text):
    """Returns the words of a text for comparisons: in lower case, without punctuation except apostrophes."""
    return re.sub(r"[^a-z' ]", " ", text.lower()).split()


def is_held_out(text):
    return zlib.crc32(text.encode()) % 10 == 0


def sentences(n, seed, held_out=False):
    """Returns @n sentences: only held-out sentences, or only others. Sentences of fewer than five words ("Stop the
    timer.") have few variants, so they are never held out, and may repeat. All other sentences in the list are
    different."""
    grammar, rng, seen, out = Grammar(), random.Random(seed), set(), []
    while len(out) < n:
        text = grammar.draw(rng)
        short = len(plain(text)) < 5
        if (held_out and (short or not is_held_out(text))) or \
                (not held_out and not short and is_held_out(text)) or (text in seen and not short):
            continue
        seen.add(text)
        out.append(text)
    return out


def distance(a, b):
    """Returns how many words must be changed, inserted or removed to convert one list to the other."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]
