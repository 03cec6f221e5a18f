/* SPDX-License-Identifier: Apache-2.0 */
/* Writes grammars in the Lark notation. */
#include "chat/reply/lark.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"

/* Limit for the size of a grammar, in bytes; the reader of the notation has the same limit. */
#define LARK_MAX_TEXT ((size_t)1 << 20)

static void lark_check(struct lark *l, int r)
{
    if (r < 0 && !l->error)
        l->error = r;
}

void lark_puts(struct lark *l, const char *text)
{
    if (l->out.len + l->later.len > LARK_MAX_TEXT)
        lark_check(l, -E2BIG);
    if (!l->error)
        lark_check(l, str_puts(&l->out, text));
}

void lark_printf(struct lark *l, const char *format, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list args;
    int n;

    va_start(args, format);
    n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        lark_check(l, -ENOMEM);
        return;
    }
    lark_puts(l, text);
}

void lark_text(struct lark *l, const char *text, size_t len)
{
    if (len && !l->error) {
        lark_check(l, json_put_string(&l->out, text, len));
        lark_puts(l, " ");
    }
}

void lark_one_of(struct lark *l, const json_t *strings)
{
    json_t *string;
    size_t i;

    lark_puts(l, "(");
    json_array_foreach(strings, i, string)
    {
        lark_puts(l, i ? "| " : "");
        if (json_string_length(string))
            lark_text(l, json_string_value(string), json_string_length(string));
        else
            lark_puts(l, "\"\" ");
    }
    lark_puts(l, ") ");
}

/* Encodes a marker; *ret_ids is NULL if there is no tokenizer. */
static size_t lark_encode(const struct lark *l, const char *marker, int32_t **ret_ids)
{
    size_t n = 0;

    *ret_ids = NULL;
    if (l->tok && inf_tokenizer_encode(l->tok, marker, strlen(marker), INF_ENCODE_PARSE_SPECIAL, 0,
                                       ret_ids, &n) < 0)
        return 0;
    return n;
}

static bool lark_token_is_special(const struct lark *l, int32_t id)
{
    return inf_tokenizer_token_flags(l->tok, id) & INF_TOKEN_SPECIAL;
}

void lark_marker(struct lark *l, const char *marker)
{
    _cleanup_free_ int32_t *ids = NULL;
    const char *at = marker;
    size_t n = marker ? lark_encode(l, marker, &ids) : 0;

    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *piece = inf_tokenizer_token_text(l->tok, ids[i], &len);
        const char *found;

        if (!lark_token_is_special(l, ids[i]) || !len ||
            !(found = memmem(at, strlen(at), piece, len)))
            continue;
        lark_text(l, at, (size_t)(found - at));
        lark_printf(l, "<[%d]> ", ids[i]);
        at = found + len;
    }
    if (at)
        lark_text(l, at, strlen(at));
}

void lark_json(struct lark *l, const json_t *schema)
{
    _cleanup_free_ char *text =
        l->error ? NULL : json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);

    if (!text)
        lark_check(l, -ENOMEM);
    else if (json_is_boolean(schema))
        lark_puts(l, json_is_true(schema) ? "%json {} " : "%json {\"not\":{}} ");
    else
        lark_printf(l, "%s %s ", l->loose ? "%json_loose" : "%json", text);
}

bool lark_is_special(const struct lark *l, const char *marker)
{
    _cleanup_free_ int32_t *ids = NULL;
    const size_t n = lark_encode(l, marker, &ids);

    return n && lark_token_is_special(l, ids[0]);
}

void lark_regex(struct lark *l, const char *regex)
{
    lark_puts(l, "/");
    for (; *regex; regex++) {
        if (*regex == '\\' && regex[1])
            lark_printf(l, "%c", *regex++);
        else if (*regex == '/')
            lark_puts(l, "\\");
        if (*regex == '\n')
            lark_puts(l, "\\n");
        else
            lark_printf(l, "%c", *regex);
    }
    lark_puts(l, "/ ");
}

/* Writes a text within a regular expression. */
static void lark_quote(struct lark *l, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\/.^$|?*+()[]{}-", *text))
            lark_puts(l, "\\");
        lark_printf(l, "%c", *text);
    }
}

void lark_text_without(struct lark *l, const char *name, const char *const *markers, size_t n)
{
    size_t n_plain = 0;

    lark_printf(l, "%s: /.*/s", name);
    for (size_t i = 0; i < n && markers[i]; i++) {
        if (lark_is_special(l, markers[i]))
            continue;
        lark_puts(l, n_plain++ ? "|" : " & ~/.*(");
        lark_quote(l, markers[i]);
    }
    lark_puts(l, n_plain ? ").*/s\n" : "\n");
}

unsigned lark_begin_rule(struct lark *l, struct str *saved)
{
    *saved = l->out;
    l->out = (struct str){};
    lark_printf(l, "r_%u: ", l->n_rules);
    return l->n_rules++;
}

void lark_end_rule(struct lark *l, struct str *saved)
{
    lark_puts(l, "\n");
    if (!l->error)
        lark_check(l, str_append(&l->later, l->out.data, l->out.len));
    str_done(&l->out);
    l->out = *saved;
}

void lark_done(struct lark *l)
{
    str_done(&l->out);
    str_done(&l->later);
}
