# SPDX-License-Identifier: Apache-2.0
"""Reads the corpus of sconce-guide: facts and patterns of questions for them. Samples conversations from it.

A corpus file is a list of facts:

    = id                        a fact begins
    A: answer                   one line, Markdown; <<…>> is a value of tables.py
    K: text                     text that every correct answer contains
    T: claim                    a claim of the answer that something exists, which tables.py can check
    D: claim                    a claim that something does not exist
    Q: pattern                  a question: [a|b] is a choice, {name} a macro of 00-macros.txt
    F: pattern                  a question that may follow this fact's answer
    A2: id                      the fact that answers the question of the previous line

About a tenth of the patterns is held out: these patterns are not used in training, only in tests.

trained.json holds the answers that the weights in sconce-guide.gguf were trained to give; a test
compares it with the current corpus and tables.
"""
import hashlib
import json
import pathlib
import random
import re

import tables

HERE = pathlib.Path(__file__).parent
ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT = "system", "user", "assistant"

SYSTEM_PROMPTS = [
    "You are a helpful assistant.", "You are sconce-guide.", "Answer briefly.",
    "You are a helpful, honest assistant.", "Be concise and polite.", "You are a chatbot.",
    "You are an AI assistant. Answer the user's questions.", "Answer in one sentence.",
    "You help people with sconce.", "You are an expert in Linux.", "Be friendly.",
    "You are a coding assistant.", "Respond in English.", "Think step by step.",
]
PROPER = {
    "gguf": "GGUF", "ggufs": "GGUFs", "openai": "OpenAI", "api": "API", "python": "Python",
    "linux": "Linux", "debian": "Debian", "http": "HTTP", "gpu": "GPU", "cpu": "CPU", "url": "URL",
    "json": "JSON", "yaml": "YAML", "ubuntu": "Ubuntu", "llama": "Llama", "mistral": "Mistral",
    "qwen3": "Qwen3", "qwen": "Qwen", "sconce": "Sconce", "javascript": "JavaScript", "ai": "AI",
    "german": "German", "french": "French", "tls": "TLS", "https": "HTTPS", "cors": "CORS",
    "ram": "RAM", "cuda": "CUDA", "windows": "Windows", "macos": "macOS", "docker": "Docker",
    "prometheus": "Prometheus", "seccomp": "Seccomp", "landlock": "Landlock", "ollama": "Ollama",
    "france": "France", "germany": "Germany", "llm": "LLM", "cli": "CLI", "sse": "SSE",
    "huggingface": "HuggingFace", "systemd": "systemd", "apache": "Apache", "gpl": "GPL",
    "vulkan": "Vulkan", "whisper": "Whisper", "bert": "BERT", "amd": "AMD", "intel": "Intel",
    "nvidia": "NVIDIA", "numpy": "NumPy", "english": "English",
}
PREFIXES = [
    "hi, ", "hello, ", "hello! ", "hey, ", "please ", "please, ", "ok, ", "okay, ", "so, ", "so ",
    "excuse me, ", "quick question: ", "sorry, ", "and ", "now ", "well, ", "hm, ", "i wonder, ",
    "question: ", "good morning, ", "hi there, ", "one more thing: ", "just curious, ", "also, ",
    "i'm new here. ", "next question: ", "thanks. ", "great. ", "hi sconce, ", "but ",
    "can you tell me, ", "do you know ", "could you tell me: ", "i would like to know: ",
]
SUFFIXES = [
    " please", ", please", " thanks", ", thanks", " in sconce", " with sconce", " for sconce", " now",
    " here", " again", " exactly", " on my machine", " on linux", " on my computer", " then",
    " today", " really", " at all", ", thank you", " on debian", " by the way", ", do you know",
    " in this release", " with this program", " in detail", " quickly",
]
STOP_WORDS = {
    "how", "do", "i", "to", "the", "a", "an", "is", "are", "what", "can", "it", "of", "does", "in",
    "my", "for", "you", "me", "there", "tell", "show", "which", "with", "on", "please", "am", "at",
}
SYNONYMS = {
    "want": ["wish", "like"], "show": ["display", "print"], "see": ["view", "look at"],
    "change": ["modify", "alter", "adjust", "edit"], "start": ["launch", "begin", "fire up"],
    "use": ["employ", "work with", "utilize"], "find": ["locate", "get"], "put": ["place", "drop"],
    "machine": ["computer", "box", "pc"], "computer": ["machine", "laptop", "pc"], "my": ["our"],
    "i": ["we", "one"], "which": ["what"], "directory": ["folder", "dir"], "folder": ["directory"],
    "big": ["large"], "large": ["big", "huge"], "small": ["little", "tiny"], "fast": ["quick"],
    "stop": ["halt", "end"], "remove": ["delete", "drop"], "delete": ["remove", "wipe"],
    "several": ["multiple", "many"], "get": ["obtain", "have"], "set": ["define", "specify"],
    "make": ["have", "let"], "need": ["require"], "possible": ["feasible", "doable"],
    "allow": ["permit"], "enable": ["activate", "turn on"], "disable": ["deactivate", "turn off"],
    "supported": ["available", "possible", "working"], "support": ["handle", "know", "offer"],
    "server": ["service", "daemon"], "question": ["query"], "answer": ["reply", "response"],
    "answers": ["replies", "responses"], "program": ["tool", "app"], "text": ["string", "content"],
    "sconce": ["sconce", "it", "this", "this thing", "your software"], "reach": ["access", "contact"],
    "another": ["a different", "some other", "one more"], "list": ["enumerate", "overview of"],
    "limit": ["restrict", "cap"], "increase": ["raise", "enlarge"], "wrong": ["incorrect", "bad"],
}
KEYS = {
    "a": "sqw", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj", "i": "uo",
    "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o", "r": "et", "s": "ad", "t": "ry",
    "u": "yi", "v": "cb", "w": "qe", "y": "tu",
}


