/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/bpe.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/hash.h"
#include "core/utf8.h"

/* Up to here looking at all pairs for each merge is faster than a heap. */
#define SHORT_WORD 24

struct bpe_symbol {
    int32_t id, prev, next;
    bool gone;
};

struct bpe_pair {
    uint32_t rank;
    int32_t pos;
    int32_t left, right, id;
};

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t slot_of(const struct bpe *b, uint64_t pair)
{
    uint64_t h = (pair ^ b->seed) * 0x9e3779b97f4a7c15u;

    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (size_t)(h >> 20) & (b->cap - 1);
}

static struct bpe_merge *probe(const struct bpe *b, uint64_t pair)
{
    for (size_t i = slot_of(b, pair);; i = (i + 1) & (b->cap - 1)) {
        struct bpe_merge *m = &b->merges[i];

        if (m->pair == pair || m->pair == UINT64_MAX)
            return m;
    }
}

static const struct bpe_merge *find(const struct bpe *b, int32_t left, int32_t right)
{
    const struct bpe_merge *m = probe(b, pair_of(left, right));

    return m->pair == UINT64_MAX ? NULL : m;
}

int bpe_init(struct bpe *b, const struct vocab *vocab, size_t n_merges)
{
    const char salt[] = "merges";
    char c;

    if (n_merges > VOCAB_MAX_PIECES)
        return -E2BIG;
    b->vocab = vocab;
    b->unknown = -1;
    b->seed = hash_seeded(salt, sizeof(salt));
    b->cap = 16;
    while (b->cap < n_merges + n_merges / 2 + 1)
        b->cap *= 2;
    b->merges = malloc(b->cap * sizeof(*b->merges));
    if (!b->merges)
        return -ENOMEM;
    for (size_t i = 0; i < b->cap; i++)
        b->merges[i].pair = UINT64_MAX;
    for (int i = 0; i < 128; i++) {
        c = (char)i;
        b->ascii[i] = vocab_find(vocab, &c, 1);
    }
    vocab_bytes(vocab, b->bytes);
    return 0;
}

void bpe_done(struct bpe *b)
{
    free(b->merges);
    vocab_done(&b->extra);
    *b = (struct bpe){0};
}

void bpe_work_done(struct bpe_work *w)
{
    free(w->symbols);
    free(w->heap);
    str_done(&w->name);
}

static int symbol_of(struct bpe *b, const char *text, size_t len, bool strict, int32_t *ret_id,
                     struct inf_err *reterr)
{
    int32_t id = vocab_find(b->vocab, text, len);
    int r;

    if (id < 0 && strict)
        return err_set(reterr, EINVAL, "merges name '%.*s', which is no token", (int)MIN(len, 60u),
                       text);
    if (id < 0) {
        id = vocab_find(&b->extra, text, len);
        if (id < 0) {
            id = (int32_t)b->extra.n;
            r = vocab_put(&b->extra, (uint32_t)id, text, len, PIECE_NORMAL, 0, reterr);
            if (r < 0)
                return r;
        }
        id += (int32_t)b->vocab->n;
    }
    *ret_id = id;
    return 0;
}

int bpe_add_merge(struct bpe *b, const char *left, size_t left_len, const char *right,
                  size_t right_len, uint32_t rank, bool strict, struct inf_err *reterr)
{
    const size_t skip = strict ? b->prefix_len : 0;
    _cleanup_str_ struct str whole = {0};
    struct bpe_merge *m;
    int32_t l, r_id, id;
    int r;

    if (right_len < skip)
        return err_set(reterr, EINVAL, "merge %u is shorter than the subword prefix", rank);
    r = str_append(&whole, left, left_len);
    if (r == 0)
        r = str_append(&whole, right + skip, right_len - skip);
    if (r == 0)
        r = symbol_of(b, left, left_len, strict, &l, reterr);
    if (r == 0)
        r = symbol_of(b, right, right_len, strict, &r_id, reterr);
    if (r == 0)
        r = symbol_of(b, whole.data, whole.len, strict, &id, reterr);
    if (r < 0)
        return r;
    m = probe(b, pair_of(l, r_id));
    if (m->pair != UINT64_MAX && !strict)
        return 0;
    if (m->pair == UINT64_MAX && ++b->n_merges >= b->cap)
        return err_set(reterr, EINVAL, "more merges than announced");
    *m = (struct bpe_merge){pair_of(l, r_id), rank, id};
    return 0;
}

