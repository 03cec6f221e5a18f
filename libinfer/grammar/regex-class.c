/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the classes and the escapes of regular expressions. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "grammar/node.h"
#include "grammar/regex-class.h"

static int class_fail(const struct regex_parser *p, const char *what)
{
    return err_set_at(p->reterr, EINVAL, p->at, "a regular expression has %s at byte %zu", what,
                      p->at);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses exactly @n hexadecimal digits. */
static bool parse_hex(struct regex_parser *p, size_t n, uint32_t *ret_value)
{
    uint32_t value = 0;

    if (p->len - p->at < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const int digit = hex_value(p->pattern[p->at + i]);

        if (digit < 0)
            return false;
        value = value << 4 | (uint32_t)digit;
    }
    p->at += n;
    *ret_value = value;
    return true;
}

/* Parses the digits of "\u{1F600}", after the opening bracket. */
static bool parse_braced_hex(struct regex_parser *p, uint32_t *ret_value)
{
    uint32_t value = 0;
    size_t n = 0;

    for (; p->at < p->len && hex_value(p->pattern[p->at]) >= 0 && value <= SET_LAST; n++)
        value = value << 4 | (uint32_t)hex_value(p->pattern[p->at++]);
    *ret_value = value;
    return n > 0 && value <= SET_LAST && p->at < p->len && p->pattern[p->at++] == '}';
}

/* Parses the code after "\u" or "\x". Two escapes that form a surrogate pair are one code
 * point. */
static int parse_code(struct regex_parser *p, char letter, uint32_t *ret_cp)
{
    uint32_t low;

    if (p->at < p->len && p->pattern[p->at] == '{') {
        p->at++;
        return parse_braced_hex(p, ret_cp) ? 0 : class_fail(p, "an invalid code point");
    }
    if (!parse_hex(p, letter == 'x' ? 2 : 4, ret_cp))
        return class_fail(p, "an invalid code point");
    if (*ret_cp < 0xd800 || *ret_cp > 0xdbff || p->len - p->at < 6 ||
        memcmp(p->pattern + p->at, "\\u", 2) != 0)
        return 0;
    p->at += 2;
    if (!parse_hex(p, 4, &low) || low < 0xdc00 || low > 0xdfff)
        return class_fail(p, "half of a surrogate pair");
    *ret_cp = 0x10000 + ((*ret_cp - 0xd800) << 10) + (low - 0xdc00);
    return 0;
}

static int parse_property(struct regex_parser *p, bool invert, struct set *set)
{
    const char *name = p->pattern + p->at, *end = name + 1;
    struct set property = {0};
    bool braced = false;
    int r;

    if (p->at < p->len && *name == '{') {
        name++;
        end = memchr(name, '}', p->len - p->at - 1);
        if (!end)
            return class_fail(p, "a property without its end");
        braced = true;
    } else if (p->at >= p->len || !(p->flags & REGEX_RUST)) {
        return class_fail(p, "\\p without a property");
    }
    r = set_add_property(&property, name, (size_t)(end - name));
    if (r == -EINVAL)
        r = err_set(p->reterr, EINVAL, "the property \\p{%.*s} is not supported",
                    (int)(end - name < 40 ? end - name : 40), name);
    if (r == 0 && invert)
        r = set_invert(&property);
    if (r == 0)
        r = work_add(&p->b->work, WORK_SET + WORK_RANGE * (uint64_t)property.n);
    if (r == 0)
        r = set_add_set(set, &property);
    set_done(&property);
    p->at = (size_t)(end - p->pattern) + braced;
    return r;
}

static int parse_set_escape(struct regex_parser *p, char letter, struct set *set)
{
    const char lower = (char)(letter | 0x20);
    struct set meaning = {0};
    int r;

    r = set_add_escape(&meaning, lower, p->flags & REGEX_RUST);
    if (r == 0 && letter != lower)
        r = set_invert(&meaning);
    if (r == 0)
        r = work_add(&p->b->work, WORK_RANGE * (uint64_t)(1 + meaning.n));
    if (r == 0 && p->flags & REGEX_RUST)
        r = work_add(&p->b->work, WORK_SET);
    if (r == 0)
        r = set_add_set(set, &meaning);
    set_done(&meaning);
    return r;
}

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

int regex_escape(struct regex_parser *p, struct set *set, uint32_t *ret_cp, bool *ret_is_set)
{
    static const char letters[] = "tnvfrae", codes[] = "\t\n\v\f\r\a\x1b";
    const char *found;
    char c;
    size_t n;

    p->at++;
    if (p->at >= p->len)
        return class_fail(p, "a backslash at its end");
    c = p->pattern[p->at++];
    *ret_is_set = c != 0 && strchr("dDsSwWpP", c);
    if (*ret_is_set)
        return (c | 0x20) == 'p' ? parse_property(p, c == 'P', set) : parse_set_escape(p, c, set);
    if (c == 'u' || c == 'x' || c == 'U')
        return parse_code(p, c, ret_cp);
    found = c != 0 ? strchr(letters, c) : NULL;
    if (found && (p->flags & REGEX_RUST || (c != 'a' && c != 'e'))) {
        *ret_cp = (unsigned char)codes[found - letters];
        return 0;
    }
    if (c == 'c' && p->at < p->len && (p->pattern[p->at] | 0x20) >= 'a' &&
        (p->pattern[p->at] | 0x20) <= 'z') {
        *ret_cp = (unsigned char)p->pattern[p->at++] & 31u;
        return 0;
    }
    *ret_cp = 0;
    if (c == '0' && !(p->at < p->len && p->pattern[p->at] >= '0' && p->pattern[p->at] <= '9'))
        return 0;
    p->at--;
    if (is_letter_or_digit(c))
        return class_fail(p, "an escape that is not supported");
    n = utf8_decode(p->pattern + p->at, p->len - p->at, ret_cp);
    if (n == 0)
        return class_fail(p, "invalid UTF-8");
    p->at += n;
    return 0;
}

/* Parses one member of a class: a code point, or a set, which is added to @set. */
static int class_member(struct regex_parser *p, struct set *set, uint32_t *ret_cp, bool *ret_is_set)
{
    size_t n;

    *ret_is_set = false;
    if (p->pattern[p->at] == '\\') {
        if (p->at + 1 < p->len && p->pattern[p->at + 1] == 'b') {
            p->at += 2;
            *ret_cp = '\b';
            return 0;
        }
        return regex_escape(p, set, ret_cp, ret_is_set);
    }
    n = utf8_decode(p->pattern + p->at, p->len - p->at, ret_cp);
    if (n == 0)
        return class_fail(p, "invalid UTF-8");
    p->at += n;
    return 0;
}

/* Parses a member, and the range that it may begin. */
static int class_range(struct regex_parser *p, struct set *set)
{
    uint32_t first, last;
    bool is_set;
    int r;

    r = class_member(p, set, &first, &is_set);
    if (r < 0 || is_set)
        return r;
    last = first;
    if (p->at + 1 < p->len && p->pattern[p->at] == '-' && p->pattern[p->at + 1] != ']') {
        const size_t dash = p->at++;

        r = class_member(p, set, &last, &is_set);
        if (r < 0)
            return r;
        if (is_set) { /* a dash before a set stands for itself */
            r = set_add(set, '-', '-');
            last = first;
        }
        if (last < first) {
            p->at = dash;
            return class_fail(p, "a range whose ends are in the wrong order");
        }
    }
    return r < 0 ? r : set_add(set, first, last);
}

/* Returns whether an operation on classes or a named class follows. Only Rust has these: "&&",
 * "--" and "~~" are the intersection, the difference and the symmetric difference of two classes,
 * and "[:" begins the name of a class, as in "[:alpha:]". */
static bool is_operation(const struct regex_parser *p)
{
    static const char *const operations[] = {"&&", "--", "~~", "[:"};

    for (size_t i = 0; p->flags & REGEX_RUST && i < ARRAY_SIZE(operations); i++)
        if (p->len - p->at >= 2 && memcmp(p->pattern + p->at, operations[i], 2) == 0)
            return true;
    return false;
}

int regex_class(struct regex_parser *p, struct set *set)
{
    bool invert = false;
    size_t start;
    int r = 0;

    p->at++;
    if (p->at < p->len && p->pattern[p->at] == '^') {
        invert = true;
        p->at++;
    }
    start = p->at;
    /* A bracket that comes first is a member in Rust, and the end of the class in ECMA-262. */
    while (r == 0 && p->at < p->len &&
           (p->pattern[p->at] != ']' || (p->at == start && p->flags & REGEX_RUST))) {
        if (is_operation(p))
            return class_fail(p, "an operation on classes, which is not supported,");
        r = class_range(p, set);
    }
    if (r < 0)
        return r;
    if (p->at >= p->len)
        return class_fail(p, "a class without its end");
    p->at++;
    if (p->flags & REGEX_IGNORE_CASE)
        r = set_fold(set);
    return r == 0 && invert ? set_invert(set) : r;
}
