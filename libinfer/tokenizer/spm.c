/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes with SentencePiece's BPE by scores. unigram.c has SentencePiece's other model.
 */
#include "tokenizer/spm.h"

#include <errno.h>
#include <float.h>
#include <string.h>

#include "core/array.h"
#include "core/utf8.h"

#define UNKNOWN_PENALTY 10.0

struct spm_symbol {
    const char *text;
    size_t len; /* 0: the symbol was merged into another */
    int32_t prev, next;
    bool frozen;
};

struct spm_pair {
    float score;
    int32_t left, right;
    size_t len;
};

int spm_init(struct spm *m, const struct vocab *vocab, bool unigram, bool any_kind)
{
    double lowest = DBL_MAX, highest = -DBL_MAX;
    int r = 0;

    m->vocab = vocab;
    for (uint32_t i = 0; r >= 0 && i < vocab->n; i++) {
        const struct piece *p = &vocab->pieces[i];
        const bool normal = p->kind == PIECE_NORMAL || any_kind;

        if (!p->text || p->len == 0)
            continue;
        if (normal) {
            lowest = MIN(lowest, vocab_score(vocab, (int32_t)i));
            highest = MAX(highest, vocab_score(vocab, (int32_t)i));
        }
        if (!normal && p->kind != PIECE_USER && p->kind != PIECE_UNUSED)
            continue;
        m->max_len = MAX(m->max_len, p->len);
        m->has_unused = m->has_unused || (p->kind == PIECE_UNUSED && !any_kind);
        if (p->kind == PIECE_USER && !any_kind && utf8_valid(p->text, p->len))
            r = trie_add(&m->user, p->text, p->len, (int32_t)i);
        if (r >= 0)
            r = unigram ? trie_add(&m->all, p->text, p->len, (int32_t)i)
                        : map_set(&m->pieces, p->text, p->len, i);
    }
    trie_seal(&m->user);
    trie_seal(&m->all);
    m->max_score = highest;
    m->unknown_score = lowest - UNKNOWN_PENALTY;
    vocab_bytes(vocab, m->bytes);
    return r < 0 ? r : 0;
}

void spm_done(struct spm *m)
{
    map_done(&m->pieces);
    trie_done(&m->user);
    trie_done(&m->all);
    *m = (struct spm){0};
}

void spm_work_done(struct spm_work *w)
{
    free(w->symbols);
    free(w->heap);
    free(w->nodes);
    map_done(&w->split);
}

static int put_bytes(const struct spm *m, const char *s, size_t len, struct ids *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++)
        r = ids_push(out, m->bytes[(unsigned char)s[i]]);
    return r;
}

static bool has_bytes(const struct spm *m, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (m->bytes[(unsigned char)s[i]] < 0)
            return false;
    return m->byte_fallback;
}

static bool pair_before(const struct spm_pair *a, const struct spm_pair *b)
{
    return a->score != b->score ? a->score > b->score : a->left < b->left;
}

static int heap_push(struct spm_work *w, struct spm_pair p)
{
    size_t i;

    if (ARRAY_GROW(w->heap, w->heap_cap, w->n_heap + 1) < 0)
        return -ENOMEM;
    for (i = w->n_heap++; i > 0 && pair_before(&p, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = p;
    return 0;
}

static struct spm_pair heap_pop(struct spm_work *w)
{
    struct spm_pair *h = w->heap;
    const struct spm_pair top = h[0], last = h[--w->n_heap];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < w->n_heap) {
        if (child + 1 < w->n_heap && pair_before(&h[child + 1], &h[child]))
            child++;
        if (!pair_before(&h[child], &last))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

static int try_pair(const struct spm *m, struct spm_work *w, int32_t left, int32_t right)
{
    const struct spm_symbol *s = w->symbols;
    uint64_t id;
    size_t len;
    int r;

    if (left < 0 || right < 0 || s[left].frozen || s[right].frozen)
        return 0;
    len = s[left].len + s[right].len;
    if (len > m->max_len || !map_find(&m->pieces, s[left].text, len, &id))
        return 0;
    if (m->has_unused && m->vocab->pieces[id].kind == PIECE_UNUSED) {
        r = map_set(&w->split, s[left].text, len, s[left].len);
        if (r < 0)
            return r;
    }
    return heap_push(
        w, (struct spm_pair){(float)vocab_score(m->vocab, (int32_t)id), left, right, len});
}

static int split_text(const struct spm *m, struct spm_work *w, const char *text, size_t len,
                      size_t *ret_n)
{
    size_t n = 0, k;

    for (size_t i = 0; i < len; i += k) {
        int32_t id;
        uint32_t cp;

        k = 0;
        if (m->user.n && trie_any(&m->user, (unsigned char)text[i]))
            k = trie_longest(&m->user, text + i, len - i, &id);
        if (ARRAY_GROW(w->symbols, w->cap, n + 1) < 0)
            return -ENOMEM;
        w->symbols[n].frozen = k > 0;
        if (k == 0)
            k = utf8_decode(text + i, len - i, &cp);
        w->symbols[n].text = text + i;
        w->symbols[n].len = k;
        w->symbols[n].prev = (int32_t)n - 1;
        w->symbols[n].next = i + k < len ? (int32_t)n + 1 : -1;
        n++;
    }
    *ret_n = n;
    return 0;
}

/* Emits a piece; an unused piece is emitted as the parts that it was merged from. */
static int put_piece(const struct spm *m, struct spm_work *w, const char *s, size_t len,
                     struct ids *out)
{
    uint64_t id, left;
    int r;

    if (map_find(&m->pieces, s, len, &id)) {
        if (m->vocab->pieces[id].kind != PIECE_UNUSED || !map_find(&w->split, s, len, &left) ||
            left == 0 || left >= len)
            return ids_push(out, (int32_t)id);
        r = put_piece(m, w, s, left, out);
        return r < 0 ? r : put_piece(m, w, s + left, len - left, out);
    }
    if (has_bytes(m, s, len))
        return put_bytes(m, s, len, out);
    /* A run of unknown characters is one unknown token. */
    if (m->unknown < 0 || (out->n && out->v[out->n - 1] == m->unknown))
        return 0;
    return ids_push(out, m->unknown);
}

int spm_encode(const struct spm *m, struct spm_work *w, const char *text, size_t len,
               struct ids *out)
{
    struct spm_symbol *s;
    size_t n;
    int r;

    r = split_text(m, w, text, len, &n);
    if (r < 0 || n == 0)
        return r;
    if (n > INT32_MAX / 2)
        return -E2BIG;
    w->n_heap = 0;
    map_done(&w->split);
    for (size_t i = 1; r == 0 && i < n; i++)
        r = try_pair(m, w, (int32_t)i - 1, (int32_t)i);
    s = w->symbols;
    while (r == 0 && w->n_heap > 0) {
        const struct spm_pair p = heap_pop(w);
        struct spm_symbol *a = &s[p.left], *b = &s[p.right];

        if (a->len == 0 || b->len == 0 || a->len + b->len != p.len)
            continue;
        a->len += b->len;
        b->len = 0;
        a->next = b->next;
        if (b->next >= 0)
            s[b->next].prev = p.left;
        r = try_pair(m, w, a->prev, p.left);
        if (r == 0)
            r = try_pair(m, w, p.left, a->next);
    }
    for (int32_t i = 0; r == 0 && i >= 0; i = s[i].next)
        r = put_piece(m, w, s[i].text, s[i].len, out);
    return r;
}