static int reserve(struct bpe_work *w, size_t n)
{
    struct bpe_symbol *p;

    if (n <= w->cap)
        return 0;
    n = MAX(n, w->cap * 2);
    p = realloc(w->symbols, n * sizeof(*p));
    if (!p)
        return -ENOMEM;
    w->symbols = p;
    w->cap = n;
    return 0;
}

/* The id of a character, with prefix and suffix where it stands first or last. */
static int character_id(const struct bpe *b, struct bpe_work *w, const char *s, size_t n,
                        bool first, bool last, const char **ret_text, size_t *ret_len,
                        int32_t *ret_id)
{
    uint64_t extra;
    int r = 0;

    *ret_text = s;
    *ret_len = n;
    if ((!first && b->prefix_len) || (last && b->suffix_len)) {
        str_clear(&w->name);
        if (!first)
            r = str_append(&w->name, b->prefix, b->prefix_len);
        if (r == 0)
            r = str_append(&w->name, s, n);
        if (r == 0 && last)
            r = str_append(&w->name, b->suffix, b->suffix_len);
        if (r < 0)
            return r;
        *ret_text = w->name.data;
        *ret_len = w->name.len;
    } else if (n == 1 && b->ascii[(unsigned char)*s] >= 0) {
        *ret_id = b->ascii[(unsigned char)*s];
        return 0;
    }
    *ret_id = vocab_find(b->vocab, *ret_text, *ret_len);
    if (*ret_id < 0 && b->extra.n && map_find(&b->extra.ids, *ret_text, *ret_len, &extra))
        *ret_id = (int32_t)(b->vocab->n + extra);
    return 0;
}

/*
 * Splits a word into symbols. Characters that nothing knows: bytes, or the unknown token (runs of
 * it become one when they are fused; it is put down late, behind bytes that follow it, as the
 * reference does), or with byte_pieces symbols -1 - byte.
 */
static int split_word(const struct bpe *b, struct bpe_work *w, const char *s, size_t len,
                      size_t *ret_n)
{
    size_t n = 0, k;
    bool pending = false;

    for (size_t i = 0; i < len; i += k) {
        const char *text;
        size_t text_len;
        int32_t id;
        uint32_t cp;
        bool fallback;
        int r;

        k = utf8_decode(s + i, len - i, &cp);
        r = character_id(b, w, s + i, k, i == 0, i + k == len, &text, &text_len, &id);
        if (r == 0)
            r = reserve(w, n + text_len + 2);
        if (r < 0)
            return r;
        if (id >= 0) {
            if (pending)
                w->symbols[n++].id = b->unknown;
            pending = false;
            w->symbols[n++].id = id;
            continue;
        }
        if (b->byte_pieces) {
            for (size_t j = 0; j < text_len; j++)
                w->symbols[n++].id = -1 - (int32_t)(unsigned char)text[j];
            continue;
        }
        fallback = b->byte_fallback;
        for (size_t j = 0; fallback && j < text_len; j++)
            fallback = b->bytes[(unsigned char)text[j]] >= 0;
        for (size_t j = 0; fallback && j < text_len; j++)
            w->symbols[n++].id = b->bytes[(unsigned char)text[j]];
        if (fallback || b->unknown < 0)
            continue;
        if (pending && !b->fuse_unknown)
            w->symbols[n++].id = b->unknown;
        pending = true;
    }
    if (pending)
        w->symbols[n++].id = b->unknown;
    *ret_n = n;
    return 0;
}

/* For few symbols: again and again the best pair of neighbours. Returns how many are left. */
static size_t merge_short(const struct bpe *b, struct bpe_symbol *s, size_t n)
{
    const struct bpe_merge *m[SHORT_WORD];

    for (size_t i = 0; i + 1 < n; i++)
        m[i] = find(b, s[i].id, s[i + 1].id);
    for (;;) {
        size_t best = n;

        for (size_t i = 0; i + 1 < n; i++)
            if (m[i] && (best == n || m[i]->rank < m[best]->rank))
                best = i;
        if (best == n)
            return n;
        s[best].id = m[best]->id;
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof(*s));
        if (n > best + 1)
            memmove(m + best + 1, m + best + 2, (n - best - 2) * sizeof(*m));
        if (best > 0)
            m[best - 1] = find(b, s[best - 1].id, s[best].id);
        if (best + 1 < n)
            m[best] = find(b, s[best].id, s[best + 1].id);
    }
}

