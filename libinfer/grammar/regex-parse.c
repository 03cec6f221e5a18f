/* SPDX-License-Identifier: Apache-2.0 */
/* Parses regular expressions into trees (regex-tree.h). */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "grammar/regex-class.h"
#include "grammar/regex-tree.h"

#define MAX_DEPTH  200
#define MAX_REPEAT 1000000000

static int parse_alt(struct regex_parser *p, struct tree **ret_tree);

static int parser_fail(const struct regex_parser *p, const char *what)
{
    return err_set_at(p->reterr, EINVAL, p->at, "a regular expression has %s at byte %zu", what,
                      p->at);
}

static struct tree *tree_new(struct regex_parser *p, enum tree_kind kind)
{
    struct tree *tree = arena_zalloc(p->arena, sizeof(*tree));

    if (tree) {
        tree->kind = kind;
        tree->has_anchor = kind != TREE_NODE && kind <= TREE_END;
        tree->has_anchor |= kind == TREE_AHEAD || kind == TREE_NOT_AHEAD;
    }
    return tree;
}

static int tree_of_node(struct regex_parser *p, grammar_node node, struct tree **ret_tree)
{
    *ret_tree = tree_new(p, TREE_NODE);
    if (!*ret_tree)
        return -ENOMEM;
    (*ret_tree)->node = node;
    return 0;
}

static int tree_of_kind(struct regex_parser *p, enum tree_kind kind, struct tree **ret_tree)
{
    *ret_tree = tree_new(p, kind);
    return *ret_tree ? 0 : -ENOMEM;
}

/* Turns a set of code points into a tree. If the flag i is set, both cases of its letters are
 * included. */
static int tree_of_set(struct regex_parser *p, struct set *set, struct tree **ret_tree)
{
    int r = 0;

    if (p->flags & REGEX_IGNORE_CASE)
        r = set_fold(set);
    return r < 0 ? r : tree_of_node(p, set_node(set, p->b), ret_tree);
}

static int tree_of_char(struct regex_parser *p, uint32_t cp, struct tree **ret_tree)
{
    struct set set = {0};
    int r;

    r = set_add(&set, cp, cp);
    if (r == 0)
        r = tree_of_set(p, &set, ret_tree);
    set_done(&set);
    return r;
}

static int parse_dot(struct regex_parser *p, struct tree **ret_tree)
{
    static const struct grammar_range ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    size_t n = p->flags & REGEX_RUST ? 1 : ARRAY_SIZE(ends);

    p->at++;
    if (p->flags & REGEX_DOT_ALL)
        n = 0;
    return tree_of_node(p, grammar_class(p->b, ends, n, true), ret_tree);
}

