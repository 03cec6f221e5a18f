/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes words with byte-pair encoding: merges by id or by text, with a heap for long words. bpe.h
 * describes both kinds of merges.
 */
#include "tokenizer/bpe.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "core/hash.h"
#include "core/utf8.h"

/* For words of up to this many symbols, comparing all pairs for each merge is faster than a
 * heap. */
#define SHORT_WORD 24

#define NO_MERGE UINT32_MAX

struct bpe_symbol {
    const char *text; /* merges by text: the text of the symbol within the word, and its hash */
    uint32_t hash;
    uint32_t len; /* in bytes; grows with each merge, so a heap entry with another length is out of
                     date */
    int32_t id;   /* merges by id: id of the symbol; -1: none */
    int32_t prev, next;
    bool gone;
};

/* The merge of two symbols that follow each other. */
struct bpe_hit {
    uint32_t rank; /* NO_MERGE: there is no such merge */
    int32_t id;    /* merges by id */
};

struct bpe_pair {
    struct bpe_hit hit;
    int32_t pos;
    uint32_t left, right; /* lengths of both symbols when the entry was made */
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

static struct bpe_merge *probe_merge(const struct bpe *b, uint64_t pair)
{
    for (size_t i = slot_of(b, pair);; i = (i + 1) & (b->cap - 1)) {
        struct bpe_merge *m = &b->merges[i];

        if (m->pair == pair || m->pair == UINT64_MAX)
            return m;
    }
}

static uint32_t hash_pair(uint64_t seed, uint32_t left, uint32_t right)
{
    return (uint32_t)(hash_fold(((uint64_t)left << 32 | right) ^ seed, 0x9e3779b97f4a7c15u) >> 16);
}

/* Returns the length of the left part of a line, or 0 if the line is invalid. */
static size_t line_left(struct gguf_str line)
{
    const char *space = line.len > 1 ? memchr(line.data + 1, ' ', line.len - 1) : NULL;

    return space ? (size_t)(space - line.data) : 0;
}

static bool is_line(struct gguf_str line, const struct bpe_symbol *left,
                    const struct bpe_symbol *right)
{
    return line.len == (uint64_t)left->len + 1 + right->len && line_left(line) == left->len &&
           memcmp(line.data, left->text, left->len) == 0 &&
           memcmp(line.data + left->len + 1, right->text, right->len) == 0;
}

static struct bpe_hit find_merge(const struct bpe *b, const struct bpe_symbol *left,
                                 const struct bpe_symbol *right)
{
    const struct bpe_merge *m;
    uint32_t hash, at, rank;

    if (!b->by_text) {
        m = probe_merge(b, pair_of(left->id, right->id));
        return (struct bpe_hit){m->pair == UINT64_MAX ? NO_MERGE : m->rank, m->id};
    }
    hash = hash_pair(b->seed, left->hash, right->hash);
    for (at = index_start(&b->line_ids, hash); index_match(&b->line_ids, hash, &at, &rank); at++)
        if (is_line(gguf_string_at(b->lines, rank), left, right))
            return (struct bpe_hit){rank, -1};
    return (struct bpe_hit){NO_MERGE, -1};
}

/* Merges both symbols into @left. */
static void join_symbols(const struct bpe *b, struct bpe_symbol *left,
                         const struct bpe_symbol *right, struct bpe_hit hit)
{
    left->len += right->len;
    left->id = hit.id;
    if (b->by_text)
        left->hash = hash_text(b->seed, left->text, left->len);
}

int bpe_init(struct bpe *b, const struct vocab *vocab, size_t n_merges)
{
    char c;

    if (n_merges > VOCAB_MAX_PIECES)
        return -E2BIG;
    b->vocab = vocab;
    b->unknown = -1;
    b->seed = vocab->seed;
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
    index_done(&b->line_ids);
    *b = (struct bpe){0};
}

void bpe_work_done(struct bpe_work *w)
{
    free(w->symbols);
    free(w->heap);
    str_done(&w->name);
}

static int piece_of(const struct bpe *b, const char *text, size_t len, int32_t *ret_id,
                    struct inf_err *reterr)
{
    const int32_t id = vocab_find(b->vocab, text, len);

