#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders templates/expressions.txt (an expression in each line) and the templates below with
jinja2. It writes the results to templates/micro.json, which tests/unit/chat/test-micro-templates.c
replays.

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
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
    with open(os.path.join(folder, "expressions.txt"), encoding="utf-8") as f:
        lines = f.read().replace("\\\n", "\0").split("\n")
    templates = ["{{ " + e.replace("\0", "\\\n") + " }}" for e in lines if e] + TEMPLATES
    cases = []
    for t in templates:
        text = oracle(t, VARS)
        cases.append({"template": t, "text": text} if text is not None else {"template": t})
    with open(os.path.join(folder, "micro.json"), "w", encoding="utf-8") as f:
        json.dump({"now": NOW, "vars": VARS, "cases": cases}, f, ensure_ascii=False, indent=1)
        f.write("\n")
    print("%d cases, %d of them errors" % (len(cases), sum("text" not in c for c in cases)))


if __name__ == "__main__":
    main()
