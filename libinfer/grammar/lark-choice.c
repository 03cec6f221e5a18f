/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text after the colon of a rule or a terminal. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "grammar/lark.h"
#include "grammar/nodes.h"
#include "grammar/regex.h"

static int hex_digits(const char *text, size_t len, size_t at, size_t n, uint32_t *ret_cp)
{
    uint32_t cp = 0;

    if (len - at < n)
        return -EINVAL;
    for (size_t i = at; i < at + n; i++) {
        const char c = text[i];

        if (c >= '0' && c <= '9')
            cp = cp << 4 | (uint32_t)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            cp = cp << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return -EINVAL;
    }
    *ret_cp = cp;
    return 0;
}

/* Decodes the escape at text[at], which follows a backslash. Returns its length in bytes, or 0 if
 * it is not valid. */
static size_t decode_escape(const char *text, size_t len, size_t at, uint32_t *ret_cp)
{
    static const char letters[] = "nrtbfv0", codes[] = "\n\r\t\b\f\v\0";
    const char c = text[at];
    const char *found = c == '\0' ? NULL : strchr(letters, c);
    const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;

    if (n > 0)
        return hex_digits(text, len, at + 1, n, ret_cp) == 0 ? 1 + n : 0;
    if (found)
        *ret_cp = (unsigned char)codes[found - letters];
    else if (strchr("\"'\\/", c) && c != '\0')
        *ret_cp = (unsigned char)c;
    else
        return 0;
    return 1;
}

int lark_string(const struct lark *l, const struct lark_word *word, char **ret_text,
                size_t *ret_len)
{
    const size_t len = word->len - 1;
    char *text = NEW(char, word->len + 1);
    size_t n = 0;

    if (!text)
        return -ENOMEM;
    for (size_t i = 1; i < len;) {
        uint32_t cp;
        size_t used, n_utf8;

        if (word->text[i] != '\\') {
            text[n++] = word->text[i++];
            continue;
        }
        used = decode_escape(word->text, len, i + 1, &cp);
        n_utf8 = used > 0 ? utf8_encode(cp, text + n) : 0;
        if (n_utf8 == 0) {
            free(text);
            return lark_fail(l, "a string has an escape that is not known");
        }
        n += n_utf8;
        i += 1 + used;
    }
    if (!utf8_valid(text, n)) {
        free(text);
        return lark_fail(l, "a string is not UTF-8");
    }
    *ret_text = text;
    *ret_len = n;
    return 0;
}

/* Makes the node of a text in which upper and lower case do not matter. */
static int lark_fold(struct lark *l, const char *text, size_t len, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    uint32_t cp;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i += utf8_decode(text + i, len - i, &cp)) {
        struct set set = {0};

        utf8_decode(text + i, len - i, &cp);
        r = set_add(&set, cp, cp);
        if (r == 0)
            r = set_fold(&set);
        if (r == 0)
            r = nodes_add(&nodes, set_node(&set, l->b));
        set_done(&set);
    }
    if (r == 0)
        *ret_node = grammar_seq(l->b, nodes.list, nodes.n);
    return r;
}

/* Reads the other end of "a".."z". */
static int lark_range(struct lark *l, const char *first, size_t n_first, grammar_node *ret_node)
{
    _cleanup_free_ char *last = NULL;
    struct grammar_range range;
    size_t n_last;
    int r;

    if (l->word.kind != LARK_STRING)
        return lark_fail(l, "a string is expected after \"..\"");
    r = lark_string(l, &l->word, &last, &n_last);
    if (r < 0)
        return r;
    if (utf8_decode(first, n_first, &range.first) != n_first || n_first == 0 ||
        utf8_decode(last, n_last, &range.last) != n_last || n_last == 0 || range.first > range.last)
        return lark_fail(l, "the ends of a range are not two characters in ascending order");
    *ret_node = grammar_class(l->b, &range, 1, false);
    return lark_next(l);
}