class Fact:
    def __init__(self, name):
        self.name, self.answer, self.key = name, "", ""
        self.train, self.held, self.follow = [], [], []
        self.claims, self.denials = [], []


def parse_pattern(text):
    """Parses a pattern into a list of texts and lists of alternatives, each of which is a list."""
    def sequence(i, nested):
        out, word = [], ""
        while i < len(text) and not (nested and text[i] in "|]"):
            if text[i] == "[":
                branches, i = [], i + 1
                while True:
                    branch, i = sequence(i, True)
                    branches.append(branch)
                    i += 1
                    if text[i - 1] == "]":
                        break
                out += [word, branches]
                word = ""
            else:
                word += text[i]
                i += 1
        return out + [word], i
    return sequence(0, False)[0]


def expand(pattern, rng):
    def walk(parts):
        return "".join(p if isinstance(p, str) else walk(rng.choice(p)) for p in parts)
    text = re.sub(r"\s+", " ", walk(pattern)).strip()
    return re.sub(r" ([,:!])", r"\1", text)


def hold_out(fact):
    """Moves a tenth of the patterns, but at least one, from the training data to the held-out patterns. Hashes
    of the patterns select them, so that every run selects the same ones. Patterns that are only a list of
    alternatives stay, since their words may occur in no other pattern."""
    whole = [p for p in fact.train if not re.fullmatch(r"\[[^\[\]]*\]", p[0])]
    whole.sort(key=lambda p: hashlib.sha256(p[0].encode()).digest())
    held = whole[:max(1, round(len(fact.train) / 10))]
    fact.held = [p[1] for p in held]
    fact.train = [p[1] for p in fact.train if p not in held]


