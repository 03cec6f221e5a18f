# SPDX-License-Identifier: Apache-2.0
"""Asks a server for texts while its caches are restarted, filled up and damaged, and counts the
texts that differ from those of a cold run.

A cold run is a run of the same server with all caches off, in which each text is asked for alone.
A cell is one combination of the circumstances in which texts are asked for again.
"""
import collections
import concurrent.futures
import contextlib
import dataclasses
import http.client
import itertools
import random
import threading
import time

import clients
from servers import ROOMY, TIGHT
from texts import Drawer, sentence, with_another_block

FAILURES = (OSError, http.client.HTTPException, clients.Refused, ValueError, KeyError)
FAR = 0.01  # a log probability that differs by more did not change by rounding alone
RESTARTS = ("none", "end", "kill")
BLOCK = 64  # tokens; shorter prompts are not expected in a cache


@dataclasses.dataclass(frozen=True)
class Cell:
    """`room`: how much room the caches have. `restart`: whether all processes are ended or killed
    in the middle of the cell. `flips`: bits of stored files change. `cancels`: other requests lose
    their connections in mid-answer."""

    room: str
    n_clients: int
    restart: str
    flips: bool
    cancels: bool

    def __str__(self):
        return ", ".join(self.levels()[1:])

    def levels(self):
        """Returns the names under which the texts of this cell are counted."""
        is_calm = self.restart == "none" and not self.flips and not self.cancels
        return ("faults: %s" % ("none" if is_calm else "some"), "room: %s" % self.room, "clients: %d" % self.n_clients,
                "restart: %s" % self.restart, "flipped bits: %s" % ("yes" if self.flips else "no"),
                "cancelled requests: %s" % ("yes" if self.cancels else "no"))


@dataclasses.dataclass
class Job:
    """Represents one request of a cell. `cancelled`: a text that is requested before this one, and
    whose request is cancelled."""

    text: object
    streams: bool
    cancelled: object
    seed: int


@dataclasses.dataclass
class Counts:
    compared: int = 0
    differing: int = 0
    noisy: int = 0  # differing texts that also differ in a second cold run
    numbers: int = 0  # texts whose log probabilities were compared
    other_numbers: int = 0
    far: int = 0  # texts whose first log probability differs by more than FAR
    errors: int = 0  # requests without an answer, although no process was killed
    interrupted: int = 0  # requests that were in progress when all processes were killed
    cancelled: int = 0
    crashes: int = 0
    n_prompt: int = 0  # tokens
    n_cached: int = 0
    restored: int = 0  # texts that were asked for again after a restart, with tokens from a cache
    recomputed: int = 0  # such texts, without tokens from a cache
    controls: int = 0  # texts with another block in the prompt
    other_controls: int = 0  # controls whose answer differs

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def is_far(numbers, expected):
    """Returns whether the first log probability of any choice is far from the expected one. A server
    may have null for a number that is not finite."""
    for some, others in zip(numbers, expected):
        for a, b in zip(some[:1], others[:1]):
            if (a is None) != (b is None) or (a is not None and abs(a - b) > FAR):
                return True
    return False