static int lark_literal(struct lark *l, grammar_node *ret_node)
{
    const bool fold = l->word.n_flags == 1 && l->word.flags[0] == 'i';
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r;

    if (l->word.n_flags > 0 && !fold)
        return lark_fail(l, "a string has a flag that is not known");
    r = lark_string(l, &l->word, &text, &len);
    if (r == 0)
        r = lark_next(l);
    if (r == 0)
        r = lark_skip(l, "..");
    if (r < 0)
        return r;
    if (r == 1)
        return lark_range(l, text, len, ret_node);
    if (fold)
        return lark_fold(l, text, len, ret_node);
    *ret_node = grammar_bytes(l->b, text, len);
    return 0;
}

static int lark_regex(struct lark *l, grammar_node *ret_node)
{
    unsigned flags = REGEX_RUST;
    int r;

    for (size_t i = 0; i < l->word.n_flags; i++)
        switch (l->word.flags[i]) {
        case 'i':
            flags |= REGEX_IGNORE_CASE;
            break;
        case 's':
            flags |= REGEX_DOT_ALL;
            break;
        case 'x':
            flags |= REGEX_VERBOSE;
            break;
        case 'u':
            break;
        default:
            return lark_fail(l, "a regular expression has a flag that is not supported");
        }
    r = regex_read(l->b, l->word.text + 1, l->word.len - 2, flags, ret_node, l->reterr);
    if (r == -EINVAL)
        err_prefix(l->reterr, "line %u", l->word.line);
    return r < 0 ? r : lark_next(l);
}

/* Reads the number at text[*at]. */
static bool token_number(const struct lark_word *word, size_t *at, uint32_t *ret_number)
{
    const size_t start = *at;
    uint64_t number = 0;

    for (; *at < word->len && word->text[*at] >= '0' && word->text[*at] <= '9'; ++*at) {
        number = 10 * number + (uint64_t)(word->text[*at] - '0');
        if (number > INT32_MAX)
            return false;
    }
    *ret_number = (uint32_t)number;
    return *at > start;
}

#define MAX_TOKEN_RANGE 4096

/* Reads "<[12,20-25]>". */
static int lark_token_ids(struct lark *l, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    size_t at = 2;
    int r = 0;

    do {
        uint32_t first, last;

        if (!token_number(&l->word, &at, &first))
            return lark_fail(l, "the id of a token is invalid");
        last = first;
        if (at < l->word.len && l->word.text[at] == '-') {
            at++;
            if (!token_number(&l->word, &at, &last) || last < first ||
                last - first >= MAX_TOKEN_RANGE)
                return lark_fail(l, "a range of tokens is invalid");
        }
        for (uint32_t id = first; r == 0 && id <= last; id++)
            r = nodes_add(&nodes, grammar_token_id(l->b, id));
    } while (r == 0 && at < l->word.len && l->word.text[at++] == ',');
    if (r == 0 && (at + 1 != l->word.len || l->word.text[at - 1] != ']'))
        return lark_fail(l, "the id of a token is invalid");
    if (r == 0)
        *ret_node = grammar_alt(l->b, nodes.list, nodes.n);
    return r < 0 ? r : lark_next(l);
}

static int lark_token(struct lark *l, grammar_node *ret_node)
{
    if (l->word.len > 3 && l->word.text[1] == '[')
        return lark_token_ids(l, ret_node);
    *ret_node = grammar_token(l->b, l->word.text, l->word.len);
    return lark_next(l);
}

/* Reads a block that has a notation of its own. */
static int lark_block(struct lark *l, grammar_node *ret_node)
{
    const bool is_loose = lark_is(l, LARK_DIRECTIVE, "%json_loose");
    const bool is_json = is_loose || lark_is(l, LARK_DIRECTIVE, "%json");
    const bool is_text = lark_is(l, LARK_DIRECTIVE, "%json_text");
    const unsigned line = l->word.line;
    const char *text;
    size_t len;
    int r;

    if (!is_json && !is_text && !lark_is(l, LARK_DIRECTIVE, "%lark"))
        return lark_fail(l, "this directive is not supported inside of a rule");
    r = lark_next(l);
    if (r < 0)
        return r;
    if (l->word.kind != LARK_BLOCK)
        return lark_fail(l, "a block in braces is expected");
    text = l->word.text;
    len = l->word.len;
    if (is_json)
        r = grammar_read_schema_how(l->b, text, len, is_loose, ret_node, l->reterr);
    else
        r = lark_read(l->b, text + 1, len - 2, l->lexer.depth + 1, ret_node, l->reterr);
    if (r == -EINVAL)
        err_prefix(l->reterr, "block in line %u", line);
    if (r == 0 && is_text)
        *ret_node = grammar_json_escaped(l->b, *ret_node);
    return r < 0 ? r : lark_next(l);
}