    if (id < 0)
        return err_set(reterr, EINVAL, "the merges name '%.*s', which is not a token",
                       (int)MIN(len, 60u), text);
    *ret_id = id;
    return 0;
}

int bpe_add_merge(struct bpe *b, const char *left, size_t left_len, const char *right,
                  size_t right_len, uint32_t rank, struct inf_err *reterr)
{
    _cleanup_str_ struct str whole = {0};
    struct bpe_merge *m;
    int32_t l = -1, r_id = -1, id = -1;
    int r;

    if (right_len < b->prefix_len)
        return err_set(reterr, EINVAL,
                       "the right part of merge %u is shorter than the subword prefix", rank);
    r = str_append(&whole, left, left_len);
    if (r == 0)
        r = str_append(&whole, right + b->prefix_len, right_len - b->prefix_len);
    if (r == 0)
        r = piece_of(b, left, left_len, &l, reterr);
    if (r == 0)
        r = piece_of(b, right, right_len, &r_id, reterr);
    if (r == 0)
        r = piece_of(b, whole.data, whole.len, &id, reterr);
    if (r < 0)
        return r;
    m = probe_merge(b, pair_of(l, r_id));
    if (m->pair == UINT64_MAX && ++b->n_merges >= b->cap)
        return err_set(reterr, EINVAL, "there are more merges than announced");
    *m = (struct bpe_merge){pair_of(l, r_id), rank, id};
    return 0;
}

int bpe_add_lines(struct bpe *b, const struct gguf_value *lines)
{
    int r;

    b->lines = lines;
    r = index_reserve(&b->line_ids, lines->n);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < lines->n; i++) {
        const struct gguf_str line = gguf_string_at(lines, i);
        const size_t left = line_left(line);
        uint32_t hash, at, other;

        if (left == 0)
            continue;
        hash = hash_pair(b->seed, hash_text(b->seed, line.data, left),
                         hash_text(b->seed, line.data + left + 1, line.len - left - 1));
        /* Insert the line after equal lines, so that the first of them is found first. */
        at = index_start(&b->line_ids, hash);
        while (index_match(&b->line_ids, hash, &at, &other))
            at++;
        index_put(&b->line_ids, at, hash, i);
    }
    return 0;
}

/* Finds the id of a character of a word. A character that is not the first gets the prefix, and the
 * last character gets the suffix. */
static int character_id(const struct bpe *b, struct bpe_work *w, const char *s, size_t n,
                        bool first, bool last, const char **ret_text, size_t *ret_len,
                        int32_t *ret_id)
{
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
    return 0;
}

static void push_id(struct bpe_work *w, size_t *n, int32_t id, size_t len)
{
    w->symbols[(*n)++] = (struct bpe_symbol){.id = id, .len = (uint32_t)len};
}

/*
 * Splits a word into symbols for merges by id. Unknown characters become bytes or the unknown
 * token. With fuse_unknown a run of unknown characters becomes one unknown token. If characters
 * that become bytes follow, these bytes come before the unknown token, as in Hugging Face's
 * tokenizers.
 */
static int split_pieces(const struct bpe *b, struct bpe_work *w, const char *s, size_t len,
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
            r = ARRAY_GROW(w->symbols, w->cap, n + text_len + 2);
        if (r < 0)
            return r;
        if (id >= 0) {
            if (pending)
                push_id(w, &n, b->unknown, 1);
            pending = false;
            push_id(w, &n, id, text_len);
            continue;
        }
        fallback = b->byte_fallback;
        for (size_t j = 0; fallback && j < text_len; j++)
            fallback = b->bytes[(unsigned char)text[j]] >= 0;
        for (size_t j = 0; fallback && j < text_len; j++)
            push_id(w, &n, b->bytes[(unsigned char)text[j]], 1);
        if (fallback || b->unknown < 0)
            continue;
        if (pending && !b->fuse_unknown)
            push_id(w, &n, b->unknown, 1);
        pending = true;
    }
    if (pending)
        push_id(w, &n, b->unknown, 1);
    *ret_n = n;
    return 0;
}

