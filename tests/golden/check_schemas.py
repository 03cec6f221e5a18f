#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the grammars of JSON Schemas with other implementations. People run this script by hand:

    check_schemas.py suite CLI TOKENIZER DIRECTORY...   the JSON-Schema-Test-Suite (in the sdist of
                                                        jsonschema)
    check_schemas.py files CLI TOKENIZER DIRECTORY...   schemas in files, against jsonschema and
                                                        llguidance
    check_schemas.py random CLI TOKENIZER NUMBER SEED   random schemas, against jsonschema

CLI is build/tests/unit/grammar/schema-cli. TOKENIZER is a directory or file: random texts are made
of its tokens where the masks permit them, and are then completed with as few bytes as possible.
Needs jsonschema with rfc3339-validator; `files` also needs llguidance.

For each schema that compiles, random texts of the grammar must be valid documents. Valid documents
of the suite must be accepted with at least one order of their members, and invalid documents must
be rejected. Refused schemas are counted by their messages. The script also reports mismatches that
docs/json-schema.md allows: formats that are ignored, leap seconds, exponents beside bounds.
"""
import collections
import itertools
import json
import pathlib
import random
import re
import subprocess
import sys

import jsonschema

WALKS = 5
DRAFTS = {
    "draft4": jsonschema.Draft4Validator,
    "draft6": jsonschema.Draft6Validator,
    "draft7": jsonschema.Draft7Validator,
    "draft2019-09": jsonschema.Draft201909Validator,
    "draft2020-12": jsonschema.Draft202012Validator,
}
URIS = {"draft4": "http://json-schema.org/draft-04/schema#",
        "draft6": "http://json-schema.org/draft-06/schema#",
        "draft7": "http://json-schema.org/draft-07/schema#"}


# The names of expected mismatches (regular expressions), and the reasons why they are expected.
KNOWN = [
    (r"(?:invalid accepted|bad walk): (idn-|iri|uri-template|regex: |content: |ecmascript-regex: \\a)",
     "formats and contents that are annotations"),
    (r"valid refused: .* is only an annotation by default", "formats are enforced"),
    (r"valid refused: (date-)?time: .*leap second", "leap seconds are left out"),
    (r"valid refused: email: .*(quoted string|address-literal)", "addresses with quotes or brackets"),
    (r"valid refused: unevaluated\w+: .*(anyOf|from if without|adjacent contains)",
     "what counts as evaluated, see the table of keywords"),
    (r"valid refused: vocabulary: ", "vocabularies of metaschemas are not read"),
    (r"valid refused: float-overflow: ", "numbers beside multipleOf have no exponent"),
    (r"invalid accepted: zeroTerminatedFloats: ", "accepts_any() writes 1.0 as 1 as well"),
    (r"bad walk: ecmascript-regex: .* \\[Ws] ", "Python's \\W and \\s differ from those of ECMA-262"),
]


def known(name, counts):
    for pattern, reason in KNOWN:
        if re.match(pattern, name):
            counts["known: " + reason] += 1
            return True
    counts["unexpected"] += 1
    return False


class Cli:
    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, letter, data):
        self.process.stdin.write(b"%s %d\n" % (letter.encode(), len(data)) + data)
        self.process.stdin.flush()
        return self.process.stdout.readline().decode().rstrip("\n")

    def compile(self, schema, loose=False):
        """Returns (microseconds, None) or (None, message)."""
        text = json.dumps(schema, ensure_ascii=False).encode("utf-8", "surrogatepass")
        answer = self.ask("L" if loose else "S", text)
        if answer.startswith("ok"):
            return int(answer.split()[1]), None
        return None, answer.split(" ", 2)[2]

    def accepts(self, text):
        return self.ask("A", text.encode("utf-8", "surrogatepass")).split()[1] == "1"

    def walk(self, seed):
        self.process.stdin.write(b"W %d\n" % seed)
        self.process.stdin.flush()
        ok, length = self.process.stdout.readline().split()
        return ok == b"1", self.process.stdout.read(int(length))


def orders(value, limit=240):
    """Yields the value with the members of its objects in all orders, at most @limit of them."""
    if isinstance(value, dict):
        keys = itertools.islice(itertools.permutations(value), limit)
        for order in keys:
            for values in itertools.islice(
                    itertools.product(*(list(orders(value[k], 24)) for k in order)), limit):
                yield dict(zip(order, values))
    elif isinstance(value, list):
        yield from map(list, itertools.islice(
            itertools.product(*(list(orders(v, 24)) for v in value)), limit))
    else:
        yield value
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e40:
            yield int(value)


def accepts_any(cli, value):
    for v in itertools.islice(orders(value), 240):
        for style in ({}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}):
            if not cli.accepts(json.dumps(v, **style)):
                break
        else:
            return True
        if cli.accepts(json.dumps(v, ensure_ascii=False)):
            return True
    return False


def walks(cli, validator, n=WALKS):
    """Returns the first text that is not a valid document, or None."""
    for seed in range(n):
        ok, text = cli.walk(seed)
        if not ok:
            return "no end: %r" % text[-80:]
        try:
            value = json.loads(text)
        except ValueError as error:
            return "no JSON (%s): %r" % (error, text[:200])
        error = next(validator.iter_errors(value), None)
        if error is not None:
            return "invalid (%s): %r" % (error.message[:100], text[:200])
    return None


def check_suite(cli, directories):
    counts = collections.Counter()
    refused = collections.Counter()
    for directory in map(pathlib.Path, directories):
        draft = directory.name
        for path in sorted(directory.rglob("*.json")):
            check_formats = "format" in path.parts
            for case in json.loads(path.read_text()):
                check_case(cli, draft, path, case, check_formats, counts, refused)
    for message, n in refused.most_common():
        print(f"{n:5} refused: {message}")
    for name, n in counts.items():
        print(f"{n:5} {name}")
    return counts["unexpected"]


def check_case(cli, draft, path, case, check_formats, counts, refused):
    schema = case["schema"]
    name = f"{draft}/{path.stem}: {case['description']}"
    if draft in URIS and isinstance(schema, dict) and "$schema" not in schema:
        schema = {"$schema": URIS[draft], **schema}
    _, message = cli.compile(schema)
    if message is not None:
        counts["schemas refused"] += 1
        if "permits no text" in message and not any(t["valid"] for t in case["tests"]):
            counts["schemas refused rightly"] += 1
            return
        refused[f"{path.stem}: {message}"] += 1
        return
    counts["schemas"] += 1
    validator = DRAFTS[draft](case["schema"], format_checker=DRAFTS[draft].FORMAT_CHECKER
                              if check_formats else None)
    for test in case["tests"]:
        ok = accepts_any(cli, test["data"])
        if ok != test["valid"]:
            kind = "invalid accepted" if ok else "valid refused"
            counts[kind] += 1
            if known(f"{kind}: {path.stem}: {case['description']}: {test['description']}", counts):
                continue
            print(f"{kind}: {name}: {test['description']}: {json.dumps(test['data'])[:100]}"
                  f" for {json.dumps(schema)[:300]}")
        else:
            counts["documents"] += 1
    try:
        problem = walks(cli, validator)
    except Exception as error:  # the validator cannot load a reference
        print(f"not checked: {name}: {str(error)[:100]}")
        return
    if problem:
        counts["bad walk"] += 1
    if problem and not known(f"bad walk: {path.stem}: {case['description']}", counts):
        print(f"bad walk: {name}: {problem} for {json.dumps(schema)[:300]}")


def read_schemas(directories):
    for directory in map(pathlib.Path, directories):
        for path in sorted(directory.rglob("*.json")):
            try:
                value = json.loads(path.read_text())
            except (ValueError, OSError):
                continue
            if isinstance(value, dict) and ("$schema" in value or "properties" in value):
                yield path, value


def other_accepts(schema):
    """Returns whether llguidance compiles the schema, and a function that checks a text."""
    import llguidance

    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(schema))
    tokenizer = llguidance.LLTokenizer("byte")
    if llguidance.LLMatcher.validate_grammar(grammar, tokenizer):
        return None

    def accepts(text):
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        tokens = tokenizer.tokenize_bytes(text)
        return matcher.validate_tokens(tokens) == len(tokens)

    return accepts


def compare_walks(cli, other, counts):
    """Counts the random texts that llguidance accepts. It permits other white space, other
    spellings of numbers and fewer formats."""
    for seed in range(3):
        _, text = cli.walk(seed)
        counts["texts"] += 1
        counts["texts that llguidance accepts"] += other(text)


def check_files(cli, directories):
    counts, refused, times = collections.Counter(), collections.Counter(), []
    for path, schema in read_schemas(directories):
        time, message = cli.compile(schema)
        other = other_accepts(schema)
        counts["llguidance compiles"] += other is not None
        if message is not None:
            counts["refused"] += 1
            counts["refused, llguidance compiles"] += other is not None
            refused[message.split("': ", 1)[-1][:60]] += 1
            if other is not None:
                print(f"only llguidance: {path}: {message}")
            continue
        counts["compiled"] += 1
        times.append((time, str(path)))
        validator = jsonschema.validators.validator_for(
            schema, default=jsonschema.Draft202012Validator)(schema)
        try:
            problem = walks(cli, validator, 5)
        except Exception:  # the validator cannot load a reference
            problem = None
            counts["not checked"] += 1
        if other is not None:
            compare_walks(cli, other, counts)
        if problem:
            counts["bad walk"] += 1
            print(f"bad walk: {path}: {problem}")
    for message, n in refused.most_common(40):
        print(f"{n:5} refused: {message}")
    times.sort()
    if times:
        print("median", times[len(times) // 2], "slowest", times[-5:])
    print(dict(counts))
    return counts["bad walk"]


def random_schema(r, depth=0):
    """Makes a schema of supported keywords, which often contradict each other."""
    def sub():
        return random_schema(r, depth + 1)

    if r.random() < 0.08 or depth > 3:
        return r.choice([True, {}, {"type": "null"}, {"type": "string"}, {"type": "integer"}])
    s = {}
    if r.random() < 0.7:
        s["type"] = r.choice(["object", "object", "array", "string", "number", "integer",
                              ["string", "null"], ["object", "array", "integer"]])
    options = {
        "properties": lambda: {k: sub() for k in r.sample("abcd", r.randint(1, 3))},
        "required": lambda: r.sample("abcd", r.randint(1, 2)),
        "additionalProperties": lambda: r.choice([False, False, sub()]),
        "patternProperties": lambda: {r.choice(["^a", "b$", "^[cd]"]): sub()},
        "minProperties": lambda: r.randint(0, 2),
        "maxProperties": lambda: r.randint(1, 4),
        "propertyNames": lambda: {"maxLength": r.randint(1, 3)},
        "dependentRequired": lambda: {"a": ["b"]},
        "items": sub,
        "prefixItems": lambda: [sub() for _ in range(r.randint(1, 2))],
        "minItems": lambda: r.randint(0, 2),
        "maxItems": lambda: r.randint(1, 4),
        "contains": sub,
        "minLength": lambda: r.randint(0, 3),
        "maxLength": lambda: r.randint(2, 6),
        "pattern": lambda: r.choice(["^a", "[0-9]$", "^[a-c]*$", "x"]),
        "minimum": lambda: r.choice([-3, 0, 0.5, 10]),
        "exclusiveMaximum": lambda: r.choice([1, 7.25, 100]),
        "multipleOf": lambda: r.choice([2, 5, 0.5]),
        "enum": lambda: r.sample([1, "a", None, "ab", 2.5, True, [1], {"a": 1}, "x0"], 4),
        "anyOf": lambda: [sub() for _ in range(2)],
        "oneOf": lambda: [{"type": "string"}, {"type": "integer", **r.choice([{}, {"minimum": 2}])}],
        "allOf": lambda: [sub() for _ in range(2)],
        "not": lambda: r.choice([{"type": "string"}, {"enum": ["a", 1]}, {"required": ["a"]},
                                 {"minimum": 4}, {"pattern": "b"}, {"properties": {"a": sub()}}]),
        "if": lambda: {"properties": {"a": {"type": "string"}}},
        "then": lambda: {"required": ["b"]},
        "else": sub,
    }
    for key in r.sample(sorted(options), r.randint(1, 4)):
        s[key] = options[key]()
    return s


def check_random(cli, numbers):
    """Checks random schemas. @numbers: the number of schemas, and a seed."""
    counts, refused = collections.Counter(), collections.Counter()
    r = random.Random(int(numbers[1]))
    for _ in range(int(numbers[0])):
        schema = random_schema(r)
        _, message = cli.compile(schema)
        if message is not None:
            counts["refused"] += 1
            refused[message.split("': ", 1)[-1][:60]] += 1
            continue
        counts["compiled"] += 1
        problem = walks(cli, jsonschema.Draft202012Validator(schema), 10)
        if problem:
            counts["bad walk"] += 1
            print(f"bad walk: {json.dumps(schema)}: {problem}")
    for message, n in refused.most_common(20):
        print(f"{n:5} refused: {message}")
    print(dict(counts))
    return counts["bad walk"]


def main():
    mode, cli, directories = sys.argv[1], Cli(*sys.argv[2:4]), sys.argv[4:]
    check = {"suite": check_suite, "files": check_files, "random": check_random}[mode]
    sys.exit(check(cli, directories) > 0)


if __name__ == "__main__":
    main()
