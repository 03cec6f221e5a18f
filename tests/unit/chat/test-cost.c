/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that the limit of steps also limits the time of templates: no operation takes much longer
 * than a microsecond per step, even with large values. Each row of the table is repeated until the
 * steps are used up. Then the processor time that the row took is checked.
 */
#include <infer/chat.h>
#include <time.h>

#include "lib/test.h"

enum { STEPS = 250000 }; /* per row, including the steps that make its values */

#define EIGHT(x) x x x x x x x x
#define TEXT(name, x)                                                                              \
    {                                                                                              \
        name, "{% set " name " = '" EIGHT(x) "' * 16384 %}"                                        \
    }
#define LIST(name, item)                                                                           \
    {                                                                                              \
        name, "{% set ns = namespace(l=[]) %}{% for i in range(4001) %}{% set k = i * 7919 % "     \
              "4001 %}"                                                                            \
              "{% set ns.l = ns.l + [" item "] %}{% endfor %}{% set " name " = ns.l %}"            \
    }

/* The values that rows use; a value is made only for the rows that use it. `same` is another string
 * equal to `s`. `tail` starts like `s`, and does not occur in `s`. */
static const struct {
    const char *name, *text;
} values[] = {
    TEXT("s", "a"),
    TEXT("same", "a"),
    {"tail", "{% set tail = '" EIGHT("a") "' * 8192 ~ 'b' %}"},
    TEXT("u", "\xc3\xa9"),
    TEXT("sharp", "\xc3\x9f\xe1\xbd\x80"),
    TEXT("sigma", "\xce\xa3 "),
    TEXT("blank", " "),
    TEXT("words", "words in a text \\n"),
    TEXT("tags", "<b>&amp;"),
    TEXT("control", "\\x01"),
    TEXT("tabs", "\\t"),
    TEXT("digits", "0"),
    TEXT("fields", "{}"),
    TEXT("percents", "%s"),
    LIST("ints", "k"),
    LIST("floats", "k / 7"),
    LIST("texts", "'text ' ~ k"),
    LIST("objects", "{'name': 'text ' ~ k, 'in': {'x': k}}"),
    {"keys", "{% set keys = dict.fromkeys(range(4001)|map('string')) %}"},
};

/* A row has an expression, which runs in a loop, and a text before the loop, which defines names
 * that the expression uses. */
struct row {
    const char *before, *expr;
};

