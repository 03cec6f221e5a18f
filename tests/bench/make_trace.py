#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Writes a synthetic trace of requests in the format of the Qwen-Bailian traces.

    make_trace.py [--kind consumer|business] [--requests N] [--seed N] > trace.jsonl

It follows the description of a large provider's traffic in "KVCache Cache in the Wild" (Wang et
al., USENIX ATC 2025). Programs send their own system prompt and one question; a few programs send
most of these requests. People chat for a few turns, with exponentially distributed times between
turns. A cache without limit could provide about 62 % of the blocks in the traffic of consumers and
54 % of those in the traffic of businesses. A tenth of the blocks makes up about three quarters of
the reuses. The program prints these figures for its own trace on stderr.
"""

import argparse
import collections
import heapq
import json
import math
import random
import sys

BLOCK = 16  # tokens

# "chats" is the share of chats among new conversations. "programs" is the number of different
# programs, which are chosen by Zipf's law, and "system" is the median number of tokens of their
# system prompts. "turns" is the mean number of turns of a chat, and "pause" the mean time between
# turns in seconds. "asked" and "answered" are the median numbers of tokens of a question and of an
# answer.
KINDS = {
    "consumer": dict(chats=0.7, programs=60, system=400, turns=2.1, pause=100, asked=170, answered=330),
    "business": dict(chats=0.12, programs=250, system=800, turns=2.5, pause=45, asked=620, answered=160),
}
CONVERSATIONS_A_SECOND = 3.0


class Names:
    """Gives unique numbers to blocks."""

    def __init__(self):
        self.next = 0

    def take(self, n):
        self.next += n
        return list(range(self.next - n, self.next))


def tokens(rng, median, sigma=1.0, least=8, most=24000):
    return int(min(max(rng.lognormvariate(math.log(median), sigma), least), most))


class Chat:
    """Represents one conversation: the blocks of its text so far, and its next turn."""

    def __init__(self, rng, names, kind, programs, weights):
        self.rng, self.names, self.kind = rng, names, kind
        self.is_chat = rng.random() < kind["chats"]
        program = rng.choices(programs, weights)[0]
        # Half of the chats begin with no system prompt, the others with that of a program.
        self.length, self.blocks = (0, []) if self.is_chat and rng.random() < 0.5 else program
        self.blocks = list(self.blocks)
        self.turns_left = 1
        if self.is_chat:
            while rng.random() > 1 / kind["turns"]:
                self.turns_left += 1
        self.turn, self.last_id = 0, -1

    def extend(self, n):
        # A block that was not full gets a new number when text is added.
        full = self.length // BLOCK
        self.length += n
        del self.blocks[full:]
        self.blocks += self.names.take(math.ceil(self.length / BLOCK) - full)

    def say(self, at, number):
        self.extend(tokens(self.rng, self.kind["asked"]))
        self.turn += 1
        self.turns_left -= 1
        answer = tokens(self.rng, self.kind["answered"], 0.8)
        line = dict(
            chat_id=number, parent_chat_id=self.last_id, timestamp=round(at, 3), input_length=self.length,
            output_length=answer, type="text", turn=self.turn, hash_ids=list(self.blocks))
        self.last_id = number
        self.extend(answer)
        return line


def requests(kind, seed, n):
    rng = random.Random(seed)
    names = Names()
    programs = []
    for _ in range(kind["programs"]):
        length = tokens(rng, kind["system"])
        programs.append((length, names.take(math.ceil(length / BLOCK))))
    weights = [1 / (i + 1) ** 1.1 for i in range(len(programs))]
    due = []  # (time, tie breaker, conversation)
    arrival, ties = 0.0, 0
    for number in range(n):
        while not due or due[0][0] > arrival:
            heapq.heappush(due, (arrival, ties, Chat(rng, names, kind, programs, weights)))
            arrival += rng.expovariate(CONVERSATIONS_A_SECOND)
            ties += 1
        at, tie, chat = heapq.heappop(due)
        yield chat.say(at, number)
        if chat.turns_left > 0:
            heapq.heappush(due, (at + rng.expovariate(1 / kind["pause"]), tie, chat))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--kind", choices=sorted(KINDS), default="consumer")
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    uses = collections.Counter()
    for line in requests(KINDS[args.kind], args.seed, args.requests):
        uses.update(line["hash_ids"][: line["input_length"] // BLOCK])
        print(json.dumps(line, separators=(",", ":")))
    reuses = sorted((n - 1 for n in uses.values()), reverse=True)
    total = max(sum(reuses), 1)
    print(f"{args.kind}: {sum(uses.values())} blocks, {len(uses)} different, "
          f"{100 * total / max(sum(uses.values()), 1):.0f} % could be hits, "
          f"a tenth of the blocks makes {100 * sum(reuses[: len(reuses) // 10]) / total:.0f} % of them",
          file=sys.stderr)


if __name__ == "__main__":
    main()
