/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates expressions of Oniguruma (Ruby syntax, doc/RE of 6.9) for PCRE2.
 *
 * The translation is one pass over the pattern. A character class becomes text in brackets if
 * possible. A class that contains other classes or negated sets becomes a group of alternatives,
 * and an intersection of classes becomes a group with a lookahead. Other constructs are copied, so
 * PCRE2 refuses those that it does not know.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "tokenizer/pattern.h"

#define MAX_DEPTH   64
#define MAX_PATTERN 65536

struct translation {
    const char *p, *end;
    const char *begin;
    enum uni_version version;
    struct inf_err *reterr;
    unsigned depth;
};

static int refuse_pattern(const struct translation *t, const char *why)
{
    return err_set(t->reterr, EINVAL, "regular expression '%.80s': %s", t->begin, why);
}

static int put_range(struct str *out, uint32_t first, uint32_t last)
{
    return str_printf(out, "\\x{%x}-\\x{%x}", first, last);
}

/* Writes a property, and the code points that Unicode added to it after the version of PCRE2's
 * tables. */
static int put_property(const struct translation *t, struct str *out, const char *name)
{
    uint32_t first, last;
    size_t i = 0;
    int r;

    r = str_printf(out, "\\p{%s}", name);
    if (strlen(name) <= 2 && name[0] != 'C')
        while (r == 0 && uni_new_range(name, t->version, &i, &first, &last))
            r = put_range(out, first, last);
    if (r == 0 && strcmp(name, "Han") == 0)
        r = str_puts(out, "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}");
    return r;
}

static int put_word(const struct translation *t, struct str *out)
{
    static const char *const names[] = {"L", "M", "Nd", "Nl", "Pc"};
    uint32_t first, last;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
        r = put_property(t, out, names[i]);
    for (size_t i = 0; r == 0 && uni_word_range(i, &first, &last); i++)
        r = put_range(out, first, last);
    return r;
}

/* Writes the set of \s, \w, \d or \h as the content of a class. Returns 1 if @c is none of these
 * letters. */
static int put_set(const struct translation *t, struct str *out, char c)
{
    switch (c) {
    case 's':
        return str_puts(out, "\\x{9}-\\x{d}\\x{85}\\p{Z}");
    case 'w':
        return put_word(t, out);
    case 'd':
        return put_property(t, out, "Nd");
    case 'h':
        return str_puts(out, "0-9a-fA-F");
    default:
        return 1;
    }
}

/* Returns the name that PCRE2 uses for a property: PCRE2 10.42 only knows the short names of
 * general categories. */
static const char *property_name(const char *name)
{
    static const char *const table[][2] = {
        {"letter", "L"},
        {"uppercaseletter", "Lu"},
        {"lowercaseletter", "Ll"},
        {"titlecaseletter", "Lt"},
        {"modifierletter", "Lm"},
        {"otherletter", "Lo"},
        {"mark", "M"},
        {"nonspacingmark", "Mn"},
        {"spacingmark", "Mc"},
        {"enclosingmark", "Me"},
        {"number", "N"},
        {"decimalnumber", "Nd"},
        {"letternumber", "Nl"},
        {"othernumber", "No"},
        {"punctuation", "P"},
        {"symbol", "S"},
        {"mathsymbol", "Sm"},
        {"currencysymbol", "Sc"},
        {"separator", "Z"},
        {"spaceseparator", "Zs"},
        {"other", "C"},
        {"control", "Cc"},
        {"format", "Cf"},
        {"digit", "Nd"},
        {"upper", "Lu"},
        {"lower", "Ll"},
        {"alpha", "Alphabetic"},
        {"punct", "P"},
        {"cntrl", "Cc"},
    };
    char key[32];
    size_t n = 0;

    for (const char *p = name; *p && n + 1 < sizeof(key); p++)
        if (*p != '_' && *p != ' ' && *p != '-')
            key[n++] = (char)tolower((unsigned char)*p);
    key[n] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strcmp(table[i][0], key) == 0)
            return table[i][1];
    return name;
}

