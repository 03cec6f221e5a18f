#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the grammar of JSON Schemas with llguidance and xgrammar. People run this script by
hand:

    compare_schemas.py CLI DIRECTORY... [--only TEXT] [--seed NUMBER] [--seconds NUMBER] [--json FILE]

CLI is build/tests/unit/grammar/schema-cli, and the directories hold schemas (*.json). Needs
jsonschema[format-nongpl], regex, hypothesis-jsonschema, llguidance and xgrammar from PyPI. xgrammar
imports parts of torch and transformers, but does not use them here, so they need not be installed.

Each of the three programs compiles each schema. Valid documents come from hypothesis-jsonschema and
from random walks under the masks of llguidance and xgrammar, invalid ones from changes to valid
ones; jsonschema says which are valid. A program must accept each valid document in one order of its
members, and no invalid one. A random walk under each mask must end in a valid document.

jsonschema judges each document twice: with the formats that docs/json-schema.md lists, and without
formats. A document counts as valid only if it is valid with the formats, and as invalid only if it
is invalid even without formats. Patterns are those of ECMA-262.
"""
import argparse
import collections
import copy
import json
import pathlib
import random
import re
import sys
import warnings

import jsonschema
import regex

from schema_programs import MOST_BYTES, Late, Limit, Llguidance, Sconce, Xgrammar

FORMATS = ("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri",
           "uri-reference", "uuid", "json-pointer", "relative-json-pointer")
DOCUMENTS = 5  # of hypothesis-jsonschema
CHANGES = 16
WALKS = 3
PROGRAMS = ("sconce", "llguidance", "xgrammar")


# --- patterns of ECMA-262, for jsonschema ---

def ecma(pattern):
    """Returns the pattern with the meaning of ECMA-262 for the module regex."""
    out, inside, i = [], False, 0
    classes = {"d": "0-9", "w": "A-Za-z0-9_",
               "s": r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"}
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            e = pattern[i + 1]
            i += 2
            if e in classes:
                out.append(classes[e] if inside else "[%s]" % classes[e])
            elif e in "DWS" and not inside:
                out.append("[^%s]" % classes[e.lower()])
            else:
                out.append("\\" + e)
            continue
        if inside:
            inside = c != "]"
            out.append("\\[" if c == "[" else c)
        elif c == "[":
            inside = True
            out.append(c)
            if pattern[i + 1:i + 2] == "^":
                out.append("^")
                i += 1
        else:
            out.append(r"\Z" if c == "$" else r"[^\n\r\u2028\u2029]" if c == "." else c)
        i += 1
    return "".join(out)


class Patterns:
    """Stands in for the module re in jsonschema."""
    cache = {}

    @classmethod
    def search(cls, pattern, text):
        if pattern not in cls.cache:
            cls.cache[pattern] = regex.compile(ecma(pattern), regex.V0)
        return cls.cache[pattern].search(text)


jsonschema._keywords.re = Patterns
jsonschema._utils.re = Patterns


class Judge:
    def __init__(self, schema):
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        formats = jsonschema.FormatChecker(
            [f for f in FORMATS if f in jsonschema.FormatChecker.checkers])
        self.strict = cls(schema, format_checker=formats)
        self.plain = cls(schema)

    def valid(self, value):
        return self.strict.is_valid(value)

    def error(self, value):
        """Returns why the value is invalid even without formats, or None."""
        return next(self.plain.iter_errors(value), None)


# --- documents ---

def dumps(value):
    return json.dumps(value, ensure_ascii=False)


def ranks(schema):
    """Returns the names of properties, numbered in the order in which they first occur in the
    schema."""
    found = {}

    def visit(node):
        if isinstance(node, dict):
            for key in ("properties", "required"):
                if isinstance(node.get(key), (dict, list)):
                    for name in node[key]:
                        if isinstance(name, str):
                            found.setdefault(name, len(found))
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for value in node:
                visit(value)

    visit(schema)
    return found


class Writer:
    """Searches for an order of the members of a value in which a program accepts the value. It
    extends prefixes of the text that the program accepts, and tries at most `budget` prefixes."""

    def __init__(self, program, rank, space, budget=600):
        self.program, self.rank, self.space, self.budget = program, rank, space, budget

    def fits(self, text):
        self.budget -= 1
        data = text.encode("utf-8", "surrogatepass")
        return self.budget > 0 and self.program.follow(data)[0] == len(data)

    def texts(self, prefix, value):
        """Yields each accepted prefix that continues with the value."""
        if isinstance(value, dict) and value:
            yield from self.members(prefix + "{", value, sorted(
                value, key=lambda k: self.rank.get(k, len(self.rank))), True)
        elif isinstance(value, list) and value:
            yield from self.elements(prefix + "[", value, 0)
        else:
            text = prefix + dumps(value)
            if self.fits(text):
                yield text

    def members(self, prefix, value, keys, first):
        if not keys:
            if self.fits(prefix + "}"):
                yield prefix + "}"
            return
        for key in keys:
            head = prefix + ("" if first else "," + self.space) + dumps(key) + ":" + self.space
            if self.fits(head):
                for text in self.texts(head, value[key]):
                    yield from self.members(text, value, [k for k in keys if k != key], False)

    def elements(self, prefix, value, i):
        if i == len(value):
            if self.fits(prefix + "]"):
                yield prefix + "]"
            return
        for text in self.texts(prefix + ("," + self.space if i else ""), value[i]):
            yield from self.elements(text, value, i + 1)


def accepts(program, rank, value):
    """Returns True, False, or None if not all orders could be tried."""
    for space in (" ", ""):
        writer = Writer(program, rank, space)
        for text in writer.texts("", value):
            if program.follow(text.encode("utf-8", "surrogatepass"))[1]:
                return True
        if writer.budget <= 0:
            return None
    return False


def weaker(error):
    """Returns a note for errors of oneOf, which means anyOf in some schemas
    (docs/json-schema.md)."""
    return " (oneOf as anyOf)" if "is valid under each of" in error.message else ""


def unique_pairs(pairs):
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key twice")
    return value


def plain(value):
    """Writes numbers that are integers as integers."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e60:
        return int(value)
    return value


