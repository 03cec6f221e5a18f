/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing lists of segments and ids.
 */
#include "tokenizer/text.h"

#include <errno.h>

int segs_push(struct segs *s, size_t start, size_t len, int32_t id)
{
    if (s->n == s->cap) {
        const size_t cap = s->cap ? s->cap * 2 : 64;
        struct seg *p = realloc(s->v, cap * sizeof(*p));

        if (!p)
            return -ENOMEM;
        s->v = p;
        s->cap = cap;
    }
    s->v[s->n++] = (struct seg){start, len, id};
    return 0;
}

void segs_done(struct segs *s)
{
    free(s->v);
    *s = (struct segs){0};
}

void text_done(struct text *t)
{
    str_done(&t->buf);
    segs_done(&t->segs);
}

int ids_push(struct ids *ids, int32_t id)
{
    if (ids->max && ids->n >= ids->max)
        return -E2BIG;
    if (ids->n == ids->cap) {
        const size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *p = realloc(ids->v, cap * sizeof(*p));

        if (!p)
            return -ENOMEM;
        ids->v = p;
        ids->cap = cap;
    }
    ids->v[ids->n++] = id;
    return 0;
}