def load(folder=HERE / "corpus"):
    """Returns all facts by name."""
    macros, facts = {}, {}
    for line in (folder / "00-macros.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, text = line.split(" = ", 1)
            macros[name] = "[" + "|".join(a.strip() for a in text.split(" | ")) + "]"
    for path in sorted(folder.glob("[1-9]*.txt")):
        fact = None
        for n, line in enumerate(path.read_text().splitlines(), 1):
            tag, _, text = line.partition(" ")
            raw = text
            text = re.sub(r"\{(\w+)\}", lambda m: macros[m[1]], text)
            if not line:
                continue
            if tag == "=":
                assert raw not in facts, f"{path.name}:{n}: the fact {raw} is there twice"
                fact = facts[raw] = Fact(raw)
            elif tag == "A:":
                fact.answer = tables.fill(raw)
            elif tag == "K:":
                fact.key = raw
            elif tag == "T:":
                fact.claims.append(raw)
            elif tag == "D:":
                fact.denials.append(raw)
            elif tag == "Q:":
                fact.train.append((raw, parse_pattern(text)))
            elif tag == "F:":
                fact.follow.append([parse_pattern(text), None])
            elif tag == "A2:":
                fact.follow[-1][1] = raw
            else:
                raise ValueError(f"{path.name}:{n}: unknown tag {tag!r}")
    for fact in facts.values():
        hold_out(fact)
        assert fact.key in fact.answer, f"{fact.name}: the key is not in the answer"
        assert all(f[1] in facts for f in fact.follow), f"{fact.name}: unknown follow-up"
    return facts


def untrue(facts):
    """Returns the claims of answers that contradict the tables of the tree, as one line each."""
    out = []
    for fact in facts.values():
        out += [f"{fact.name}: there is no {c}" for c in fact.claims if not tables.holds(c)]
        out += [f"{fact.name}: there is a {c}" for c in fact.denials if tables.holds(c)]
    return out


def model_hash(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_trained(facts, model, path=HERE / "trained.json"):
    """Records the answers on which the weights in the file @model were trained."""
    record = {"model": model_hash(model), "answers": {n: facts[n].answer for n in sorted(facts)}}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def read_trained(path=HERE / "trained.json"):
    return json.loads(path.read_text())


def typo(word, rng):
    i = rng.randrange(len(word) - 1)
    kind = rng.randrange(4)
    if kind == 0:
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    if kind == 1:
        return word[:i + 1] + word[i + 2:]
    if kind == 2:
        return word[:i] + word[i] + word[i:]
    return word[:i] + rng.choice(KEYS.get(word[i], word[i])) + word[i + 1:]


def vary(text, rng, level=1.0):
    """Writes the question @text in a random style: case, courtesy, typos, missing words."""
    chance = lambda p: rng.random() < p * level
    words = text.split(" ")
    if chance(0.25):
        i = rng.randrange(len(words))
        words[i] = rng.choice(SYNONYMS.get(words[i], [words[i]]))
    if chance(0.06) and len(words) > 3:
        kept = [w for w in words if w not in STOP_WORDS]
        words = kept if len(kept) > 1 else words
    if chance(0.04) and len(words) > 4:
        del words[rng.randrange(len(words))]
    text = " ".join(words)
    if chance(0.14):
        text = rng.choice(PREFIXES) + text
    if chance(0.10) and not text.endswith("now"):
        text += rng.choice(SUFFIXES)
    words = text.split(" ")
    if chance(0.12):
        for _ in range(rng.choice((1, 1, 2))):
            i = rng.randrange(len(words))
            if len(words[i]) > 3 and words[i].isalpha():
                words[i] = typo(words[i], rng)
    if rng.random() < 0.6:
        words = ["I" + w[1:] if re.fullmatch(r"i('\w+)?", w) else w for w in words]
    if rng.random() < 0.5:
        words = [PROPER.get(w, w) for w in words]
    text = " ".join(words)
    if rng.random() < 0.5:
        text = text[:1].upper() + text[1:]
    if chance(0.015):
        text = text.upper()
    end = rng.random()
    return text + ("?" if end < 0.5 else "." if end < 0.58 else " ?" if end < 0.6 else
                   "!" if end < 0.62 else "??" if end < 0.63 else "")


class Sampler:
    """Draws conversations: lists of (role, text)."""

    def __init__(self, facts, seed, known=None):
        """@known: answers that the weights already give, by name. Facts with other answers are sampled more often."""
        self.facts, self.rng = facts, random.Random(seed)
        self.names = sorted(facts)
        # Facts with many patterns are sampled more often, but not in proportion.
        self.weights = [len(facts[n].train) ** 0.7 * (2 if n == "offtopic" else 1) *
                        (1 if known is None or known.get(n) == facts[n].answer else 2.5)
                        for n in self.names]

    def question(self, fact):
        return vary(expand(self.rng.choice(fact.train), self.rng), self.rng)

    def conversation(self, n_turns=None):
        rng, out, fact = self.rng, [], None
        if n_turns is None:
            n_turns = rng.choices((1, 2, 3, 4, 6, 10), (60, 18, 8, 6, 5, 3))[0]
        if rng.random() < 0.12:
            out.append((ROLE_SYSTEM, rng.choice(SYSTEM_PROMPTS)))
        for _ in range(n_turns):
            # A follow-up question needs the answer before it, so it can only follow that answer. It does so in half of
            # the cases.
            if fact and fact.follow and rng.random() < 0.5:
                pattern, name = rng.choice(fact.follow)
                fact, ask = self.facts[name], vary(expand(pattern, rng), rng, 0.5)
            else:
                fact = self.facts[rng.choices(self.names, self.weights)[0]]
                ask = self.question(fact)
            out += [(ROLE_USER, ask), (ROLE_ASSISTANT, fact.answer)]
        return out


def held_out(facts, seed=7, per_pattern=2):
    """Returns (fact name, question) pairs for the held-out patterns."""
    rng = random.Random(seed)
    return [(name, vary(expand(p, rng), rng, 0.3))
            for name in sorted(facts) for p in facts[name].held for _ in range(per_pattern)]


def as_regex(pattern):
    """Returns a regular expression for the texts of a pattern, in which spaces and punctuation do not matter."""
    return "".join("".join(" *" if c in " ,:!" else re.escape(c) for c in p) if isinstance(p, str)
                   else "(?:" + "|".join(map(as_regex, p)) + ")" for p in pattern)


def free_questions(facts, path=HERE / "questions.txt"):
    """Returns the (fact name, question) pairs of questions.txt, which were written independently of the patterns.
    A question that a pattern can produce is an error, since it would test nothing."""
    out, patterns = [], [re.compile(as_regex(p)) for f in facts.values() for p in f.train + f.held]
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            name, text = line.split(": ", 1)
            plain = re.sub(r"\s+", " ", re.sub(r"[?.!,:]+", " ", text.lower())).strip()
            assert name in facts, f"{path.name}: no fact {name}"
            assert not any(p.fullmatch(plain) for p in patterns), f"a pattern can produce: {text}"
            out.append((name, text))
    return out