static int lark_name(struct lark *l, grammar_node *ret_node)
{
    struct name *name;
    int r;

    r = names_get(&l->names, l->b, l->word.text, l->word.len, l->word.line, &name);
    if (r < 0)
        return r;
    *ret_node = name->rule;
    return lark_next(l);
}

static int lark_group(struct lark *l, const char *end, grammar_node *ret_node)
{
    int r;

    if (l->depth >= LARK_MAX_DEPTH)
        return lark_fail(l, "too many brackets are nested");
    l->depth++;
    r = lark_next(l);
    if (r == 0)
        r = lark_choice(l, ret_node);
    l->depth--;
    return r < 0 ? r : lark_expect(l, end);
}

/* Returns whether a word is the name of a rule, which is in lower case. Ignored text is not added
 * after a rule, because it is already after the terminals of the rule. */
static bool is_rule_name(const struct lark_word *word)
{
    for (size_t i = 0; i < word->len; i++)
        if (word->text[i] != '_')
            return word->kind == LARK_NAME && word->text[i] >= 'a' && word->text[i] <= 'z';
    return false;
}

static int lark_atom(struct lark *l, grammar_node *ret_node)
{
    const bool is_terminal = !is_rule_name(&l->word) && l->word.kind != LARK_SIGN;
    int r;

    switch (l->word.kind) {
    case LARK_STRING:
        r = lark_literal(l, ret_node);
        break;
    case LARK_REGEX:
        r = lark_regex(l, ret_node);
        break;
    case LARK_TOKEN:
        r = lark_token(l, ret_node);
        break;
    case LARK_NAME:
        r = lark_name(l, ret_node);
        break;
    case LARK_DIRECTIVE:
        r = lark_block(l, ret_node);
        break;
    default:
        if (lark_is(l, LARK_SIGN, "("))
            return lark_group(l, ")", ret_node);
        if (lark_is(l, LARK_SIGN, "[")) {
            r = lark_group(l, "]", ret_node);
            *ret_node = r < 0 ? BUILDER_NONE : grammar_repeat(l->b, *ret_node, 0, 1);
            return r;
        }
        if (lark_is(l, LARK_SIGN, "@"))
            return lark_fail(l, "references to other grammars are not supported");
        return lark_fail(l, "a rule, a terminal or a literal is expected");
    }
    if (r == 0 && is_terminal && l->ignore != BUILDER_NONE && !l->in_terminal)
        *ret_node = grammar_seq(l->b, (grammar_node[]){*ret_node, l->ignore}, 2);
    return r;
}

static int lark_number(struct lark *l, uint32_t *ret_number)
{
    uint64_t number = 0;

    if (l->word.kind != LARK_NUMBER)
        return lark_fail(l, "a number is expected");
    for (size_t i = 0; i < l->word.len && number <= LARK_MAX_REPEAT; i++)
        number = 10 * number + (uint64_t)(l->word.text[i] - '0');
    if (number > LARK_MAX_REPEAT)
        return lark_fail(l, "a number is too large");
    *ret_number = (uint32_t)number;
    return lark_next(l);
}

/* Reads "2..3" or "2" after "~". */
static int lark_times(struct lark *l, uint32_t *ret_min, uint32_t *ret_max)
{
    int r;

    r = lark_number(l, ret_min);
    *ret_max = r == 0 ? *ret_min : 0;
    if (r == 0)
        r = lark_skip(l, "..");
    return r == 1 ? lark_number(l, ret_max) : r;
}