/* Splits a word into its characters, for merges by text. */
static int split_text(const struct bpe *b, struct bpe_work *w, const char *s, size_t len,
                      size_t *ret_n)
{
    size_t n = 0, k;
    const int r = ARRAY_GROW(w->symbols, w->cap, len);

    if (r < 0)
        return r;
    for (size_t i = 0; i < len; i += k) {
        uint32_t cp;

        k = utf8_decode(s + i, len - i, &cp);
        w->symbols[n++] = (struct bpe_symbol){
            .text = s + i, .len = (uint32_t)k, .hash = hash_text(b->seed, s + i, k), .id = -1};
    }
    *ret_n = n;
    return 0;
}

/* Repeatedly merges the best pair of symbols of a short word. Returns how many symbols are left. */
static size_t merge_short(const struct bpe *b, struct bpe_symbol *s, size_t n)
{
    struct bpe_hit hits[SHORT_WORD];

    for (size_t i = 0; i + 1 < n; i++)
        hits[i] = find_merge(b, &s[i], &s[i + 1]);
    for (;;) {
        uint32_t rank = NO_MERGE;
        size_t best = n;

        for (size_t i = 0; i + 1 < n; i++)
            if (hits[i].rank < rank) {
                rank = hits[i].rank;
                best = i;
            }
        if (best == n)
            return n;
        join_symbols(b, &s[best], &s[best + 1], hits[best]);
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof(*s));
        if (n > best + 1)
            memmove(hits + best + 1, hits + best + 2, (n - best - 2) * sizeof(*hits));
        if (best > 0)
            hits[best - 1] = find_merge(b, &s[best - 1], &s[best]);
        if (best + 1 < n)
            hits[best] = find_merge(b, &s[best], &s[best + 1]);
    }
}

static bool pair_before(const struct bpe_pair *a, const struct bpe_pair *b)
{
    return a->hit.rank != b->hit.rank ? a->hit.rank < b->hit.rank : a->pos < b->pos;
}

static void heap_push(struct bpe_pair *h, size_t *n, struct bpe_pair p)
{
    size_t i = (*n)++;

    while (i > 0 && pair_before(&p, &h[(i - 1) / 2])) {
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
        if (child + 1 < *n && pair_before(&h[child + 1], &h[child]))
            child++;
        if (!pair_before(&h[child], &last))
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
    struct bpe_hit hit;
    int32_t right;

    if (left < 0 || s[left].next < 0)
        return;
    right = s[left].next;
    hit = find_merge(b, &s[left], &s[right]);
    if (hit.rank != NO_MERGE)
        heap_push(w->heap, n_heap, (struct bpe_pair){hit, left, s[left].len, s[right].len});
}

static int merge_long(const struct bpe *b, struct bpe_work *w, size_t *n)
{
    struct bpe_symbol *s = w->symbols;
    size_t n_heap = 0, left = 0;

    /* Each merge removes one pair and adds at most two, so 3 n entries are enough. */
    if (ARRAY_GROW(w->heap, w->heap_cap, *n * 3) < 0)
        return -ENOMEM;
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
        if (a->gone || next < 0 || a->len != p.left || s[next].len != p.right)
            continue;
        join_symbols(b, a, &s[next], p.hit);
        a->next = s[next].next;
        s[next].gone = true;
        if (a->next >= 0)
            s[a->next].prev = p.pos;
        push_pair(b, w, &n_heap, a->prev);
        push_pair(b, w, &n_heap, p.pos);
    }
    for (size_t i = 0; i < *n; i++)
        if (!s[i].gone)
            s[left++] = s[i];
    *n = left;
    return 0;
}

/* Emits the bytes of a text that is not a piece. Bytes that are not pieces are dropped. */
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

static int put_symbol(const struct bpe *b, const struct bpe_symbol *s, struct ids *out)
{
    int32_t id = s->id;

    if (b->by_text)
        id = vocab_find_hashed(b->vocab, s->hash, s->text, s->len);
    return id >= 0 ? ids_push(out, id) : put_bytes(b, s->text, s->len, out);
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
    r = b->by_text ? split_text(b, w, word, len, &n) : split_pieces(b, w, word, len, &n);
    if (r < 0)
        return r;
    if (n <= SHORT_WORD)
        n = merge_short(b, w->symbols, n);
    else
        r = merge_long(b, w, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = put_symbol(b, &w->symbols[i], out);
    return r;
}
