#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes random templates from a grammar, renders them with jinja2 and with libinfer, and prints the
differences.

usage: RENDER_CLI=build/tests/unit/chat/render-cli fuzz_templates.py [--seed S] [--n N]

If both renderers report an error, the results count as equal. Needs the packages jinja2 and
transformers.
"""
import argparse
import random
import sys
import warnings

from jinja_oracle import Ours, TooSlow, default_program, oracle

VARS = {
    "messages": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": None},
                 {"role": "tool", "content": [{"type": "text", "text": "é"}], "n": 3}],
    "s": "Hello, World", "u": "ñandú ß ΑΣ 日本語", "e": "", "sp": "  a b\tc \n", "q": "it's \"x\"",
    "i": 7, "neg": -3, "zero": 0, "f": 2.5, "big": 123456789012, "tiny": 1e-7, "huge": 1.5e20,
    "t": True, "no": False, "none_": None, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [],
    "ll": [[1, 2], [3, 4]], "d": {"a": 1, "b": "two", "items": 5, "c": [1]}, "de": {},
    "mixed": [1, "a", None, 2.0, True, [1], {"k": "v"}],
    "users": [{"name": "Zoe", "age": 30, "tags": ["x"]}, {"name": "adam", "age": 4},
              {"name": "Bob", "age": 30, "x": {"y": 1}}],
}
STRINGS = ["''", "'a'", "'abc'", "'a-b_c'", "'A b'", "'%s'", "'{}'", "'{0:>5}|{x}'", "', '", "' '",
           "'é'", "'\\n'", "'x\\ty'", "'<b>&'", "'12'", "' 3.5 '", "'0x1f'", "\"it's\"", "'a,b,,c'",
           "'name'", "'age'", "'x.y'", "'role'", "'\\u00e9\\x41'", "'ß'", "'l1\\nl2\\r\\nl3'",
           "'%d|%5.1f|%-4s|%x'", "'%(a)s'", "'foo bar baz qux quux'", "'1_000'", "'nan'", "'-7'"]
NUMBERS = ["0", "1", "2", "3", "-1", "5", "10", "100", "255", "1.5", "0.1", "2.0", "1e3", "-0.5",
           "3.14159", "1_000", "0x10", "1e16", "1e-5", "123456.789"]
STR_VARS = ["s", "u", "e", "sp", "q"]
NUM_VARS = ["i", "neg", "zero", "f", "big", "tiny", "huge", "t", "no"]
LIST_VARS = ["l", "ls", "le", "ll", "mixed", "users", "messages"]
ANY_VARS = STR_VARS + NUM_VARS + LIST_VARS + ["d", "de", "none_", "missing"]
STR_FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "string", "e", "safe",
               "reverse", "list", "first", "last", "wordcount", "urlencode", "striptags", "int",
               "float", "tojson", "forceescape", "count", "unique|list", "sort", "sort(true)",
               "join('-')", "replace('a', 'X')", "replace('', '.', 2)", "indent", "indent(2, true)",
               "indent('>', blank=true)", "center(20)", "truncate(8)", "truncate(8, true, '…', 0)",
               "wordwrap(5)", "wordwrap(6, false)", "default('z')", "default('z', true)", "trim('aH')",
               "format(1)", "format('a', 2)", "batch(2)|list", "slice(3)|list", "int(5)", "int(3, 16)",
               "int(0, 0)", "float(1.5)", "map('upper')|list", "select('in', 'abc')|join",
               "reject('equalto', 'a')|list", "groupby(0)|list", "min", "max", "attr('upper')()",
               "tojson(indent=2)", "d", "escape", "items|list", "round", "abs", "sum",
               "filesizeformat", "dictsort", "xmlattr", "title|e|upper", "pprint"]
LIST_FILTERS = ["length", "first", "last", "join", "join(', ')", "list", "reverse|list", "sort",
                "sort(reverse=true)", "sort(case_sensitive=true)", "unique|list", "min", "max", "sum",
                "map('string')|list", "map('upper')|join", "map('length')|list",
                "map(attribute='name')|list", "map(attribute='name', default='?')|join(',')",
                "map(attribute='x.y', default=0)|list", "select|list", "reject|list",
                "select('number')|list", "select('odd')|list", "reject('string')|list",
                "select('gt', 1)|list", "selectattr('age')|list", "selectattr('age', 'eq', 30)|list",
                "rejectattr('age', 'gt', 5)|map(attribute='name')|list", "sort(attribute='name')",
                "sort(attribute='age,name')", "groupby('age')", "groupby('age')|map('first')|list",
                "groupby('name', case_sensitive=true)", "batch(2, 'x')|list", "slice(2, 0)|list",
                "tojson", "tojson(indent=1)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))",
                "string", "d", "sum(attribute='age')", "sum(start=10)", "max(attribute='age')",
                "map('int')|sum", "map(attribute=0)|list", "last|string", "count", "attr('count')(1)",
                "join(', ', attribute='name')", "unique(attribute='age')|list", "items", "e",
                "map('default', 'q')|list", "reverse|first", "batch(0)|list", "slice(0)|list"]
NUM_FILTERS = ["abs", "round", "round(1)", "round(2, 'floor')", "round(1, 'ceil')", "round(-1)",
               "int", "float", "string", "tojson", "filesizeformat", "filesizeformat(true)", "d(3)",
               "default(0, true)", "e", "upper", "length", "list", "trim", "center(7)", "format",
               "round(method='ceil')", "int|string|length", "urlencode", "title"]
DICT_FILTERS = ["items|list", "dictsort", "dictsort(by='value')", "dictsort(true, reverse=true)",
                "length", "list", "tojson", "tojson(indent=4)", "join(',')", "first", "last", "sort",
                "string", "d", "urlencode", "xmlattr", "map('upper')|list", "max", "reverse|list"]
METHODS = ["upper()", "lower()", "strip()", "strip('H ')", "lstrip()", "rstrip('d')", "split()",
           "split(',')", "split(' ', 1)", "split(maxsplit=1)", "rsplit(' ', 1)", "rsplit()[0]",
           "splitlines()", "splitlines(true)", "startswith('H')", "startswith(('a', 'H'))",
           "endswith('d')", "endswith('', 3)", "replace('l', 'L')", "replace('l', '', 1)",
           "find('o')", "find('o', 5)", "rfind('o')", "index('o')", "count('l')", "count('')",
           "title()", "capitalize()", "swapcase()", "isdigit()", "isalpha()", "isupper()",
           "islower()", "isspace()", "isalnum()", "istitle()", "isnumeric()", "zfill(15)",
           "ljust(15, '.')", "rjust(15)", "center(16, '*')", "partition(' ')", "rpartition('o')",
           "removeprefix('Hel')", "removesuffix('ld')", "format(1, x=2)", "join(['a', 'b'])",
           "join(ls)", "casefold()", "expandtabs(4)", "encode()", "nope()", "format_map(d)",
           "isidentifier()", "isprintable()", "rindex('o')", "startswith('W', 7)", "count('o', 0, 5)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping",
         "sequence", "iterable", "boolean", "true", "false", "odd", "even", "divisibleby(3)",
         "divisibleby 2", "lower", "upper", "callable", "escaped", "eq(1)", "equalto 'abc'", "ne 1",
         "gt 1", "lt(2)", "ge 7", "le 7", "in [1, 'a']", "in('abc')", "sameas(none)", "sameas true",
         "filter", "test", "== 7", "!= 7"]
BINOPS = ["+", "-", "*", "/", "//", "%", "~", "**"]
CMPOPS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"]


SOUP = ["{{", "}}", "{%", "%}", "{%-", "-%}", "{%+", "+%}", "{{-", "-}}", "{#", "#}", "{#-", "-#}",
        " ", "\n", "  \n", "\t", "if", "else", "endif", "for x in l", "endfor", "set x", "set x = 1",
        "endset", "raw", "endraw", "s", "l", "d", "x", "1", "2.5", "'a'", "+", "-", "*", "/", "|", "upper",
        ".", ",", "(", ")", "[", "]", "{", "}", ":", "=", "==", "not", "in", "is", "defined", "and", "or",
        "text", "é", "~", "%", "**", "true", "none", "loop.index", "macro m(a)", "endmacro", "m(1)",
        "{{ s }}", "{{ x }}", "{% if t %}", "{% endif %}", "{% for x in l %}", "{% endfor %}",
        "{% raw %}", "{% endraw %}", "\r\n", "\\", "\"", "'", "0", "1e5", "_", "recursive", "break"]


class Gen:
    def __init__(self, rng):
        self.r = rng
        self.names = []
        self.in_loop = 0

    def pick(self, items):
        return self.r.choice(items)

    def atom(self, kind):
        p = self.pick
        if kind == "str":
            return p(STRINGS) if self.r.random() < .5 else p(STR_VARS)
        if kind == "num":
            return p(NUMBERS) if self.r.random() < .6 else p(NUM_VARS)
        if kind == "list":
            return p(LIST_VARS) if self.r.random() < .7 else p(
                ["[1, 2, 3]", "[]", "(1, 'a')", "range(4)", "['x', 'Y', 'z']", "range(5, 0, -2)",
                 "d.keys()", "d.items()", "[0.5, 1, true]", "()", "('a',)"])
        if kind == "dict":
            return p(["d", "de", "{}", "{'a': 1}", "{'x': [1, 'b'], 2: none}", "users[0]",
                      "dict(a=1, b='c')", "messages[2]", "dict(d, z=3)", "{1: 2, true: 3, 1.0: 4}"])
        if self.names and self.r.random() < .4:
            return p(self.names)
        return p(ANY_VARS + ["none", "true", "false", "ns.v", "ns.w"])

    def kind(self):
        return self.r.choices(["str", "num", "list", "dict", "any"], [5, 5, 4, 2, 3])[0]

    def expr(self, depth, kind=None):
        r, kind = self.r.random(), kind or self.kind()
        if depth <= 0 or r < .2:
            return self.atom(kind)
        if self.r.random() < .06:
            kind = self.kind()
        e = self.expr
        if r < .3:
            return "(%s if %s else %s)" % (e(depth - 1, kind), e(depth - 1), e(depth - 1, kind))
        if r < .34:
            return "(%s %s %s)" % (e(depth - 1), self.pick(["and", "or"]), e(depth - 1))
        if r < .37:
            return "(not %s)" % e(depth - 1)
        if r < .42:
            return "(%s is %s%s)" % (e(depth - 1), self.pick(["", "not "]), self.pick(TESTS))
        if r < .47:
            a = e(depth - 1, kind)
            return "(%s %s %s)" % (a, self.pick(CMPOPS), e(depth - 1, kind if self.r.random() < .7 else "list"))
        if r < .5:
            # jinja2 evaluates slices of constants when it compiles a template, by other rules than
            # when it renders the template. Therefore only names are sliced.
            if self.r.random() < .5:
                return "%s[%s]" % (self.pick(ANY_VARS), self.pick(
                    ["1:", ":2", "::-1", "-2:", "1:3", "::2", ":-1", "5:1:-1", "-5::2", "i:", ":neg"]))
            return "%s[%s]" % (e(depth - 1), self.pick(
                ["0", "-1", "1", "'a'", "i", "'name'", "99", "none", "'upper'", "1.5", "true"]))
        if r < .53:
            return "(%s).%s" % (e(depth - 1), self.pick(
                ["a", "b", "name", "items", "items()", "get('a')", "get('zz', 9)", "keys()|list", "0",
                 "values()|list", "role", "content", "real", "__class__", "append(1)", "x.y",
                 "count('a')", "index(1)", "copy()", "pop()", "update({})", "is_integer()"]))
        if kind == "str":
            if r < .7:
                return "%s|%s" % (e(depth - 1, "str"), self.pick(STR_FILTERS))
            if r < .87:
                return "(%s).%s" % (e(depth - 1, "str"), self.pick(METHODS))
            if r < .95:
                return "(%s %s %s)" % (e(depth - 1, "str"), self.pick(["+", "~"]), e(depth - 1, "str"))
            return "(%s %% %s)" % (e(depth - 1, "str"), e(depth - 1))
        if kind == "num":
            if r < .7:
                return "(%s %s %s)" % (e(depth - 1, "num"), self.pick(BINOPS[:6]), e(depth - 1, "num"))
            if r < .75:
                return "(%s ** %s)" % (e(depth - 2, "num"), self.pick(["2", "0", "0.5", "-1"]))
            if r < .8:
                return "%s%s" % (self.pick(["-", "+"]), e(depth - 1, "num"))
            return "%s|%s" % (e(depth - 1, "num"), self.pick(NUM_FILTERS))
        if kind == "list":
            if r < .9:
                return "%s|%s" % (e(depth - 1, "list"), self.pick(LIST_FILTERS))
            if r < .96:
                return "(%s + %s)" % (e(depth - 1, "list"), e(depth - 1, "list"))
            return "[%s, %s]" % (e(depth - 1), e(depth - 1))
        if kind == "dict":
            if r < .9:
                return "%s|%s" % (e(depth - 1, "dict"), self.pick(DICT_FILTERS))
            return "{%s: %s, 'k': %s}" % (self.atom("str"), e(depth - 1), e(depth - 1))
        return "(%s %s %s)" % (e(depth - 1), self.pick(BINOPS[:7]), e(depth - 1))

    def tag(self, text):
        return "{%" + self.pick(["", "", "", "-", "+"]) + " " + text + " " + self.pick(["", "", "", "-", "+"]) + "%}"

    def text(self):
        return self.pick(["", " ", "\n", "  \n", "text", " a\n", "\n\n  ", "x {# note #} y", "é",
                          "\t", "{#- c -#}\n", "<|im|>", "{% raw %} {{ x }} {% endraw %}", "\r\n", "}}"])

    def out(self, depth):
        return "{{" + self.pick(["", "", "-"]) + " " + self.expr(depth) + " " + self.pick(["", "", "-"]) + "}}"

    def name(self):
        n = self.pick(["x", "y", "z", "s", "i", "l"])
        self.names.append(n)
        return n

    def body(self, depth):
        return "".join(self.text() + self.stmt(depth - 1) for _ in range(self.r.randint(1, 3))) + self.text()

    def stmt(self, depth):
        r, t, e = self.r.random(), self.tag, self.expr
        if depth <= 0 or r < .4:
            return self.out(3)
        if r < .5:
            out = t("if " + e(2)) + self.body(depth)
            if self.r.random() < .4:
                out += t("elif " + e(2)) + self.body(depth)
            if self.r.random() < .5:
                out += t("else") + self.body(depth)
            return out + t("endif")
        if r < .65:
            two = self.r.random() < .15
            target = "%s, %s" % (self.name(), self.name()) if two else self.name()
            it = self.pick(["d.items()", "d|dictsort", "ll", "users|groupby('age')"]) if two else e(2, "list")
            cond = " if " + e(2) if self.r.random() < .25 else ""
            rec = " recursive" if self.r.random() < .05 else ""
            self.in_loop += 1
            inner = self.pick(["", "", "{{ loop.index }}", "{{ loop.last }}{{ loop.revindex }}",
                               "{{ loop.cycle('a', 'b') }}", "{{ loop.changed(x) }}", "{{ loop.length }}",
                               "{{ loop.previtem }}{{ loop.nextitem }}", "{{ loop.depth }}",
                               "{{ loop([1]) if loop.index0 < 1 and loop.depth < 3 }}",
                               "{% if loop.first %}{% continue %}{% endif %}", "{% break %}"])
            out = t("for %s in %s%s%s" % (target, it, cond, rec)) + inner + self.body(depth)
            self.in_loop -= 1
            if self.r.random() < .2:
                out += t("else") + self.body(depth)
            return out + t("endfor")
        if r < .76:
            return t("set %s = %s" % (self.name(), e(3)))
        if r < .8:
            return t("set %s%s" % (self.name(), self.pick(["", "|upper", "|trim|length"]))) + self.body(depth) + t("endset")
        if r < .86:
            return t("set ns.%s = %s" % (self.pick(["v", "w"]), e(2)))
        if r < .9:
            m = self.pick(["m", "m2"])
            call = self.pick(["%s()", "%s(1)", "%s(1, b=2)", "%s(1, 2, 3)", "%s(c=5)", "%s(b=s)"]) % m
            return (t("macro %s(a, b=%s)" % (m, e(1))) + self.pick(["", "{{ a }}{{ b }}", "{{ varargs }}", "{{ kwargs }}",
                    "{{ caller() if caller is defined }}"]) + self.body(depth) + t("endmacro") + "{{ %s }}" % call)
        if r < .92:
            return t("with %s = %s" % (self.name(), e(2))) + self.body(depth) + t("endwith")
        if r < .94:
            return t("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "indent(2)", "length"])) + self.body(depth) + t("endfilter")
        if r < .96:
            return t("generation") + self.body(depth) + t("endgeneration")
        if r < .98:
            return "{% macro c(a=1) %}[{{ caller(a) }}]{% endmacro %}" + t("call(v) c(2)") + "{{ v }}" + self.body(depth) + t("endcall")
        return t("if " + self.pick(["messages[0]['role'] == 'user'", "s is defined", "x is undefined"])) + self.body(depth) + t("endif")

    def template(self):
        if self.r.random() < .12:
            return "".join(self.pick(SOUP) + self.pick(["", " "]) for _ in range(self.r.randint(2, 14)))
        if self.r.random() < .6:
            return "{% set ns = namespace(v=1) %}" + "{{ " + self.expr(self.r.randint(1, 3)) + " }}"
        return "{% set ns = namespace(v=1) %}" + self.body(self.r.randint(1, 3))


def has_address(text):
    low = (text or "").lower()
    return " at 0x" in low or " object>" in low or "<generator" in low


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=20000)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    ours, counts = Ours(default_program()), {"text": 0, "error": 0, "skipped": 0, "different": 0}
    for i in range(args.n):
        template = Gen(random.Random(args.seed * 1000003 + i)).template()
        try:
            want = oracle(template, VARS)
        except TooSlow:
            counts["skipped"] += 1
            continue
        got, error = ours(template, VARS)
        if has_address(want):
            counts["skipped"] += 1
        elif error and ("64 bits" in error or "64-bit" in error or "not supported" in error):
            counts["skipped"] += 1
        elif want == got and error != "CRASHED":
            counts["text" if want is not None else "error"] += 1
        else:
            counts["different"] += 1
            if counts["different"] <= 15:
                print("DIFFERENT %d\n%r\n  want %r\n  got  %r %s\n" % (i, template, want, got, error))
    print(", ".join("%d %s" % (v, k) for k, v in counts.items()))
    return counts["different"] != 0


if __name__ == "__main__":
    sys.exit(main())
