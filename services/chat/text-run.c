/* SPDX-License-Identifier: Apache-2.0 */
/* Joins pieces to texts (see text-run.h). A text with only one piece is a reference to this piece,
 * so nothing is copied. */
#include "chat/text-run.h"

#include <errno.h>

static int run_append(struct text_run *run, const json_t *piece)
{
    return str_append(&run->joined, json_string_value(piece), json_string_length(piece));
}

int text_run_end(struct text_run *run)
{
    json_t *text;

    if (!run->text)
        return 0;
    text = json_stringn_nocheck(run->joined.data ? run->joined.data : "", run->joined.len);
    if (!text)
        return -ENOMEM;
    json_decref(*run->text);
    *run->text = text;
    run->text = NULL;
    str_clear(&run->joined);
    return 0;
}

int text_run_add(struct text_run *run, json_t **text, const char *separator, json_t *piece)
{
    int r = run->text == text ? 0 : text_run_end(run);

    if (r < 0)
        return r;
    if (!run->text && !json_string_length(*text)) {
        json_decref(*text);
        *text = json_incref(piece);
        return 0;
    }
    if (!run->text) {
        r = run_append(run, *text);
        run->text = r < 0 ? NULL : text;
    }
    r = r < 0 || !run->joined.len ? r : str_puts(&run->joined, separator);
    return r < 0 ? r : run_append(run, piece);
}

void text_run_done(struct text_run *run)
{
    str_done(&run->joined);
}
