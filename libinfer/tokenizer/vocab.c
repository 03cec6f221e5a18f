/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/vocab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"

static int grow(struct vocab *v, uint32_t n)
{
    uint32_t cap = v->cap ? v->cap : 256;
    struct piece *p;

    while (cap < n)
        cap *= 2;
    p = realloc(v->pieces, cap * sizeof(*p));
    if (!p)
        return -ENOMEM;
    memset(p + v->cap, 0, (cap - v->cap) * sizeof(*p));
    v->pieces = p;
    v->cap = cap;
    return 0;
}

int vocab_reserve(struct vocab *v, uint32_t id)
{
    return id < v->cap ? 0 : grow(v, id + 1);
}

int vocab_put(struct vocab *v, uint32_t id, const char *text, size_t len, enum piece_kind kind,
              double score, struct inf_err *reterr)
{
    char *copy;
    int r;

    /* Ids far beyond the pieces seen so far would let a small file ask for much memory. */
    if (id >= VOCAB_MAX_PIECES || (id >= v->cap && id / 16 > v->ids.n + 65536))
        return err_set(reterr, EINVAL, "token id %u is too large", id);
    if (len > VOCAB_MAX_PIECE)
        return err_set(reterr, EINVAL, "token %u is too long", id);
    if (id >= v->cap) {
        r = grow(v, id + 1);
        if (r < 0)
            return r;
    }
    copy = arena_strndup(&v->arena, text, len);
    if (!copy)
        return -ENOMEM;
    r = map_set(&v->ids, copy, len, id);
    if (r < 0)
        return r;
    v->pieces[id] =
        (struct piece){.text = copy, .len = (uint32_t)len, .kind = (uint8_t)kind, .score = score};
    v->n = MAX(v->n, id + 1);
    v->max_len = MAX(v->max_len, (uint32_t)len);
    return 0;
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    uint64_t id;

    return len <= v->max_len && map_find(&v->ids, text, len, &id) ? (int32_t)id : -1;
}

void vocab_done(struct vocab *v)
{
    map_done(&v->ids);
    free(v->pieces);
    arena_done(&v->arena);
    *v = (struct vocab){0};
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

int piece_byte(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>' || hex_digit(text[3]) < 0 ||
        hex_digit(text[4]) < 0)
        return -1;
    return hex_digit(text[3]) * 16 + hex_digit(text[4]);
}

bool vocab_bytes(const struct vocab *v, int32_t ret_ids[256])
{
    bool all = true;

    for (int i = 0; i < 256; i++) {
        char name[8];

        snprintf(name, sizeof(name), "<0x%02X>", (unsigned)i);
        ret_ids[i] = vocab_find(v, name, 6);
        all = all && ret_ids[i] >= 0;
    }
    return all;
}
