/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses multipart forms. The first line of the input is the Content-Type, and the other lines are
 * the body. The whole body and the same body in pieces must give the same parts, or both must be
 * rejected.
 */
#include <stdlib.h>
#include <string.h>

#include "common/http/multipart.h"
#include "core/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_part(void *user, const struct multipart_part *part)
{
    if (!part->name[0])
        abort();
    return str_printf(user, "[%s|%s|", part->name, part->filename ? part->filename : "");
}

static int on_data(void *user, const char *data, size_t len)
{
    return str_append(user, data, len);
}

static int on_end(void *user)
{
    return str_puts(user, "]");
}

static int read_form(const char *type, size_t n_type, const char *body, size_t n, size_t step,
                     struct str *parts)
{
    static const struct multipart_events events = {on_part, on_data, on_end};
    _cleanup_(multipart_freep) struct multipart *m = NULL;
    struct inf_err err;
    int r = multipart_new(type, n_type, &events, parts, &m, &err);

    for (size_t i = 0; r == 0 && i < n; i += step)
        r = multipart_feed(m, body + i, MIN(step, n - i), &err);
    return r < 0 ? r : multipart_finish(m, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *line = memchr(text, '\n', size);
    const size_t n_type = line ? (size_t)(line - text) : size;
    const char *body = line ? line + 1 : text + size;
    const size_t n = size - (size_t)(body - text);
    struct str whole = {0}, pieces = {0};
    const int r = read_form(text, n_type, body, n, n ? n : 1, &whole);

    if (read_form(text, n_type, body, n, 1 + size % 13, &pieces) != r)
        abort();
    if (r == 0 && (whole.len != pieces.len ||
                   memcmp(whole.data ? whole.data : "", pieces.data ? pieces.data : "", whole.len)))
        abort();
    str_done(&whole);
    str_done(&pieces);
    return 0;
}
