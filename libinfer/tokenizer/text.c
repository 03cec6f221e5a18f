/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends to growing lists of segments and ids.
 */
#include "tokenizer/text.h"

#include <errno.h>

#include "core/array.h"

int segs_push(struct segs *s, size_t start, size_t len, int32_t id)
{
    if (ARRAY_GROW(s->v, s->cap, s->n + 1) < 0)
        return -ENOMEM;
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
    if (ARRAY_GROW(ids->v, ids->cap, ids->n + 1) < 0)
        return -ENOMEM;
    ids->v[ids->n++] = id;
    return 0;
}