static const struct row rows[] = {
    /* Comparison, search, membership. */
    {"", "s == same"},
    {"", "s != same"},
    {"", "s < same"},
    {"", "s >= same"},
    {"", "s is eq same"},
    {"", "s is sameas same"},
    {"", "s is lt same"},
    {"", "same in s"},
    {"", "'b' in s"},
    {"", "tail in s"},
    {"", "tail not in s"},
    {"", "[s] == [same]"},
    {"", "[s] < [same]"},
    {"", "[same] in [[s]]"},
    {"", "(s, 1) == (same, 1)"},
    {"", "{'k': s} == {'k': same}"},
    {"", "7.5 in ints"},
    {"", "'x' in texts"},
    {"", "ints == ints|list"},
    {"", "texts < texts|list"},
    {"", "keys == dict(keys)"},
    {"", "keys.keys() == dict(keys).keys()"},
    {"", "keys.items() == dict(keys).items()"},
    {"", "range(99999) == range(99999)|list"},
    {"", "100001 in range(99999)"},
    {"", "s.find('b')"},
    {"", "s.find(tail)"},
    {"", "s.rfind('b')"},
    {"", "s.rfind(tail)"},
    {"", "u.rfind('\xc3\xa9', 0, 1000)"},
    {"", "u.find('\xc3\xa9', 100000)"},
    {"", "s.count('b')"},
    {"", "s.count('aa')"},
    {"", "s.startswith(same)"},
    {"", "s.endswith(same)"},
    {"", "s.startswith((tail, tail, tail))"},
    {"{% set many = ('xx',) * 100000 %}", "'x'.startswith(many)"},
    {"", "s.removeprefix(same)"},
    {"", "s.removesuffix(same)"},
    {"", "s.partition('b')"},
    {"", "s.rpartition('b')"},
    {"", "s.rpartition(tail)"},
    {"", "ints.index(-1) if false else ints.count(3)"},
    {"", "range(99999).count(7)"},
    {"", "texts.count(s)"},
    {"{% set strings = [s] * 1000 %}", "strings.count(same)"},
    /* Dictionaries. */
    {"", "{s: 1}[same]"},
    {"", "{s: 1}.get(same)"},
    {"", "keys[s]"},
    {"", "keys.get(s)"},
    {"", "(s, s) in {(same, same): 1}"},
    {"{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}"
     "{% endfor %}",
     "{}[ns.t]"},
    {"{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}"
     "{% endfor %}",
     "ns.t is filter"},
    {"{% set ns = namespace(t=[1], u=[1]) %}{% for i in range(60) %}"
     "{% set ns.t = [ns.t, ns.t] %}{% set ns.u = [ns.u, ns.u] %}{% endfor %}",
     "ns.t == ns.u"},
    {"", "dict(keys)"},
    {"", "keys.copy()"},
    {"", "dict.fromkeys(texts)"},
    {"", "namespace(keys)"},
    {"", "ints|unique|list"},
    {"", "texts|unique|list"},
    {"", "dict(**keys)"},
    {"", "s|attr(same)"},
    {"", "keys.keys().isdisjoint(ints)"},
    /* Making strings. */
    {"", "s ~ same"},
    {"", "same + s"},
    {"", "s * 2"},
    {"", "'a' * 100000"},
    {"", "s[1:]|length"},
    {"", "u[1:]|length"},
    {"", "u[100000]"},
    {"", "u[-1]"},
    {"", "u[50000:100000]"},
    {"", "s[::-1]"},
    {"", "u[::-2]"},
    {"", "u[::50000]"},
    {"", "s|upper"},
    {"", "s|lower"},
    {"", "u|upper"},
    {"", "sharp|upper"},
    {"", "sigma|lower"},
    {"", "sharp.casefold()"},
    {"", "sharp.swapcase()"},
    {"", "sharp.title()"},
    {"", "sharp|title"},
    {"", "words|title"},
    {"", "sharp|capitalize"},
    {"", "words|wordcount"},
    {"", "words|wordwrap(3)"},
    {"", "s|wordwrap(1)"},
    {"", "blank|trim"},
    {"", "s.lstrip('ba')"},
    {"", "'ab'.strip(tail)"},
    {"", "s.rstrip(u ~ 'a')"},
    {"", "words.split()"},
    {"", "words.rsplit()"},
    {"", "words.split('s')"},
    {"", "words.rsplit('s')"},
    {"", "s.rsplit(tail)"},
    {"", "s.split(tail)"},
    {"", "words.splitlines()"},
    {"", "s|replace('a', 'b')"},
    {"", "s|replace('b', 'c')"},
    {"", "s|replace(tail, 'c')"},
    {"", "s|replace('', '-')"},
    {"", "words|indent(4)"},
    {"", "s|truncate(1000)"},
    {"", "u|truncate(100000, false)"},
    {"", "''|center(200000)"},
    {"", "s.ljust(400000)"},
    {"", "'1'.zfill(200000)"},
    {"", "tabs.expandtabs(100)"},
    {"", "u|reverse"},
    {"", "s|list"},
    {"", "u|join(',')"},
    {"", "'-'.join(s)"},
    {"", "texts|join(',')"},
    {"", "ints|join(',')"},
    {"", "ints|join"},
    {"", "tags|e"},
    {"", "tags|striptags"},
    {"", "u|urlencode"},
    {"", "keys|urlencode"},
    {"", "keys|xmlattr"},
    {"", "s|e + same"},
    {"", "s|string"},
    {"", "strftime_now('%Y%m%d%H%M%S' * 100)"},
    {"", "digits|int"},
    {"", "digits|float"},
    {"", "s|int"},
    {"", "fields.format(*([1] * 131072))"},
    {"", "'{0:100000}'.format(1)"},
    {"", "'{0:0100000,}'.format(1)"},
    {"", "'{0:.9000f}'.format(0.1)"},
    {"", "percents % ((1,) * 131072)"},
    {"", "'%100000d' % 1"},
    {"", "'%.100000d' % 1"},
    {"", "'%.9000f' % 0.1"},
    {"", "'%.100000e' % 1e-300"},
    {"", "'%s %s' % (s, same)"},
    {"", "'%r' % s"},
    /* Character classes. */
    {"", "u.isalpha()"},
    {"", "u.isalnum()"},
    {"", "digits.isdigit()"},
    {"", "digits.isnumeric()"},
    {"", "digits.isdecimal()"},
    {"", "blank.isspace()"},
    {"", "u.isprintable()"},
    {"", "u[1:].isascii()"},
    {"", "u.isidentifier()"},
    {"", "u.islower()"},
    {"", "s is lower"},
    {"", "u.upper().isupper()"},
    {"", "s.istitle()"},
    /* Printing values. */
    {"", "ints|string"},
    {"", "floats|string"},
    {"", "texts|string"},
    {"", "keys|string"},
    {"", "objects|string"},
    {"", "[control, u]|string"},
    {"", "ints|tojson"},
    {"", "floats|tojson"},
    {"", "texts|tojson"},
    {"", "keys|tojson(sort_keys=true)"},
    {"", "objects|tojson(indent=4)"},
    {"", "s|tojson"},
    {"", "u|tojson(ensure_ascii=true)"},
    {"", "control|tojson"},
    {"", "tabs|tojson"},
    {"{% set ns = namespace(t=[1]) %}{% for i in range(500) %}{% set ns.t = [ns.t, 1] %}"
     "{% endfor %}",
     "ns.t|tojson(indent=0)"},
    {"", "0.1|round(100)"},
    {"", "0.1|filesizeformat"},
    {"", "(7 ** 0.5)|string"},
    /* Lists. */
    {"", "ints|sort"},
    {"", "texts|sort"},
    {"", "floats|sort(reverse=true)"},
    {"", "objects|sort(attribute='name')"},
    {"", "objects|sort(attribute='name,in.x')"},
    {"", "keys|dictsort"},
    {"", "objects|groupby('name')"},
    {"", "texts|min"},
    {"", "texts|max"},
    {"", "ints|sum"},
    {"", "objects|sum(attribute='in.x')"},
    {"", "([[1] * 1000] * 100)|sum(start=[])"},
    {"", "ints + ints"},
    {"", "ints * 3"},
    {"", "ints[::-1]"},
    {"", "ints[5:]"},
    {"", "ints|list"},
    {"", "ints|reverse|list"},
    {"", "ints|batch(7, 0)|list"},
    {"", "ints|batch(200000, 0)|list"},
    {"", "ints|slice(3)|list"},
    {"", "ints|slice(100000000)|list"},
    {"", "ints|map('string')|list"},
    {"", "texts|map('upper')|list"},
    {"", "objects|map(attribute='in.x')|list"},
    {"", "texts|select('eq', 'x')|list"},
    {"", "objects|selectattr('name', 'in', texts)|list"},
    {"", "objects|rejectattr('name')|list"},
    {"", "keys|items|list"},
    {"", "keys.values()|list"},
    {"", "range(99999)|list"},
    {"", "range(99999)|last"},
    {"", "u|first"},
    {"", "u|last"},
    {"", "ints|length"},
    {"", "cycler(*ints)"},
    /* Calls. */
    {"{% macro m() %}{{ kwargs|length }}{% endmacro %}", "m(**keys)"},
    {"{% macro m(a, b, c, d, e, f, g, h) %}{{ kwargs|length }}{% endmacro %}", "m(**keys)"},
    {"{% macro m() %}{{ varargs|length }}{% endmacro %}", "m(*ints)"},
};