/* Reads a property after "\p" or "\P": its name, and whether it is negated. */
static int read_property(struct translation *t, bool *negated, char name[40])
{
    size_t n = 0;

    if (t->p < t->end && *t->p != '{') {
        name[0] = *t->p++;
        name[1] = 0;
        return 0;
    }
    t->p++;
    if (t->p < t->end && *t->p == '^') {
        *negated = !*negated;
        t->p++;
    }
    while (t->p < t->end && *t->p != '}' && n + 1 < 40) {
        if (!isalnum((unsigned char)*t->p) && !strchr("_ -&", *t->p))
            return refuse_pattern(t, "bad property name");
        name[n++] = *t->p++;
    }
    if (t->p >= t->end || *t->p != '}' || n == 0)
        return refuse_pattern(t, "bad property name");
    t->p++;
    name[n] = 0;
    return 0;
}

/* A set of code points: the content of a class, and alternatives that cannot be in a class. */
struct set {
    struct str inside; /* items that can be in [ ] */
    struct str others; /* the alternatives, as "|(…)|(…)" */
};

static void set_done(struct set *s)
{
    str_done(&s->inside);
    str_done(&s->others);
}

/* Writes the set @s as one expression. */
static int put_as_expression(struct str *out, const struct set *s, bool negated)
{
    int r;

    if (s->others.len == 0) {
        if (s->inside.len == 0)
            return str_puts(out, negated ? "(?s:.)" : "(?!)");
        r = str_puts(out, negated ? "[^" : "[");
        if (r == 0)
            r = str_append(out, s->inside.data, s->inside.len);
        return r < 0 ? r : str_putc(out, ']');
    }
    r = str_puts(out, negated ? "(?:(?!" : "(?:");
    if (r == 0 && s->inside.len > 0) {
        r = str_putc(out, '[');
        if (r == 0)
            r = str_append(out, s->inside.data, s->inside.len);
        if (r == 0)
            r = str_puts(out, "]|");
    }
    /* Skip the first "|". */
    if (r == 0)
        r = str_append(out, s->others.data + 1, s->others.len - 1);
    return r < 0 ? r : str_puts(out, negated ? ")(?s:.))" : ")");
}

static int parse_class(struct translation *t, struct str *out);

/* Parses [:name:] inside a class. Returns 1 if there is no [:name:] at this place. */
static int parse_posix(struct translation *t, struct set *s)
{
    static const struct {
        const char *name, *first, *second;
    } table[] = {
        {"alpha", "Alphabetic", NULL}, {"digit", "Nd", NULL}, {"upper", "Lu", NULL},
        {"lower", "Ll", NULL},         {"cntrl", "Cc", NULL}, {"punct", "P", "S"},
        {"alnum", "Alphabetic", "Nd"},
    };
    const char *close = memmem(t->p, (size_t)(t->end - t->p), ":]", 2);
    const char *name = t->p + 2;
    size_t len;
    int r;

    if (t->end - t->p < 4 || t->p[1] != ':' || !close || *name == '^')
        return 1;
    len = (size_t)(close - name);
    t->p = close + 2;
    if (len == 5 && memcmp(name, "space", 5) == 0)
        return put_set(t, &s->inside, 's');
    if (len == 4 && memcmp(name, "word", 4) == 0)
        return put_set(t, &s->inside, 'w');
    if (len == 6 && memcmp(name, "xdigit", 6) == 0)
        return put_set(t, &s->inside, 'h');
    if (len == 5 && memcmp(name, "blank", 5) == 0)
        return str_puts(&s->inside, "\\t\\p{Zs}");
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (len != strlen(table[i].name) || memcmp(name, table[i].name, len) != 0)
            continue;
        r = put_property(t, &s->inside, table[i].first);
        return r == 0 && table[i].second ? put_property(t, &s->inside, table[i].second) : r;
    }
    return refuse_pattern(t, "unknown POSIX class");
}

static int parse_hex_escape(struct translation *t, struct str *out)
{
    uint32_t cp = 0;
    size_t n = 0;

    while (t->p < t->end && n < 4 && isxdigit((unsigned char)*t->p)) {
        const char c = (char)tolower((unsigned char)*t->p++);

        cp = cp * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        n++;
    }
    if (n != 4)
        return refuse_pattern(t, "\\u needs four digits");
    return str_printf(out, "\\x{%x}", cp);
}