def parse(text):
    return plain(json.loads(text, object_pairs_hook=unique_pairs))


def is_plain(value):
    """Tells whether all numbers are finite, and written without an exponent."""
    if isinstance(value, dict):
        return all(map(is_plain, value.values()))
    if isinstance(value, list):
        return all(map(is_plain, value))
    return not isinstance(value, float) or "e" not in dumps(value) and "n" not in dumps(value)


def strings(schema):
    found = set()

    def visit(node):
        if isinstance(node, dict):
            found.update(k for k in node.get("properties", {}) or {} if isinstance(k, str))
            values = node.get("enum") if isinstance(node.get("enum"), list) else []
            found.update(v for v in values + [node.get("const")] if isinstance(v, str))
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for value in node:
                visit(value)

    visit(schema)
    return [dumps(s)[1:-1].encode("utf-8", "surrogatepass") for s in sorted(found)][:500]


def invented(schema, seed, seconds):
    """Returns documents of hypothesis-jsonschema."""
    import hypothesis
    import hypothesis_jsonschema

    found = []
    try:
        with Limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            strategy = hypothesis_jsonschema.from_schema(copy.deepcopy(schema))

            @hypothesis.seed(seed)
            @hypothesis.settings(max_examples=40, database=None, deadline=None, phases=[
                hypothesis.Phase.generate], suppress_health_check=list(hypothesis.HealthCheck))
            @hypothesis.given(strategy)
            def draw(value):
                found.append(value)

            draw()
    except (Late, Exception):
        pass
    random.Random(seed).shuffle(found)
    return found[:DOCUMENTS]


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, path + (key,))


def change(r, value):
    """Returns a copy with one change."""
    value = copy.deepcopy(value)
    path = r.choice(list(places(value)))
    holder = [value]
    inner, key = holder, 0
    for step in path:
        inner, key = inner[key], step
    old = inner[key]
    options = [None, True, -1, 3.5, 10 ** 9, "", "x", "?" * 40, [], {}, [1], {"zz": 1}]
    if isinstance(old, dict):
        options += [{**old, "zz": 1}] * 4
        options += [{k: v for k, v in old.items() if k != gone} for gone in old] * 2
    elif isinstance(old, list):
        options += [old[1:], old + old[-1:], old + [None], old * 20] * 2
    elif isinstance(old, str):
        options += [old + "!", old[:-1], old.upper(), old * 50, " " + old] * 2
    elif isinstance(old, (int, float)) and not isinstance(old, bool):
        options += [-old, old + 0.5, old * 1000, old - 100] * 2
    inner[key] = copy.deepcopy(r.choice(options))
    return holder[0]


# --- the comparison of one schema ---