def flip_bits(path, rng):
    """Flips between one bit and a bit in 20,000 bytes of a file."""
    size = path.stat().st_size
    with open(path, "r+b") as f:
        for _ in range(rng.choice((1, 8, 64, size // 20000 + 1))):
            f.seek(rng.randrange(size))
            byte = f.read(1)[0]
            f.seek(-1, 1)
            f.write(bytes([byte ^ 1 << rng.randrange(8)]))


def unevenness(cells):
    """Returns a number that is smallest if all pairs of levels occur equally often in the cells. A
    level is the value of one circumstance."""
    pairs = collections.Counter(pair for cell in cells
                                for pair in itertools.combinations(cell.levels()[1:], 2))
    return sum(n * n for n in pairs.values())


def cells_of(n_clients, n_texts, rng):
    """Returns all cells, or a sample that is small enough for about thirty texts in each cell.
    Roomy cells come first; their blocks say how much room a tight cell has. A sample contains each
    pair of levels about equally often."""
    rooms = {}
    n = max(8, min(48, n_texts // 30))
    for room in (ROOMY, TIGHT):
        every = [Cell(room, *rest) for rest in itertools.product(
            dict.fromkeys((1, n_clients)), RESTARTS, (False, True), (False, True))]
        samples = [rng.sample(every, min((n + 1) // 2, len(every))) for _ in range(500)]
        rooms[room] = min(samples, key=unevenness)
    return rooms


class Proof:
    """Asks one server, which has one or several families."""

    def __init__(self, server, options, tell):
        self.server, self.options, self.tell = server, options, tell
        self.families = {name: Counts() for name in server.models}
        self.refused = {}  # family → the reason for which the server cannot load it
        self.levels = {}
        self.expected = {}  # text → answer of the cold run
        self.texts = {}  # family → its texts, in the order of their conversations
        self.lock = threading.Lock()
        self.is_killing = False
        self.examples = []  # (text, cell, expected, answer)
        self.differing = []
        self.rng = random.Random("cells %s" % options.seed)

    # The cold run

    def ask_cold(self, text):
        answer = clients.ask(self.server.address, text, self.server.more)
        if answer.n_cached:
            raise RuntimeError("the cold run took tokens from a cache")
        self.expected[text] = answer
        return answer.texts[0]

    def chars(self, family):
        """Returns the characters per token of a family's tokenizer."""
        prompt = sentence(random.Random(1), 400)
        text = dataclasses.replace(Drawer(0, family, 1, BLOCK, 1).text(prompt, ""), n=1)
        return len(prompt) / max(1, clients.ask(self.server.address, text, self.server.more).n_prompt)

    def load_all(self):
        """Starts the server and loads each family. Returns the characters per token of each; leaves
        out families that the server cannot load."""
        chars = {}
        try:
            self.server.start()
            for family in self.families:
                try:
                    chars[family] = self.chars(family)
                except FAILURES as error:
                    self.refused[family] = str(error)[-200:]
        except RuntimeError as error:
            self.refused = dict.fromkeys(self.families, str(error)[-200:])
        self.families = {name: self.families[name] for name in chars}
        return chars

    def run_cold(self, n_texts):
        """Draws the texts and asks for each alone, in a server without caches."""
        self.server.configure(ROOMY, cold=True)
        for family, chars in self.load_all().items():
            drawer = Drawer(self.options.seed, family, chars, self.options.context * 5 // 8,
                            self.options.max_n)
            self.texts[family] = drawer.texts(max(4, n_texts // len(self.families)), self.ask_cold)
            self.control(family, chars)
        self.server.stop()

    def control(self, family, chars):
        """Counts how many answers change if one block of the prompt is replaced. About this share
        of the answers would show a wrong block from a cache."""
        counts, texts = self.families[family], self.texts[family]
        for text in self.rng.sample(texts, min(len(texts), self.options.controls)):
            other = with_another_block(self.rng, text, chars)
            if other:
                answer = clients.ask(self.server.address, other, self.server.more)
                counts.controls += 1
                counts.other_controls += answer.texts != self.expected[text].texts

    def run_cold_again(self):
        """Returns the texts that differ in a second cold run, in which several texts are asked for
        at the same time."""
        self.server.configure(ROOMY, cold=True)
        self.server.start()

        def differs(text):
            try:
                answer = clients.ask(self.server.address, text, self.server.more)
                return answer.texts != self.expected[text].texts
            except FAILURES:
                return False

        texts = [text for texts in self.texts.values() for text in texts]
        self.rng.shuffle(texts)
        with concurrent.futures.ThreadPoolExecutor(self.options.concurrency) as pool:
            noisy = {text for text, is_other in zip(texts, pool.map(differs, texts)) if is_other}
        self.server.stop()
        return noisy

    # The cells

    def jobs(self, n):
        """Returns @n jobs: texts that come next in their conversation, and texts that were asked
        for before."""
        rng, jobs = self.rng, []
        for _ in range(n):
            family, texts = rng.choice(list(self.texts.items()))
            reach = self.reach[family]  # the number of texts that were asked for so far
            if reach < len(texts) and (reach == 0 or rng.random() < 0.45):
                text = texts[reach]
                self.reach[family] += 1
            else:
                # Recent texts are asked for more often, as the turns of a conversation are.
                back = int(reach * rng.random() ** 2)
                text = texts[reach - 1 - min(back, reach - 1)]
            other = rng.choice(texts[:reach + 1]) if rng.random() < 0.4 else None
            jobs.append(Job(text, rng.random() < 0.3, other, rng.randrange(1 << 31)))
        if self.server.all_at_once:
            # Groups the jobs by family, because a server may have to unload one model to load
            # another.
            jobs.sort(key=lambda job: (job.seed % 7, job.text.family))
        return jobs

    def run_room(self, room, cells, n_each):
        self.server.configure(room)
        self.server.empty()
        self.server.start()
        self.reach = dict.fromkeys(self.texts, 0)
        self.seen = set()
        for cell in cells:
            began = time.monotonic()
            self.run_cell(cell, n_each)
            self.tell("%s, %.1f s" % (cell, time.monotonic() - began))
        self.server.stop()

    def run_cell(self, cell, n_texts):
        self.since_restart = None
        left = self.ask_all(self.jobs(n_texts // 2), cell)
        self.server.settle()
        if cell.restart == "none":
            if cell.flips:
                self.flip(self.server.open_files())
                self.server.restore()
        else:
            left += self.restart(cell)
            self.since_restart = set()
        jobs = left + self.jobs(n_texts - n_texts // 2)
        for at in range(0, len(jobs), 12):
            self.ask_all(jobs[at:at + 12], cell)
            if cell.flips:
                self.flip(self.server.open_files())

    def restart(self, cell):
        """Ends or kills the server and starts it again. Returns the jobs that were interrupted."""
        left = []
        if cell.restart == "kill":
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                self.is_killing = True
                asking = pool.submit(self.ask_all, self.jobs(4 * cell.n_clients), cell)
                time.sleep(self.rng.random() * 0.03)
                self.server.kill()
                left = asking.result()
                self.is_killing = False
        else:
            self.server.stop()
        if cell.flips:
            self.flip(self.server.files())
        self.server.forget()
        self.server.start()
        self.server.restore()
        return left

    def flip(self, paths):
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # a server may remove files at any time
                flip_bits(path, self.rng)

    def ask_all(self, jobs, cell):
        """Asks for the texts of all jobs. Returns the jobs that were interrupted by a kill."""
        with concurrent.futures.ThreadPoolExecutor(cell.n_clients) as pool:
            done = list(pool.map(lambda job: self.ask(job, cell), jobs))
        return [job for job, is_done in zip(jobs, done) if not is_done]

    def ask(self, job, cell):
        rng, counts = random.Random(job.seed), Counts()
        is_done = True
        try:
            if cell.cancels and job.cancelled:
                counts.cancelled += 1
                clients.cancel(self.server.address, job.cancelled, self.server.more, rng)
            answer = clients.ask(self.server.address, job.text, self.server.more, job.streams)
            self.compare(job.text, cell, answer, counts)
        except FAILURES as error:
            if self.is_killing:
                counts.interrupted += 1
                is_done = False
            else:
                counts.errors += 1
                self.fail(error, counts)
        with self.lock:
            self.families[job.text.family].add(counts)
            kinds = ("answers: %s" % ("one" if job.text.n == 1 else "several"),
                     "sampling: %s" % ("random" if job.text.temperature else "greedy"))
            for level in cell.levels() + kinds:
                self.levels.setdefault(level, Counts()).add(counts)
        return is_done

    def fail(self, error, counts):
        """Reports an error, and starts the server again if it has ended."""
        with self.lock:
            self.tell("error: %s: %s" % (type(error).__name__, error))
            if not self.server.is_alive():
                counts.crashes += 1
                self.tell("the server ended: %s" % self.server.program.tell()[-1000:])
                self.server.stop()
                self.server.start()

    def compare(self, text, cell, answer, counts):
        expected = self.expected[text]
        counts.compared += 1
        counts.n_prompt += answer.n_prompt
        counts.n_cached += answer.n_cached
        if answer.numbers:
            counts.numbers += 1
            counts.other_numbers += answer.numbers != expected.numbers
            counts.far += is_far(answer.numbers, expected.numbers)
        with self.lock:
            if self.since_restart is not None and text in self.seen and \
                    text not in self.since_restart and answer.n_prompt > BLOCK:
                counts.restored += answer.n_cached > 0
                counts.recomputed += answer.n_cached == 0
            if self.since_restart is not None:
                self.since_restart.add(text)
            self.seen.add(text)
            if answer.texts != expected.texts:
                counts.differing += 1
                self.differing.append(text)
                self.examples.append((text, cell, expected, answer))

    def count_noise(self, noisy):
        for text in self.differing:
            self.families[text.family].noisy += text in noisy

    def learn(self):
        """Asks for the longest prompt of each family, from which a server may learn how large its
        blocks are."""
        self.server.configure(ROOMY)
        self.server.empty()
        self.server.start()
        for texts in self.texts.values():
            clients.ask(self.server.address, max(texts, key=lambda text: len(text.prompt)),
                        self.server.more)
        self.server.settle()
        self.server.stop()

    def run(self, n_texts):
        rooms = cells_of(self.options.concurrency, n_texts, self.rng)
        n_cells = sum(map(len, rooms.values()))
        began = time.monotonic()
        self.run_cold(n_texts // 4)
        if not self.texts:
            return
        self.tell("cold run: %d texts, %.1f s" % (len(self.expected), time.monotonic() - began))
        noisy = set() if self.server.exact else self.run_cold_again()
        self.learn()
        for room, cells in rooms.items():
            self.run_room(room, cells, -(-n_texts // n_cells))
        if self.server.exact and self.differing:
            noisy = self.run_cold_again()
        self.count_noise(noisy)