/* Parses an escape inside a class; t->p is after the backslash. */
static int parse_class_escape(struct translation *t, struct set *s)
{
    const char c = *t->p++;
    char name[40];
    int r;

    if (c == 'p' || c == 'P') {
        bool negated = c == 'P';

        r = read_property(t, &negated, name);
        if (r < 0)
            return r;
        if (!negated)
            return put_property(t, &s->inside, property_name(name));
        r = str_puts(&s->others, "|[^");
        if (r == 0)
            r = put_property(t, &s->others, property_name(name));
        return r < 0 ? r : str_putc(&s->others, ']');
    }
    if (c == 'S' || c == 'W' || c == 'D' || c == 'H') {
        r = str_puts(&s->others, "|[^");
        if (r == 0)
            r = put_set(t, &s->others, (char)tolower((unsigned char)c));
        return r < 0 ? r : str_putc(&s->others, ']');
    }
    if (c == 'u')
        return parse_hex_escape(t, &s->inside);
    r = put_set(t, &s->inside, c);
    if (r != 1)
        return r;
    r = str_putc(&s->inside, '\\');
    return r < 0 ? r : str_putc(&s->inside, c);
}

/* Parses the items of a class up to "]" or "&&". */
static int parse_class_items(struct translation *t, struct set *s)
{
    bool first = true;
    int r = 0;

    for (; r == 0 && t->p < t->end; first = false) {
        const char c = *t->p;

        if (c == ']' && !first)
            return 0;
        if (c == '&' && t->end - t->p >= 2 && t->p[1] == '&')
            return 0;
        if (c == '\\' && t->end - t->p >= 2) {
            t->p++;
            r = parse_class_escape(t, s);
            continue;
        }
        if (c == '[') {
            r = parse_posix(t, s);
            if (r == 1) {
                r = str_putc(&s->others, '|');
                if (r == 0)
                    r = parse_class(t, &s->others);
            }
            continue;
        }
        t->p++;
        if (c == '^' || c == ']')
            r = str_putc(&s->inside, '\\');
        if (r == 0)
            r = str_putc(&s->inside, c);
    }
    return r < 0 ? r : refuse_pattern(t, "unterminated class");
}

/* Parses a class; t->p is at "[" and ends after the "]". Writes an expression that matches one
 * code point. */
static int parse_class(struct translation *t, struct str *out)
{
    _cleanup_str_ struct str whole = {0};
    bool negated = false, intersects = false;
    int r;

    if (++t->depth > MAX_DEPTH)
        return refuse_pattern(t, "classes nested too deeply");
    t->p++;
    if (t->p < t->end && *t->p == '^') {
        negated = true;
        t->p++;
    }
    for (;;) {
        _cleanup_(set_done) struct set s = {0};
        bool more;

        r = parse_class_items(t, &s);
        if (r < 0)
            return r;
        more = t->p < t->end && *t->p == '&';
        t->p += more ? 2 : 1;
        /* Each operand of && except the last becomes a lookahead, a condition on the code point
         * that the last operand matches. */
        if (more || intersects) {
            intersects = true;
            r = more ? str_puts(&whole, "(?=") : 0;
            if (r == 0)
                r = put_as_expression(&whole, &s, false);
            if (r == 0 && more)
                r = str_putc(&whole, ')');
        } else {
            r = put_as_expression(out, &s, negated);
        }
        if (r < 0)
            return r;
        if (!more)
            break;
    }
    t->depth--;
    if (!intersects)
        return 0;
    return negated ? str_printf(out, "(?:(?!%s)(?s:.))", whole.data)
                   : str_printf(out, "(?:%s)", whole.data);
}

static int put_boundary(const struct translation *t, struct str *out, bool negated)
{
    _cleanup_str_ struct str w = {0};
    int r = put_word(t, &w);

    if (r < 0)
        return r;
    return negated ? str_printf(out, "(?:(?<=[%s])(?=[%s])|(?<![%s])(?![%s]))", w.data, w.data,
                                w.data, w.data)
                   : str_printf(out, "(?:(?<=[%s])(?![%s])|(?<![%s])(?=[%s]))", w.data, w.data,
                                w.data, w.data);
}