class Case:
    def __init__(self, path, schema, programs, seconds, seed):
        self.path, self.schema, self.seconds = path, schema, seconds
        self.r = random.Random(seed)
        self.counts = collections.Counter()
        self.faults = []
        self.judge = Judge(schema)
        self.rank, self.wishes = ranks(schema), strings(schema)
        self.messages = {}
        self.programs = [p for p in programs if self.compiles(p)]

    def compiles(self, program):
        try:
            with Limit(30):
                message = program.compile(self.schema)
        except Late:
            message = "more than 30 s"
        self.messages[program.name] = message
        self.counts[program.name, "compiled"] += message is None
        return message is None

    def fault(self, program, kind, detail):
        self.counts[program.name, kind] += 1
        self.faults.append({"schema": str(self.path), "program": program.name, "kind": kind,
                            "detail": detail})

    def walks(self, program, number):
        """Returns the valid documents of random walks, and counts the others."""
        documents = []
        for _ in range(number):
            ended, text = program.walk(self.r, self.wishes)
            self.counts[program.name, "walks" if ended else "walks without an end"] += 1
            if not ended:
                continue
            try:
                value = parse(text)
            except ValueError as error:
                if "a key twice" not in str(error):
                    self.fault(program, "bad walk", "no JSON (%s): %r" % (error, text[:300]))
                continue
            error = self.judge.error(value)
            if error is not None:
                self.fault(program, "bad walk" + weaker(error), "%s: %s" % (error.message[:160], dumps(value)[:300]))
            else:
                documents.append(value)
        return documents

    def sources(self):
        documents = []
        for value in invented(self.schema, self.r.randrange(1 << 32), self.seconds):
            documents.append(("hypothesis", plain(value)))
        for program in self.programs:
            try:
                with Limit(self.seconds):
                    for value in self.walks(program, WALKS):
                        documents.append((program.name, value))
            except Late:
                self.counts[program.name, "walks late"] += 1
        return documents

    def check(self, program, value, valid, source):
        kind = "valid" if valid else "invalid"
        try:
            with Limit(self.seconds):
                ok = accepts(program, self.rank, value)
        except Late:
            ok = None
        if ok is None:
            self.counts[program.name, kind + " undecided"] += 1
            return
        self.counts[program.name, kind] += 1
        if ok and not valid:
            error = self.judge.error(value)
            self.fault(program, "invalid accepted" + weaker(error), "%s: %s" % (error.message[:160],
                                                                dumps(value)[:1500]))
        elif valid and not ok:
            self.fault(program, "valid refused", "%s: %s" % (source, dumps(value)[:1500]))

    def run(self):
        documents = [(s, v) for s, v in self.sources() if is_plain(v) and self.judge.valid(v)]
        self.counts["documents"] += len(documents)
        for source, value in documents:
            for program in self.programs:
                if program.name != source:
                    self.check(program, value, True, source)
        seen = set()
        for _ in range(CHANGES if documents else 0):
            value = change(self.r, self.r.choice(documents)[1])
            text = dumps(value)
            if text in seen or len(text) > MOST_BYTES or not is_plain(value):
                continue
            seen.add(text)
            valid = self.judge.valid(value)
            if valid or self.judge.error(value) is not None:
                for program in self.programs:
                    self.check(program, value, valid, "changed")


def compare(path, schema, programs, options):
    case = None
    try:
        case = Case(path, schema, programs, options.seconds, "%s %d" % (path.name, options.seed))
        if case.programs:
            case.run()
    except RecursionError:
        case.counts["too deep for the validator"] += 1
    except Exception as error:  # the validator cannot load a reference or read a pattern
        if case is None:
            return {"schema": str(path), "judge": str(error)[:200], "messages": {}, "faults": []}, {}
        case.counts["not judged"] += 1
        case.faults.append({"schema": str(path), "program": "judge", "kind": type(error).__name__,
                            "detail": str(error)[:200]})
    return {"schema": str(path), "messages": case.messages, "faults": case.faults,
            "counts": {k if isinstance(k, str) else "/".join(k): n
                       for k, n in case.counts.items()}}, case.counts


def report(totals, records):
    print("%-34s" % "", *("%12s" % p for p in PROGRAMS))
    for kind in ("compiled", "valid", "valid refused", "valid undecided", "invalid",
                 "invalid accepted", "invalid accepted (oneOf as anyOf)", "invalid undecided", "walks",
                 "bad walk", "bad walk (oneOf as anyOf)", "walks without an end"):
        print("%-34s" % kind, *("%12d" % totals[p, kind] for p in PROGRAMS))
    for kind, n in totals.items():
        if isinstance(kind, str):
            print(n, kind)
    refused = collections.Counter()
    for record in records:
        message = record["messages"].get("sconce")
        if message and not re.match(r"'[#…].*?': |the grammar is too large|the schema is ", message):
            print("no part named: %s: %s" % (record["schema"], message))
        if message:
            refused[re.sub(r"^'.*?': ", "", message)[:90]] += 1
    for message, n in refused.most_common():
        print("%5d refused: %s" % (n, message))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cli")
    parser.add_argument("directories", nargs="+", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--part", default="0/1", help="I/N: each Nth schema, from the Ith")
    options = parser.parse_args()
    programs = [Sconce(options.cli), Llguidance(), Xgrammar()]
    first, step = map(int, options.part.split("/"))
    paths = sorted(p for d in options.directories for p in d.rglob("*.json")
                   if options.only in p.name)[first::step]
    totals, records = collections.Counter(), []
    for n, path in enumerate(paths):
        schema = json.loads(path.read_text())
        record, counts = compare(path, schema, programs, options)
        totals["schemas"] += 1
        totals.update(counts)
        records.append(record)
        for fault in record["faults"]:
            if fault["program"] == "sconce":
                print(n, fault["kind"] + ":", path.name, fault["detail"][:400], flush=True)
        if options.json and n % 10 == 0:
            options.json.write_text(json.dumps({"records": records}, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"records": records}, indent=1))
    report(totals, records)
    sys.exit(any(f["program"] == "sconce" and "oneOf" not in f["kind"]
                 for r in records for f in r["faults"]))


if __name__ == "__main__":
    main()
