#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the small templates below with jinja2 and writes templates/micro.json, which
tests/unit/chat/test-micro-templates.c replays.

usage: make_templates.py        Needs the packages jinja2 and transformers.
"""
import json
import os
import warnings

from jinja_oracle import NOW, oracle

VARS = {
    "s": "Hello, World", "u": "ñandú ß ΑΣ 日本語", "e": "", "sp": "  a b\tc \n", "q": "it's \"x\"",
    "i": 7, "neg": -3, "zero": 0, "f": 2.5, "t": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "ll": [[1, 2], [3, 4]],
    "d": {"b": 1, "a": "two", "items": 5, "c": [1]}, "de": {}, "n": {"x": {"y": {"z": [10, 20]}}},
    "mixed": [1, "a", None, 2.0, True, [1], {"k": "v"}],
    "users": [{"name": "Zoe", "age": 30, "tags": ["x"]}, {"name": "adam", "age": 4},
              {"name": "Bob", "age": 30, "x": {"y": 1}}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Yo"}],
}

# Each line is an expression, rendered as {{ … }}.
EXPRESSIONS = r"""
1
-1
+1
1_000
0x1F
0b101
0o17
00
007
1.
.5
1.5
1e3
1E-2
1.5e+2
1_0.0_1
2.0
100.0
1e15
1e16
1e17
1e-4
1e-5
123456789.123
0.1 + 0.2
1/3
2/1
7//2
-7//2
7//-2
7%3
-7%3
7%-3
-7.5//2
-7.5%2
7.5%-2
2**10
2**-1
2**0.5
-2**2
2**3**2
0**0
1/0
1//0
1%0
1.0/0
0.0**-1
9223372036854775807
9007199254740993 * 1.0
1 + true
true + true
"a" + "b"
"a" + 1
1 + "a"
"a" * 3
3 * "ab"
"a" * -1
[1] * 3
[1] + [2]
[1] + (2,)
(1,) + (2,)
(1, 2) * 2
"a" ~ 1 ~ none ~ 1.0 ~ [1]
1 ~ 2 * 3
1 + 2 ~ 3
"%s-%s" % (1, "x")
"%d" % 3.9
"%5.2f|%-6s|%+d|%05d|%x|%X|%o|%e|%g|%%" % (3.14159, "ab", 5, 42, 255, 255, 8, 12345.678, 0.0001)
"%(a)s/%(b)s" % d
"%s" % d
"%s %s" % 1
"%s" % (1, 2)
"x" % 1
"x" % []
"%r %s" % ("it's", none)
"%c%c" % (65, "z")
"%*d" % (5, 42)
"%.3s|%10.2s|" % ("abcdef", "xyz")
"%#x %#o" % (255, 8)
"%i" % "a"
1 == 1.0
1 == true
"1" == 1
none == none
none == false
[1, 2] == [1, 2]
[1, 2] == (1, 2)
{"a": 1} == {"a": 1.0}
1 != 2
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
1 < "a"
"a" < "b"
"B" < "a"
[1, 2] < [1, 3]
[1] < [1, 0]
none < 1
1 in [1, 2]
3 not in [1, 2]
"a" in "abc"
"" in "abc"
1 in "abc"
"a" in d
"zz" in d
1 in none
none in [none]
not 1
not none
not not ""
1 and 2
0 and 2
1 or 2
"" or "x"
"" or none
true and not false
not true == false
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
"a" if 0 else "b" if 0 else "c"
1 + 2 if true else 3
true
True
false
False
none
None
[true, false, none]
[1, 2.0, "a", 'b"', "it's", 'both\'"', "\n\t\\", "é", "\x07", "\u200b"]
(1,)
(1, 2)
()
[]
{}
{"a": 1, 'b': [1, {"c": none}]}
{1: 2, true: 3, 1.0: 4}
{"a": 1, "a": 2}
{[]: 1}
[1, 2,]
{"a": 1,}
"a" "b" 'c'
'\'' "\""
"\x41\u00e9\U0001F600\101\0"|length
"\d\z"
"a\
b"
"é\n"|length
"日本語"[1]
"日本語"[-1]
"日本語"[::-1]
"日本語"|length
s[0]
s[-1]
s[99]
s[99] is defined
s[1:4]
s[:-3]
s[::2]
s[::-1]
s[5:1:-1]
s[-100:3]
s[::0]
u[2:5]
u[::-2]
l[1:]
l[:2]
l[::-1]
l[-2:]
(1, 2, 3)[1:]
l["a"]
l[0]
l[1.0] is defined
l[true]
d["a"]
d.a
d["items"]
d.nope
d.nope is defined
d.nope.x
d["nope"]["x"]
d.get("a")
d.get("zz")
d.get("zz", 1)
d.keys()
d.values()
d.items()
d.keys()|list
d.items()|list
d.copy() == d
n.x.y.z[1]
n["x"].y["z"][-1]
n.x.nope is defined
n.nope.y is defined
ll.0.1
ll[1][0]
missing
missing is defined
missing.x
missing + 1
missing == none
missing == missing2
missing|length
missing|list
missing ~ "x"
[missing]
missing()
none.x
none.x is defined
i.real
i.foo is defined
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
u.upper()
u.lower()
u.title()
u.capitalize()
"ΑΣ ΑΣ.".lower()
"ǆ".title()
"ﬁ".upper()
"ß".casefold()
sp.strip()
sp.lstrip()
sp.rstrip()
"xxaxx".strip("x")
"abcabc".lstrip("ba")
"a,b,,c".split(",")
"a,b,,c".split(",", 1)
"a b  c".split()
"a b  c".split(none, 1)
"a b  c".split(" ")
"a b c".split(maxsplit=1)
"a b c".rsplit(" ", 1)
"a b c".rsplit()
"abc".split("")
"".split()
"".split(",")
"a\nb\r\nc\x0bd".splitlines()
"a\nb".splitlines(true)
"-".join(["a", "b"])
"-".join("abc")
"-".join([1])
s.startswith("He")
s.startswith(("x", "He"))
s.startswith("l", 2)
s.endswith("ld")
s.endswith(["x"])
s.replace("l", "L")
s.replace("l", "L", 2)
"abc".replace("", "-")
s.find("o")
s.find("zz")
s.rfind("o")
s.index("o")
s.index("zz")
s.count("l")
"日本日".count("日")
"日本語".find("語")
"12".isdigit()
"²".isdigit()
"½".isnumeric()
"a1".isalnum()
"ab".isalpha()
"A B".isupper()
"a1".islower()
" \t".isspace()
"".isspace()
"Ab Cd".istitle()
"abc_1".isidentifier()
"a\x00".isprintable()
"42".zfill(5)
"-42".zfill(5)
"ab".ljust(5, ".")
"ab".rjust(5)
"ab".center(7, "*")
"ab".center(6)
"a=b=c".partition("=")
"a=b=c".rpartition("=")
"abc".partition("x")
"prefix-x".removeprefix("prefix-")
"x.py".removesuffix(".py")
"a\tb".expandtabs(4)
"{} {}".format(1, "x")
"{0}{1}{0}".format("a", "b")
"{a} {b!r}".format(a=1, b="x")
"{:>6}|{:<6}|{:^6}|{:*^7}".format("ab", "cd", "ef", "g")
"{:5d}|{:05d}|{:+d}|{:,}|{:_}|{:x}|{:#x}|{:b}|{:o}|{:c}|{:%}".format(42, 42, 42, 1234567, 1234567, 255, 255, 5, 8, 65, 0.25)
"{:.2f}|{:10.3f}|{:e}|{:g}|{:.3}|{:,.2f}|{}".format(3.14159, 2.5, 12345.678, 1e10, 1234.5, 1234567.891, 1.0)
"{:.5}|{:.3}|{:.2}".format(100.0, 100.0, 0.000012)
"{:{}}|".format("x", 5)
"{0[a]} {0[c][0]}".format(d)
"{{}}".format()
"{}".format()
"{} {0}".format(1)
"{x}".format()
"{:d}".format("a")
"{!s:>4}".format(1)
"{:.2}".format("abcdef")
"{} {}".format(true, none)
"{:5}|{:<5}".format(true, 3)
"{a}".format_map({"a": 5})
l.index(1)
l.index(9)
l.count(1)
l.append(1)
l.pop()
l.sort()
l.copy()
d.update({})
d.pop("a")
de.setdefault("a", 1)
(1, 2, 1).count(1)
(2.0).is_integer()
(7).bit_length()
range(5)|list
range(2, 8, 3)|list
range(3, 0, -1)|list
range(3)
range(1, 5, 2)
range(3)[1]
range(10)[2:5]|list
range(0)|list
range(100001)
range(1, 2, 0)
range("a")
dict(a=1, b=2)
dict([("a", 1)], c=3)
dict({"x": 1}, **{"y": 2})
dict.fromkeys(["a"], 1)
namespace(a=1).a
namespace({"k": 2}).k
namespace(a=1)
namespace(_a=1)
namespace(a=1)["a"]
cycler("a", "b").next()
joiner("|")() ~ "x"
raise_exception("boom")
strftime_now("%Y-%m-%d")
strftime_now("%d %b %Y %H:%M")
strftime_now("%A, %B %e, 100%%")
lipsum is defined
range is callable
s is string
s is sequence
s is iterable
s is mapping
l is sequence
l is iterable
d is mapping
d is sequence
i is number
i is integer
i is float
f is float
f is number
t is boolean
t is number
t is integer
t is true
no is false
1 is true
nil is none
missing is undefined
missing is sequence
missing is iterable
nil is iterable
i is odd
zero is even
f is even
i is divisibleby 7
i is divisibleby(2)
"abc" is lower
"ABC" is upper
"abc" is in("xabcx")
1 is in [1, 2]
1 is eq 1
1 is equalto(1)
1 is ne 2
2 is gt 1
2 is ge 2
1 is lt 2
1 is le 1
1 is sameas 1
none is sameas none
"upper" is filter
"nope" is filter
"odd" is test
"x"|e is escaped
"x" is escaped
s.upper is callable
i is not odd
i is not defined
i is nope
1 is defined is defined
s|upper
s|lower
"hello wORLD"|title
"it's a-b (c) [d] <e>"|title
"hELLO"|capitalize
"  x "|trim
"xxaxx"|trim("x")
s|length
l|length
d|length
i|length
nil|length
s|count
s|first
s|last
l|first
l|last
le|first
le|first is defined
d|first
d|last
s|reverse
l|reverse|list
l|reverse|first
d|reverse|list
l|sort
l|sort(reverse=true)
ls|sort
ls|sort(case_sensitive=true)
ls|sort(true, true)
mixed|sort
users|sort(attribute="name")|map(attribute="name")|list
users|sort(attribute="age,name")|map(attribute="name")|list
users|sort(attribute="nope")
d|dictsort
{"b": 2, "A": 1}|dictsort
{"b": 2, "A": 1}|dictsort(true)
{"b": 1, "a": 2}|dictsort(by="value")
{"b": 1, "a": 2}|dictsort(reverse=true)
{"b": 1}|dictsort(by="x")
l|join
l|join(", ")
users|join(", ", attribute="name")
[1, none, "a", missing]|join("-")
5|join
"abc"|join("-")
l|sum
users|sum(attribute="age")
l|sum(start=10)
ls|sum
[0.1, 0.2]|sum
le|sum
l|min
l|max
ls|min
ls|max
ls|max(case_sensitive=true)
users|max(attribute="age")
le|max
l|map("string")|list
ls|map("upper")|join(",")
users|map(attribute="name")|list
users|map(attribute="x.y")|list
users|map(attribute="x.y", default=0)|list
users|map(attribute="tags.0", default="-")|list
l|map("nope")|list
l|map|list
ll|map("sum")|list
ll|map(attribute=1)|list
l|map("default", 1)|list
l|select("odd")|list
l|reject("odd")|list
mixed|select|list
mixed|reject|list
l|select("gt", 1)|list
l|select("in", [1, 2])|list
users|selectattr("tags")|map(attribute="name")|list
users|selectattr("tags", "defined")|map(attribute="name")|list
users|selectattr("age", "eq", 30)|list|length
users|selectattr("age", "equalto", 30)|map(attribute="name")|join(",")
users|rejectattr("age", "gt", 5)|map(attribute="name")|list
users|selectattr("x.y", "eq", 1)|map(attribute="name")|list
(l|map("string"))|length
(l|map("string")) is iterable
(l|select) is sequence
nil|map("upper")|list
l|unique|list
["a", "A", "b", "a"]|unique|list
["a", "A", "b"]|unique(true)|list
users|unique(attribute="age")|map(attribute="name")|list
users|groupby("age")|length
users|groupby("age")|map("first")|list
users|groupby("age")|map(attribute="grouper")|list
users|groupby("x", default="none")|map("first")|list
l|batch(2)|list
l|batch(2, "x")|list
range(7)|slice(3)|list
range(7)|slice(3, "x")|list
l|list
s|list
d|list
5|list
d|items|list
missing|items|list
5|items|list
"3.7"|int
"abc"|int
"abc"|int(-1)
"0x1f"|int(base=16)
"ff"|int(0, 16)
"0b11"|int(0, 0)
" 42 "|int
"1_000"|int
3.9|int
-3.9|int
nil|int
l|int(5)
missing|int
"١٢"|int
"3.5"|float
"x"|float
"x"|float(1.5)
"inf"|float
"nan"|float
3|float
"1e5"|int
-5|abs
-5.5|abs
"a"|abs
2.5|round
3.5|round
2.675|round(2)
1234.5|round(-2)
1234|round(-2)
1250|round(-2)
42|round
2.1|round(method="ceil")
2.9|round(0, "floor")
2.123|round(2, "ceil")
2.5|round(1, "x")
1|string
"x"|string
nil|string
s|replace("l", "L")
s|replace("l", "L", 1)
123|replace(2, "x")
"a\nb\n\nc"|indent
"a\nb\n\nc"|indent(2, true)
"a\nb\n\nc"|indent(2, blank=true)
"a\nb"|indent("> ")
"a\nb"|indent(width=1, first=true)
"a b c d e f g h"|truncate(5)
"a b c d e f g h"|truncate(9, false, "…", 0)
"abcdefghij"|truncate(5, true, "..", 0)
"abc"|truncate(2)
"foo bar baz"|wordwrap(5)
"foobarbaz qux"|wordwrap(4)
"foobarbaz qux"|wordwrap(4, false)
"well-known re-entry"|wordwrap(8)
"a b_c d-e"|wordcount
"x"|center(5)
"%s is %d"|format("x", 3)
"%(a)s"|format(a=1)
"%s"|format("x", a=1)
missing|default("x")
missing|default
nil|default("x")
nil|default("x", true)
""|d("x", boolean=true)
missing.x|default("y")
d.nope|default(3)
"<a & 'b' \"c\">"|e
"<a>"|escape
"<a>"|safe
"<a>"|e|e
"<a>"|e|forceescape
("<a>"|e) + "<b>"
"<b>" + ("<a>"|safe)
("%s"|safe) % "<x>"
("<a>"|safe).upper() ~ "<b>"
["<"|e]
"<p>a <b>c</b>\n d</p>&amp;"|striptags
"a b/c?d=é&f"|urlencode
{"a b": 1, "c": "d/e"}|urlencode
{"class": "x", "id": none, "data": "<y>"}|xmlattr
1000|filesizeformat
1|filesizeformat
1500000|filesizeformat
1024|filesizeformat(true)
"abc"|attr("upper")()
d|attr("a") is defined
s|nope
s|upper|lower|title
-1|abs
s|upper()
s|upper(1)
s|replace("a")
s|replace("a", "b", 1, 2)
s|default(foo=1)
d|tojson
mixed|tojson
"é\"\\\n\u2028<>&'/"|tojson
"é😀"|tojson(ensure_ascii=true)
d|tojson(indent=2)
d|tojson(indent="\t")
ll|tojson(indent=0)
d|tojson(separators=(",", ":"))
d|tojson(sort_keys=true)
d|tojson(indent=4, sort_keys=true)
[[], {}]|tojson(indent=2)
{1: 2, none: 3, true: 4, 1.5: 5}|tojson
[1.0, 1e20, 1e-7, 0.1, -0.0, 100]|tojson
["nan"|float, "inf"|float]|tojson
missing|tojson
range(3)|tojson
(1, 2)|tojson
("<"|e)|tojson
namespace(a=1)|tojson
{(1, 2): 3}|tojson
s.__class__
s.__class__.__mro__
d.__len__
"a" "b"|upper
("a" ~ "b")|upper
- 3|abs
(1, 2) in [(1, 2)]
1 in (1, 2)
d.items()|first
d.items()|sort
d|length > 2 and "a" in d
not d.nope is defined
not "x" in d
messages[0].role == "system"
messages[0]["role"] ~ ": " ~ messages[0].content
messages[1:]|map(attribute="role")|join
messages|selectattr("role", "equalto", "user")|list|length
messages[-1]["role"] != "user"
messages|last|attr("items") is defined
(messages|first).content.split()[0]
"a" is string and 1 is number or missing.x
loop is defined
self is defined
f(1)
s()
1()
{"a": range}.a(2)|list
range(*[1, 4])|list
range(**{"a": 1})
dict(**d).a
"{}-{}".format(*[1, 2])
dict(a=1, a=2)
dict(a=1, **{"a": 2})
range(1, *[3])|list
"a", "b"
1, 2
1,
[x for x in l]
lambda x: x
a b
1 +
(1
[1
{"a" 1}
"abc
s.
s|
s[
@
s is
1 not 2
not
`x`
a = 1
s[0:1, 2]
"""

# Whole templates, one per item.
TEMPLATES = [
    "", "\n", "a\n", "a\n\n", "a\r\nb\r", "a{{ 1 }}", "{{ 1 }}\n", "{{ 1 }}\n\nx", "{{ 1 }} \n x",
    "{% if t %}\nx\n{% endif %}\ny", "  {% if t %}\n  x\n  {% endif %}\n  y", "a {% if t %} b {% endif %} c",
    "a  {%- if t -%}  b  {%- endif -%}  c", "a\n  {%+ if t +%}\nb{% endif +%}\nc", "  {{- 1 -}}  \n x",
    "a {{+ 1 }} b", "{#- c -#} x", "a\n  {# c #}\nb", "a {# c #} b", "a\n {#- c #}\nb", "{# {{ x }} {% if %} #}y",
    "{# open", "{% raw %}{{ x }}{% endraw %}", "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}x", "{% raw %} {% if %} {%endraw%}",
    "{% if t %}1{% elif no %}2{% else %}3{% endif %}", "{% if no %}1{% elif t %}2{% else %}3{% endif %}",
    "{% if no %}1{% elif no %}2{% else %}3{% endif %}", "{% if %}x{% endif %}", "{% if t %}x", "{% endif %}",
    "{% if t %}x{% endfor %}", "{% if t: %}x{% endif %}", "{% if t, %}x{% endif %}", "{% if missing %}x{% else %}y{% endif %}",
    "{% for x in l %}{{ x }},{% endfor %}", "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in le %}a{% else %}empty{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{% break %}{% else %}E{% endfor %}", "{% for x in l %}{% continue %}{% else %}E{% endfor %}",
    "{% break %}", "{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in l %}a{% else %}{% break %}{% endfor %}", "{% for y in l %}{% for x in le %}a{% else %}{{ y }}{% break %}{% endfor %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for (a, b) in ll %}{{ a }}-{{ b }};{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in l %}{% endfor %}", "{% for a, b, c in ll %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}", "{% for c in 'añb' %}[{{ c }}]{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for x in l if x > 9 %}a{% else %}b{% endfor %}", "{% for x in l if loop.first %}{% endfor %}", "{% for x in l %}{{ loop.previtem|default('-') }}{{ x }}{{ loop.nextitem|default('-') }} {% endfor %}",
    "{% for x in [1,1,2,2,1] %}{{ loop.changed(x) }},{% endfor %}", "{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in tree recursive %}{{ x.v }}@{{ loop.depth }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(l) }}{% endfor %}", "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in l %}{% set o = loop %}{% for y in [1, 2] %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in l %}{{ loop }}{% endfor %}", "{% for loop in l %}{% endfor %}", "{% for x in l %}{% set loop = 1 %}{% endfor %}", "{% for x in l recursive %}{{ x }}{% else %}e{% endfor %}",
    "{% for x in l|map('string') %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{% for x in l %}{{ x }}{% endfor %}{{ x is defined }}{{ loop is defined }}",
    "{% set x = 1 %}{% for x in l %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% for y in l %}{% set x = y %}{{ x }}{% endfor %}{{ x }}",
    "{% for y in l %}{% if loop.first %}{% set x = 9 %}{% endif %}{{ x }},{% endfor %}", "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% if no %}{% set x = 2 %}{% endif %}{{ x }}|{{ x is defined }}", "{% if no %}{% set s = 2 %}{% endif %}{{ s }}", "{% if t %}{% set s = 2 %}{% else %}{% set s = 3 %}{% endif %}{{ s }}",
    "{{ x }}{% set x = 1 %}{{ x }}", "{% set x = x %}{{ x is defined }}", "{% set s = s + '!' %}{{ s }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = l %}", "{% set a = b = 1 %}",
    "{% set (a, b) = [1, 2] %}{{ a + b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a %}x {{ i }} y{% endset %}[{{ a }}]", "{% set a|upper %}abc{% endset %}{{ a }}", "{% set a|trim|length %} abc {% endset %}{{ a + 1 }}",
    "{% set a | replace('x', q2) %}x{% endset %}", "{% set q2 = 'y' %}{% set a | replace('x', q2) %}x{% endset %}{{ a }}", "{% set 1 = 2 %}", "{% set true = 2 %}", "{% set d.x = 1 %}", "{% set x.y = 1 %}",
    "{% set ns = namespace(c=0) %}{% for x in l %}{% set ns.c = ns.c + x %}{% endfor %}{{ ns.c }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns }}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set ns = namespace(a=1) %}{{ ns.b is defined }}{{ ns.a is defined }}",
    "{% set ns = namespace(f=false) %}{% for x in l if not ns.f %}{{ x }}{% set ns.f = x == 1 %}{% endfor %}", "{% set ns = namespace(a=[]) %}{% for x in l %}{% set ns.a = ns.a + [x] %}{% endfor %}{{ ns.a }}", "{% set ns = namespace(t='') %}{% for x in ls %}{% set ns.t = ns.t ~ x %}{% set k = ns.t + 'z' %}{% endfor %}{{ ns.t }}",
    "{% macro m(a, b=2, *c) %}{% endmacro %}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a) %}{{ a }}|{{ varargs|join(',') }}{% endmacro %}{{ m(1, 2, 3) }}", "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ y }}{% endmacro %}{% set y = 3 %}{{ m() }}", "{% set y = 1 %}{% macro m() %}{{ y }}{% endmacro %}{% set y = 2 %}{{ m() }}", "{% macro m() %}{% set y = 5 %}{{ y }}{% endmacro %}{{ m() }}{{ y is defined }}", "{{ m is defined }}{% macro m() %}{% endmacro %}",
    "{% macro m(a, b=1) %}{{ caller() }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}", "{% macro m() %}x{% endmacro %}{{ m }}", "{% macro m() %}x{% endmacro %}{{ m()|upper ~ m() }}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}x{{ i }}{% endcall %}", "{% macro m() %}[{{ caller(1, 2) }}]{% endmacro %}{% call(a, b=5) m() %}{{ a }}{{ b }}{% endcall %}", "{% macro m() %}[{{ caller() }}]{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}", "{% call range(3) %}{% endcall %}", "{% call 1 %}{% endcall %}", "{% macro m(caller) %}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}", "{% macro m(caller=none) %}{{ caller() if caller }}{% endmacro %}{% call m() %}x{% endcall %}{{ m() }}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% if t %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}", "{% if no %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aXa{% endfilter %}", "{% filter length %}abc{% endfilter %}", "{% filter nope %}x{% endfilter %}", "{% set x = 1 %}{% filter upper %}{% set x = 2 %}{% endfilter %}{{ x }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}", "{% with a, b = 1 %}{% endwith %}", "{% print 1, 'a' %}", "{% do 1 %}",
    "{% generation %}x{{ i }}{% endgeneration %}", "{% for x in l %}{% generation %}{{ x }}{% endgeneration %}{% endfor %}", "{% generation %}{% set x = 1 %}{% endgeneration %}{{ x is defined }}", "{%- generation -%} a {%- endgeneration -%}", "{% for x in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% set ns = namespace(a=1) %}{% generation %}{% set ns.a = 2 %}{% endgeneration %}{{ ns.a }}", "{% autoescape false %}{{ '<' }}{% endautoescape %}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% block b %}x{% endblock %}", "{% set x = 1 %}{% block b %}{{ x }}{% endblock %}", "{% for x in l %}{% block b %}{{ x }}{% endblock %}{% endfor %}", "{% for x in l %}{% block b scoped %}{{ x }}{% endblock %}{% endfor %}", "{% block b %}x{% endblock %}{{ self.b() }}{{ self.c is defined }}", "{% block b %}{% endblock %}{% block b %}{% endblock %}", "{% block b %}{{ super() }}{% endblock %}", "{% nope %}", "{% %}", "{% 1 %}", "{{ }}", "{{ 1", "{{ 1 }", "{% if t }}", "}} %} #}", "{ { x } }", "{{{ 'a': 1 }}}", "{{ {'a': 1}['a'] }}", "{{ ({'a': {'b': 2}}).a.b }}", "{{ '}}' }}{{ '%}' }}", "{{ \"{{\" }}", "{{ [1, 2}} ] }}", "{{ (1]) }}",
    "{{ 1 }}{{ 2 }}\n{{ 3 }}\n", "é{{ u }}é", "a\\nb{{ 'a\\nb' }}", "\t{% if t %}\t{% endif %}\tx", "{% set x = 'a' %}\n{% set y = 'b' %}\n\n{{ x ~ y }}\n", "x\n{%- set a = 1 %}\ny", "<|im_start|>{{ '\\n' }}<|im_end|>", "{{ 'a' if no }}", "{{ ('a' if no) ~ 'b' }}", "{{ s if s is defined and s|length > 3 else '-' }}", "{{- '  x  ' -}}", "{% if s is nope %}x{% endif %}", "{% if no %}{{ s|nope }}{% endif %}ok", "{% if no %}{{ s is nope }}{% endif %}ok", "{{ 1 if t else s|nope }}", "{% if t %}{{ s|nope }}{% endif %}", "{% if no %}{% for x in l %}{{ x|nope }}{% endfor %}{% endif %}",
    "{% for m in messages %}{{ '<|' + m['role'] + '|>\\n' + m['content'] | trim + '<|end|>\\n' }}{% endfor %}", "{% for m in messages %}{% if loop.first and m.role == 'system' %}{% set sys = m.content %}{% endif %}{% endfor %}{{ sys is defined }}", "{% if messages[0].role == 'system' %}{% set sys = messages[0].content %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}:{{ rest|length }}", "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{% endfor %}", "{%- for m in messages[::-1] %}{% set idx = (messages|length - 1) - loop.index0 %}{{ idx }}{{ m.role[0] }}{%- endfor %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}", "{% set j = joiner() %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}", "{{ cycler() }}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|map('nope') %}ok", "{% for x in l|select('odd') %}{{ x }}{% endfor %}", "{% set it = l|reverse %}{% for x in it %}{{ x }}{% endfor %}{% for x in it %}{{ x }}{% endfor %}", "{% macro a() %}{% macro b() %}x{% endmacro %}{{ b() }}{% endmacro %}{{ a() }}", "{% set x = 1 %}{% macro a() %}{% macro b() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ b() }}{% endmacro %}{{ a() }}{{ x }}", "{% set f = range %}{{ f(2)|list }}", "{% set up = 'abc'.upper %}{{ up() }}", "{% for x in range(3) %}{% for y in range(x) %}{{ x }}{{ y }}{% if y == 1 %}{% break %}{% endif %}{% endfor %};{% endfor %}",
    "{% set x %}{% for y in l %}{{ y }}{% endfor %}{% endset %}{{ x|length }}", "{% for x in l %}{% set y %}{% break %}{% endset %}{% endfor %}{{ y is defined }}", "{% set a = 1 %}{% for x in l %}{% with a = x %}{{ a }}{% set a = 9 %}{% endwith %}{{ a }}{% endfor %}", "{% for x in l %}{% if x == 3 %}{% set a = 'first' %}{% endif %}{{ a }}|{% endfor %}", "{% for i in l %}{{ i }}{% endfor %}{{ i }}", "{%for x in l%}{{x}}{%endfor%}", "{%\nfor\nx\nin\nl\n%}{{\nx\n}}{%\nendfor\n%}", "{% if t -%}\n  x\n{%- endif %}", "  {% set x = 1 %}  {% set y = 2 %}  \nz", "{# a #}\n{# b #}\nx\n", "{{ 1 }}{# c #}\n{{ 2 }}",
]


def main():
    warnings.simplefilter("ignore")
    os.environ["TZ"] = "UTC"
    templates = ["{{ " + e + " }}" for e in EXPRESSIONS.replace("\\\n", "\\\x00").split("\n") if e]
    templates = [t.replace("\\\x00", "\\\n") for t in templates] + TEMPLATES
    cases = []
    for t in templates:
        text = oracle(t, VARS)
        cases.append({"template": t, "text": text} if text is not None else {"template": t})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates", "micro.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"now": NOW, "vars": VARS, "cases": cases}, f, ensure_ascii=False, indent=1)
        f.write("\n")
    print("%d cases, %d of them errors" % (len(cases), sum("text" not in c for c in cases)))


if __name__ == "__main__":
    main()