/* Parses an escape outside of classes; t->p is after the backslash. */
static int parse_escape(struct translation *t, struct str *out)
{
    const char c = *t->p++;
    char name[40];
    int r;

    if (c == 'p' || c == 'P') {
        bool negated = c == 'P';

        r = read_property(t, &negated, name);
        if (r == 0)
            r = str_puts(out, negated ? "[^" : "[");
        if (r == 0)
            r = put_property(t, out, property_name(name));
        return r < 0 ? r : str_putc(out, ']');
    }
    if (strchr("swdhSWDH", c)) {
        r = str_puts(out, isupper((unsigned char)c) ? "[^" : "[");
        if (r == 0)
            r = put_set(t, out, (char)tolower((unsigned char)c));
        return r < 0 ? r : str_putc(out, ']');
    }
    if (c == 'b' || c == 'B')
        return put_boundary(t, out, c == 'B');
    if (c == 'u')
        return parse_hex_escape(t, out);
    if (c == 'C' || c == 'K' || c == 'G')
        return refuse_pattern(t, "escape not supported");
    r = str_putc(out, '\\');
    return r < 0 ? r : str_putc(out, c);
}

/* Writes the start of a group. Oniguruma's "(?m…" is PCRE2's "(?s…". t->p is at "(". */
static int parse_group(struct translation *t, struct str *out)
{
    const char *p = t->p + 1;

    if (p < t->end && *p == '?') {
        for (p++; p < t->end && strchr("imx-", *p) && *p; p++)
            ;
        if (p < t->end && (*p == ':' || *p == ')') && p > t->p + 2) {
            int r = str_puts(out, "(?");

            for (t->p += 2; r == 0 && t->p < p; t->p++)
                r = str_putc(out, *t->p == 'm' ? 's' : *t->p);
            return r;
        }
    }
    t->p++;
    return str_putc(out, '(');
}

/* Inserts "(?:" before the atom at @atom and ")" after it. */
static int wrap_atom(struct str *out, size_t atom)
{
    int r = str_puts(out, ")   ");

    if (r < 0)
        return r;
    memmove(out->data + atom + 3, out->data + atom, out->len - 3 - atom);
    memcpy(out->data + atom, "(?:", 3);
    return 0;
}

int pattern_translate(const char *pattern, size_t len, enum uni_version version, struct str *out,
                      struct inf_err *reterr)
{
    struct translation t = {pattern, pattern + len, pattern, version, reterr, 0};
    size_t atom = 0, depth = 0, open[MAX_DEPTH];
    int r = 0;

    if (len > MAX_PATTERN || memchr(pattern, 0, len))
        return err_set(reterr, EINVAL, "a regular expression is too long or contains a NUL");
    while (r == 0 && t.p < t.end) {
        const char c = *t.p;
        /* A quantifier applies to the atom before it. */
        const bool quantifier = c == '*' || c == '+' || c == '?' || c == '{';

        if (c == ')' && depth > 0)
            atom = open[--depth];
        else if (!quantifier && ((unsigned char)c & 0xc0) != 0x80)
            atom = out->len;
        if (c == '\\' && t.end - t.p >= 2) {
            t.p++;
            r = parse_escape(&t, out);
        } else if (c == '[') {
            r = parse_class(&t, out);
        } else if (c == '(') {
            if (depth == MAX_DEPTH)
                return refuse_pattern(&t, "groups nested too deeply");
            open[depth++] = out->len;
            r = parse_group(&t, out);
        } else if (c == '{') {
            const char *close = memchr(t.p, '}', (size_t)(t.end - t.p));
            const size_t n = close ? (size_t)(close - t.p) + 1 : 1;

            r = str_append(out, t.p, n);
            t.p += n;
            /* In Oniguruma "{n,m}+" repeats the repetition; in PCRE2 it would be a possessive
             * quantifier. */
            if (r == 0 && close && t.p < t.end && *t.p == '+')
                r = wrap_atom(out, atom);
        } else {
            r = str_putc(out, c);
            t.p++;
        }
    }
    return r;
}
