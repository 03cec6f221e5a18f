/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores and finds the pieces of a vocabulary.
 */
#include "tokenizer/vocab.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "core/hash.h"

static int reserve_ids(struct vocab *v, uint32_t n_ids)
{
    uint32_t scores_cap = v->cap;

    if (v->scores && ARRAY_GROW_ZEROED(v->scores, scores_cap, n_ids) < 0)
        return -ENOMEM;
    return ARRAY_GROW_ZEROED(v->pieces, v->cap, n_ids);
}

static int reserve_texts(struct vocab *v, size_t n)
{
    if (v->ids.cap == 0)
        v->seed = hash_seed();
    return index_reserve(&v->ids, n);
}

int vocab_reserve(struct vocab *v, uint32_t n, uint32_t n_ids)
{
    const int r = reserve_texts(v, n);

    return r < 0 ? r : reserve_ids(v, n_ids);
}

static int check_piece(const struct vocab *v, uint32_t id, size_t len, struct inf_err *reterr)
{
    /* Ids far beyond the number of pieces are refused, because otherwise a small file could make
     * the vocabulary allocate much memory. */
    if (id >= VOCAB_MAX_PIECES || (id >= v->cap && id / 16 > v->ids.n + 65536))
        return err_set(reterr, EINVAL, "token id %u is too large", id);
    if (len > VOCAB_MAX_PIECE)
        return err_set(reterr, EINVAL, "token %u is too long", id);
    return 0;
}

static bool is_text(const struct piece *p, const char *text, size_t len)
{
    return p->len == len && (len == 0 || memcmp(p->text, text, len) == 0);
}

int vocab_put_borrowed(struct vocab *v, uint32_t id, const char *text, size_t len,
                       enum piece_kind kind, struct inf_err *reterr)
{
    const struct piece *old;
    uint32_t hash, at, other;
    int r;

    r = check_piece(v, id, len, reterr);
    if (r == 0)
        r = reserve_texts(v, (size_t)v->ids.n + 1);
    if (r == 0 && id >= v->cap)
        r = reserve_ids(v, id + 1);
    if (r < 0)
        return r;
    old = &v->pieces[id];
    if (old->text && !is_text(old, text, len))
        r = map_set(&v->lost, old->text, old->len, id);
    if (r < 0)
        return r;
    hash = hash_text(v->seed, text, len);
    at = index_start(&v->ids, hash);
    while (index_match(&v->ids, hash, &at, &other) && !is_text(&v->pieces[other], text, len))
        at++;
    index_put(&v->ids, at, hash, id);
    v->pieces[id] = (struct piece){.text = text, .len = (uint32_t)len, .kind = (uint8_t)kind};
    v->n = MAX(v->n, id + 1);
    v->max_len = MAX(v->max_len, (uint32_t)len);
    return 0;
}

int vocab_put(struct vocab *v, uint32_t id, const char *text, size_t len, enum piece_kind kind,
              struct inf_err *reterr)
{
    const char *copy;
    const int r = check_piece(v, id, len, reterr);

    if (r < 0)
        return r;
    copy = arena_strndup(&v->arena, text, len);
    return copy ? vocab_put_borrowed(v, id, copy, len, kind, reterr) : -ENOMEM;
}

int vocab_set_score(struct vocab *v, uint32_t id, double score)
{
    assert(id < v->n);
    if (!v->scores && score == 0)
        return 0;
    if (!v->scores)
        v->scores = NEW(double, v->cap);
    if (!v->scores)
        return -ENOMEM;
    v->scores[id] = score;
    return 0;
}

int32_t vocab_find_hashed(const struct vocab *v, uint32_t hash, const char *text, size_t len)
{
    uint32_t at = index_start(&v->ids, hash), id;
    uint64_t lost;

    for (; index_match(&v->ids, hash, &at, &id); at++)
        if (is_text(&v->pieces[id], text, len))
            return (int32_t)id;
    return v->lost.n > 0 && map_find(&v->lost, text, len, &lost) ? (int32_t)lost : -1;
}

int32_t vocab_find(const struct vocab *v, const char *text, size_t len)
{
    return len <= v->max_len ? vocab_find_hashed(v, hash_text(v->seed, text, len), text, len) : -1;
}

void vocab_done(struct vocab *v)
{
    index_done(&v->ids);
    map_done(&v->lost);
    free(v->pieces);
    free(v->scores);
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