/* Reads "2}", "2,}", ",3}" or "2,3}". */
static int lark_braces(struct lark *l, uint32_t *ret_min, uint32_t *ret_max)
{
    int r = 0;

    *ret_min = 0;
    if (!lark_is(l, LARK_SIGN, ","))
        r = lark_number(l, ret_min);
    *ret_max = *ret_min;
    if (r == 0)
        r = lark_skip(l, ",");
    if (r == 1) {
        *ret_max = GRAMMAR_FOREVER;
        r = lark_is(l, LARK_SIGN, "}") ? 0 : lark_number(l, ret_max);
    }
    return r < 0 ? r : lark_expect(l, "}");
}

/* Reads one repetition after an atom. Returns 1, 0 if there is none, or a negative errno value. */
static int lark_repeat(struct lark *l, uint32_t *ret_min, uint32_t *ret_max)
{
    static const char signs[] = "*+?";
    const char *sign;
    int r;

    if (l->word.kind != LARK_SIGN || l->word.len != 1 || !strchr("*+?~{", l->word.text[0]))
        return 0;
    sign = strchr(signs, l->word.text[0]);
    if (sign) {
        *ret_min = *sign == '+';
        *ret_max = *sign == '?' ? 1 : GRAMMAR_FOREVER;
        r = lark_next(l);
        return r < 0 ? r : 1;
    }
    if (l->word.text[0] == '~') {
        r = lark_next(l);
        if (r == 0)
            r = lark_times(l, ret_min, ret_max);
    } else {
        r = lark_next(l);
        if (r == 0)
            r = lark_braces(l, ret_min, ret_max);
    }
    if (r == 0 && *ret_min > *ret_max)
        return lark_fail(l, "the limits of a repetition are in the wrong order");
    return r < 0 ? r : 1;
}

static int lark_repeated(struct lark *l, grammar_node *ret_node)
{
    uint32_t min, max;
    bool invert;
    int r;

    r = lark_skip(l, "~");
    if (r < 0)
        return r;
    invert = r == 1;
    r = lark_atom(l, ret_node);
    while (r == 0) {
        r = lark_repeat(l, &min, &max);
        if (r <= 0)
            break;
        *ret_node = grammar_repeat(l->b, *ret_node, min, max);
        r = 0;
    }
    if (r == 0 && invert)
        *ret_node = grammar_not(l->b, *ret_node);
    return r;
}

static bool ends_sequence(const struct lark *l)
{
    return l->word.kind <= LARK_LINE ||
           (l->word.kind == LARK_SIGN && l->word.text[0] != '(' && l->word.text[0] != '[' &&
            l->word.text[0] != '~' && l->word.text[0] != '@');
}

static int lark_sequence(struct lark *l, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    grammar_node node;
    int r = 0;

    while (r == 0 && !ends_sequence(l)) {
        r = lark_repeated(l, &node);
        if (r == 0)
            r = nodes_add(&nodes, node);
    }
    if (r == 0)
        *ret_node = grammar_seq(l->b, nodes.list, nodes.n);
    return r;
}

/* Reads sequences that are joined by "&", and skips the name of the tree after "->". */
static int lark_branch(struct lark *l, grammar_node *ret_node)
{
    grammar_node node;
    int r;

    r = lark_sequence(l, ret_node);
    while (r == 0) {
        r = lark_skip(l, "&");
        if (r <= 0)
            break;
        r = lark_sequence(l, &node);
        if (r == 0)
            *ret_node = grammar_and(l->b, *ret_node, node);
    }
    if (r == 0)
        r = lark_skip(l, "->");
    if (r <= 0)
        return r;
    return l->word.kind == LARK_NAME ? lark_next(l)
                                     : lark_fail(l, "a name is expected after \"->\"");
}

int lark_choice(struct lark *l, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    grammar_node node;
    int r;

    r = lark_skip(l, "|");
    do {
        if (r >= 0)
            r = lark_branch(l, &node);
        if (r == 0)
            r = nodes_add(&nodes, node);
        if (r == 0)
            r = lark_skip(l, "|");
    } while (r == 1);
    if (r == 0)
        *ret_node = grammar_alt(l->b, nodes.list, nodes.n);
    return r;
}