static char *template_text(const struct row *row)
{
    char *text = calloc(1, 1 << 14);

    assert_non_null(text);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        if (strstr(row->expr, values[i].name) || strstr(row->before, values[i].name))
            strcat(text, values[i].text);
    sprintf(text + strlen(text),
            "%s{%% for a in range(99999) %%}{%% for b in range(99999) %%}{%% set x = %s %%}"
            "{%% endfor %%}{%% endfor %%}",
            row->before, row->expr);
    assert_true(strlen(text) < 1 << 14);
    return text;
}

/* Returns the nanoseconds per step; 0 if the row failed for a reason other than the limit. */
static double cost_of(const struct row *row)
{
    const struct inf_chat_limits limits = {.max_steps = STEPS};
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err = {.text = ""};
    char *source = template_text(row), *text = NULL;
    clock_t start;
    size_t len;
    int r;

    ASSERT_OK_ERR(inf_chat_template_new(source, strlen(source), &tmpl, &err), err);
    start = clock();
    r = inf_chat_render_vars(tmpl, "{}", 1, &limits, &text, &len, &err);
    start = clock() - start;
    inf_chat_template_free(tmpl);
    free(source);
    free(text);
    if (r == -E2BIG && strstr(err.text, "too many steps"))
        return (double)start / CLOCKS_PER_SEC * 1e9 / STEPS;
    print_message("%s: %d %s\n", row->expr, r, err.text);
    return 0;
}

TEST(a_step_never_takes_long)
{
    const double max = 1500 * test_slowness();
    size_t n_bad = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const double ns = cost_of(&rows[i]);
        const bool bad = ns <= 0 || ns > max;

        n_bad += bad;
        if (bad || getenv("VERBOSE"))
            print_message("%6.0f ns a step: %s\n", ns, rows[i].expr);
    }
    assert_int_equal(n_bad, 0);
}

RUN_TESTS(cmocka_unit_test(a_step_never_takes_long))