static bool parser_skip(struct regex_parser *p, const char *text)
{
    const size_t n = strlen(text);

    if (p->len - p->at < n || memcmp(p->pattern + p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* Parses the letters of "(?i)" and "(?i-s:". *ret_is_group tells whether a group follows. */
static int parse_flags(struct regex_parser *p, bool *ret_is_group)
{
    static const struct {
        char letter;
        unsigned flag;
    } letters[] = {{'i', REGEX_IGNORE_CASE}, {'s', REGEX_DOT_ALL}, {'x', REGEX_VERBOSE}, {'u', 0}};
    bool clear = false;

    for (; p->at < p->len; p->at++) {
        const char c = p->pattern[p->at];
        size_t i = 0;

        if (c == ':' || c == ')') {
            *ret_is_group = c == ':';
            p->at++;
            return 0;
        }
        if (c == '-' && !clear) {
            clear = true;
            continue;
        }
        while (i < ARRAY_SIZE(letters) && letters[i].letter != c)
            i++;
        if (i == ARRAY_SIZE(letters))
            break;
        p->flags = clear ? p->flags & ~letters[i].flag : p->flags | letters[i].flag;
    }
    return parser_fail(p, "a flag or a group that is not supported");
}

static int parse_group_name(struct regex_parser *p)
{
    const char *end = memchr(p->pattern + p->at, '>', p->len - p->at);

    if (!end)
        return parser_fail(p, "a name of a group without its end");
    p->at = (size_t)(end - p->pattern) + 1;
    return 0;
}

/* Parses the inside of a group and its closing bracket. */
static int parse_group_rest(struct regex_parser *p, enum tree_kind kind, struct tree **ret_tree)
{
    const unsigned flags = p->flags;
    struct tree *inside;
    int r;

    if (p->depth >= MAX_DEPTH)
        return err_set(p->reterr, E2BIG, "a regular expression has more than %d nested groups",
                       MAX_DEPTH);
    p->depth++;
    r = parse_alt(p, &inside);
    p->depth--;
    p->flags = flags;
    if (r < 0)
        return r;
    if (!parser_skip(p, ")"))
        return parser_fail(p, "a group without its end");
    if (kind == TREE_SEQ) {
        *ret_tree = inside;
        return 0;
    }
    r = tree_of_kind(p, kind, ret_tree);
    if (r == 0)
        (*ret_tree)->children = inside;
    return r;
}

static int parse_group(struct regex_parser *p, struct tree **ret_tree)
{
    const unsigned flags = p->flags;
    bool is_group = true;
    int r = 0;

    p->at++;
    if (parser_skip(p, "?=") || parser_skip(p, "?!"))
        return parse_group_rest(p, p->pattern[p->at - 1] == '=' ? TREE_AHEAD : TREE_NOT_AHEAD,
                                ret_tree);
    if (parser_skip(p, "?<=") || parser_skip(p, "?<!"))
        return parser_fail(p, "look-behind, which is not supported,");
    if (parser_skip(p, "?<") || parser_skip(p, "?P<"))
        r = parse_group_name(p);
    else if (!parser_skip(p, "?:") && parser_skip(p, "?"))
        r = parse_flags(p, &is_group);
    if (r < 0)
        return r;
    if (!is_group) /* the flags hold until the end of the group around them */
        return tree_of_node(p, grammar_empty(p->b), ret_tree);
    r = parse_group_rest(p, TREE_SEQ, ret_tree);
    p->flags = flags;
    return r;
}

static int parse_escape(struct regex_parser *p, struct tree **ret_tree)
{
    struct set set = {0};
    uint32_t cp;
    bool is_set;
    char c;
    int r;

    c = p->at + 1 < p->len ? p->pattern[p->at + 1] : 0;
    if (c == 'A' || c == 'z' || c == 'Z') {
        p->at += 2;
        return tree_of_kind(p, c == 'A' ? TREE_START : TREE_END, ret_tree);
    }
    if (c == 'b' || c == 'B')
        return parser_fail(p, "\\b or \\B, which is not supported,");
    if (c == 'k' || (c >= '1' && c <= '9'))
        return parser_fail(p, "a back reference, which is not supported,");
    r = regex_escape(p, &set, &cp, &is_set);
    if (r == 0 && is_set)
        r = tree_of_set(p, &set, ret_tree);
    else if (r == 0)
        r = tree_of_char(p, cp, ret_tree);
    set_done(&set);
    return r;
}

static int parse_class(struct regex_parser *p, struct tree **ret_tree)
{
    struct set set = {0};
    int r;

    r = regex_class(p, &set);
    if (r == 0)
        r = tree_of_node(p, set_node(&set, p->b), ret_tree);
    set_done(&set);
    return r;
}

static int parse_char(struct regex_parser *p, struct tree **ret_tree)
{
    uint32_t cp;
    const size_t n = utf8_decode(p->pattern + p->at, p->len - p->at, &cp);

    if (n == 0)
        return parser_fail(p, "invalid UTF-8");
    p->at += n;
    return tree_of_char(p, cp, ret_tree);
}

static int parse_atom(struct regex_parser *p, struct tree **ret_tree)
{
    switch (p->pattern[p->at]) {
    case '^':
        p->at++;
        return tree_of_kind(p, TREE_START, ret_tree);
    case '$':
        p->at++;
        return tree_of_kind(p, TREE_END, ret_tree);
    case '.':
        return parse_dot(p, ret_tree);
    case '(':
        return parse_group(p, ret_tree);
    case '[':
        return parse_class(p, ret_tree);
    case '\\':
        return parse_escape(p, ret_tree);
    case '*':
    case '+':
    case '?':
        return parser_fail(p, "nothing to repeat");
    default:
        return parse_char(p, ret_tree);
    }
}

/* Parses digits. Returns false if there are none, or if the number is too large. */
static bool parse_number(const struct regex_parser *p, size_t *at, uint32_t *ret_number)
{
    uint64_t number = 0;
    const size_t start = *at;

    for (; *at < p->len && p->pattern[*at] >= '0' && p->pattern[*at] <= '9'; ++*at) {
        number = 10 * number + (uint64_t)(p->pattern[*at] - '0');
        if (number > MAX_REPEAT)
            return false;
    }
    *ret_number = (uint32_t)number;
    return *at > start;
}

/* Parses "{2,3}". Returns false if the bracket does not begin a repetition. */
static bool parse_braces(struct regex_parser *p, uint32_t *ret_min, uint32_t *ret_max)
{
    size_t at = p->at + 1;

    if (!parse_number(p, &at, ret_min))
        return false;
    *ret_max = *ret_min;
    if (at < p->len && p->pattern[at] == ',') {
        at++;
        *ret_max = GRAMMAR_FOREVER;
        if (at < p->len && p->pattern[at] != '}' && !parse_number(p, &at, ret_max))
            return false;
    }
    if (at >= p->len || p->pattern[at] != '}')
        return false;
    p->at = at + 1;
    return true;
}

static bool parse_quantifier(struct regex_parser *p, uint32_t *ret_min, uint32_t *ret_max)
{
    const char c = p->at < p->len ? p->pattern[p->at] : 0;

    if (c == '{')
        return parse_braces(p, ret_min, ret_max);
    if (c != '*' && c != '+' && c != '?')
        return false;
    p->at++;
    *ret_min = c == '+';
    *ret_max = c == '?' ? 1 : GRAMMAR_FOREVER;
    return true;
}

static void skip_space(struct regex_parser *p)
{
    while (p->flags & REGEX_VERBOSE && p->at < p->len) {
        const char c = p->pattern[p->at];

        if (c == '#')
            while (p->at < p->len && p->pattern[p->at] != '\n')
                p->at++;
        else if (c == ' ' || (c >= '\t' && c <= '\r'))
            p->at++;
        else
            break;
    }
}

static int parse_repeated(struct regex_parser *p, struct tree **ret_tree)
{
    struct tree *atom, *repeat;
    uint32_t min, max;
    int r;

    r = parse_atom(p, &atom);
    if (r < 0)
        return r;
    skip_space(p);
    if (parse_quantifier(p, &min, &max)) {
        if (min > max)
            return parser_fail(p, "a repetition whose limits are in the wrong order");
        parser_skip(p, "?"); /* a lazy repetition matches the same texts */
        r = tree_of_kind(p, TREE_REPEAT, &repeat);
        if (r < 0)
            return r;
        repeat->children = atom;
        repeat->has_anchor = atom->has_anchor;
        repeat->min = min;
        repeat->max = max;
        atom = repeat;
    }
    *ret_tree = atom;
    return 0;
}

/* Appends a child to a tree. */
static void tree_append(struct tree *tree, struct tree **last, struct tree *child)
{
    if (*last)
        (*last)->next = child;
    else
        tree->children = child;
    *last = child;
    tree->has_anchor |= child->has_anchor;
}

static int parse_seq(struct regex_parser *p, struct tree **ret_tree)
{
    struct tree *seq, *last = NULL, *child = NULL;
    int r;

    r = tree_of_kind(p, TREE_SEQ, &seq);
    for (skip_space(p);
         r == 0 && p->at < p->len && p->pattern[p->at] != '|' && p->pattern[p->at] != ')';
         skip_space(p)) {
        r = parse_repeated(p, &child);
        if (r == 0)
            tree_append(seq, &last, child);
    }
    *ret_tree = seq;
    return r;
}

static int parse_alt(struct regex_parser *p, struct tree **ret_tree)
{
    struct tree *alt, *last = NULL, *child = NULL;
    int r;

    r = tree_of_kind(p, TREE_ALT, &alt);
    do {
        if (r == 0)
            r = parse_seq(p, &child);
        if (r == 0)
            tree_append(alt, &last, child);
    } while (r == 0 && parser_skip(p, "|"));
    *ret_tree = r == 0 && alt->children == last ? last : alt;
    return r;
}

int regex_parse(struct grammar_builder *b, struct arena *arena, const char *pattern, size_t len,
                unsigned flags, const struct tree **ret_tree, struct inf_err *reterr)
{
    struct regex_parser p = {
        .b = b, .arena = arena, .pattern = pattern, .len = len, .flags = flags, .reterr = reterr};
    struct tree *tree;
    int r;

    r = parse_alt(&p, &tree);
    if (r == 0 && p.at < len)
        r = parser_fail(&p, "a closing bracket without its start");
    if (r == -ENOMEM)
        return r;
    if (r == 0)
        *ret_tree = tree;
    return r;
}