static bool before(const struct bpe_pair *a, const struct bpe_pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void heap_push(struct bpe_pair *h, size_t *n, struct bpe_pair p)
{
    size_t i = (*n)++;

    while (i > 0 && before(&p, &h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = p;
}

static struct bpe_pair heap_pop(struct bpe_pair *h, size_t *n)
{
    const struct bpe_pair top = h[0], last = h[--*n];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < *n) {
        if (child + 1 < *n && before(&h[child + 1], &h[child]))
            child++;
        if (!before(&h[child], &last))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

static void push_pair(const struct bpe *b, struct bpe_work *w, size_t *n_heap, int32_t left)
{
    const struct bpe_symbol *s = w->symbols;
    const struct bpe_merge *m;

    if (left < 0 || s[left].next < 0)
        return;
    m = find(b, s[left].id, s[s[left].next].id);
    if (m)
        heap_push(w->heap, n_heap,
                  (struct bpe_pair){m->rank, left, s[left].id, s[s[left].next].id, m->id});
}

static int merge_long(const struct bpe *b, struct bpe_work *w, size_t *n)
{
    struct bpe_symbol *s = w->symbols;
    size_t n_heap = 0, left = 0;

    /* Each merge takes one pair away and adds at most two: 3 n is enough. */
    if (w->heap_cap < *n * 3) {
        struct bpe_pair *p = realloc(w->heap, *n * 3 * sizeof(*p));

        if (!p)
            return -ENOMEM;
        w->heap = p;
        w->heap_cap = *n * 3;
    }
    for (size_t i = 0; i < *n; i++) {
        s[i].prev = (int32_t)i - 1;
        s[i].next = i + 1 < *n ? (int32_t)i + 1 : -1;
        s[i].gone = false;
    }
    for (size_t i = 0; i + 1 < *n; i++)
        push_pair(b, w, &n_heap, (int32_t)i);
    while (n_heap > 0) {
        const struct bpe_pair p = heap_pop(w->heap, &n_heap);
        struct bpe_symbol *a = &s[p.pos];
        int32_t next;

        next = a->next;
        if (a->gone || next < 0 || a->id != p.left || s[next].id != p.right)
            continue;
        a->id = p.id;
        a->next = s[next].next;
        s[next].gone = true;
        if (a->next >= 0)
            s[a->next].prev = p.pos;
        push_pair(b, w, &n_heap, a->prev);
        push_pair(b, w, &n_heap, p.pos);
    }
    for (size_t i = 0; i < *n; i++)
        if (!s[i].gone)
            s[left++].id = s[i].id;
    *n = left;
    return 0;
}

/* A text that is no piece leaves as those of its bytes that are. */
static int put_bytes(const struct bpe *b, const char *text, size_t len, struct ids *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        const int32_t id = b->byte_fallback ? b->bytes[c] : c < 128 ? b->ascii[c] : -1;

        if (id >= 0)
            r = ids_push(out, id);
    }
    return r;
}

static int put_symbol(const struct bpe *b, int32_t id, struct ids *out)
{
    const struct piece *p;
    char c;

    if (id >= 0 && (uint32_t)id < b->vocab->n)
        return ids_push(out, id);
    if (id < 0) {
        c = (char)(-1 - id);
        return put_bytes(b, &c, 1, out);
    }
    p = vocab_at(&b->extra, id - (int32_t)b->vocab->n);
    return put_bytes(b, p->text, p->len, out);
}

static bool only_newlines(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] != '\n')
            return false;
    return true;
}

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len,
               struct ids *out)
{
    size_t n;
    int r;

    if (b->ignore_merges || (b->newline_words && only_newlines(word, len))) {
        const int32_t id = vocab_find(b->vocab, word, len);

        if (id >= 0)
            return ids_push(out, id);
    }
    r = split_word(b, w, word, len, &n);
    if (r < 0)
        return r;
    if (n <= SHORT_WORD)
        n = merge_short(b, w->symbols, n);
    else
        r = merge_long(b, w, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = put_symbol(b, w->symbols[i].id, out);
    return r;
}
