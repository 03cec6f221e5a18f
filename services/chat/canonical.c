/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes the lines that Claude Code changes in each request. */
#include "chat/canonical.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "core/str.h"
#include "core/text.h"

static const char countdown_open[] = "<total_tokens>";
static const char countdown_close[] = " tokens left</total_tokens>";

bool canonical_is_billing(const json_t *text)
{
    const char *s = json_string_value(text);

    return s && text_starts_with(s, "x-anthropic-billing-header: cc_version=") &&
           strlen(s) == json_string_length(text) && s[strlen(s) - 1] == ';' && !strchr(s, '\n');
}

/* Returns whether a line of @len bytes tells how many tokens are left. */
static bool countdown_is(const char *line, size_t len)
{
    const size_t n_open = sizeof(countdown_open) - 1, n_close = sizeof(countdown_close) - 1;
    const char *number = line + n_open;

    if (len <= n_open + n_close || memcmp(line, countdown_open, n_open) != 0 ||
        memcmp(line + len - n_close, countdown_close, n_close) != 0)
        return false;
    len -= n_open + n_close;
    if (len == 8 && memcmp(number, "Infinite", len) == 0)
        return true;
    for (size_t i = 0; i < len; i++)
        if (!isdigit((unsigned char)number[i]))
            return false;
    return true;
}

/* Finds the first paragraph at or after @from that consists of a line for which countdown_is() is
 * true. Returns the length of the paragraph, or 0 if there is none. */
static size_t countdown_find(const char *text, size_t len, size_t from, size_t *ret_at)
{
    while (from < len) {
        const char *found = memmem(text + from, len - from, countdown_open, strlen(countdown_open));
        const char *end = found ? memchr(found, '\n', (size_t)(text + len - found)) : NULL;
        size_t at, n, after;

        if (!found)
            return 0;
        at = (size_t)(found - text);
        n = (size_t)((end ? end : text + len) - found);
        after = len - at - n;
        if ((at == 0 || (at >= 2 && memcmp(found - 2, "\n\n", 2) == 0)) &&
            (after == 0 || (after >= 2 && memcmp(found + n, "\n\n", 2) == 0)) &&
            countdown_is(found, n)) {
            *ret_at = at;
            return n;
        }
        from = at + strlen(countdown_open);
    }
    return 0;
}

int canonical_drop_countdown(json_t *text, json_t **ret_text)
{
    const char *s = json_string_value(text);
    const size_t len = json_string_length(text);
    _cleanup_str_ struct str out = {};
    size_t from = 0, at, n;

    if (!countdown_find(s, len, 0, &at)) {
        *ret_text = json_incref(text);
        return 0;
    }
    while ((n = countdown_find(s, len, from, &at)) > 0) {
        if (str_append(&out, s + from, at - from) < 0)
            return -ENOMEM;
        from = MIN(at + n + 2, len);
        /* The empty line after the paragraph is dropped with it. If the text ends with the
         * paragraph, the empty line before the paragraph is dropped instead. */
        if (at + n == len && out.len >= 2)
            out.len -= 2;
    }
    if (str_append(&out, s + from, len - from) < 0)
        return -ENOMEM;
    text = json_stringn_nocheck(out.data ? out.data : "", out.len);
    if (!text)
        return -ENOMEM;
    *ret_text = text;
    return 0;
}
