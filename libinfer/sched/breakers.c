/* SPDX-License-Identifier: Apache-2.0 */
/* Compares all breakers of a request with the bytes of all tokens. */
#include "sched/breakers.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/macros.h"
#include "core/str.h"

void breakers_init(struct breakers *b, const struct inf_tokenizer *tok, uint32_t n_vocab)
{
    *b = (struct breakers){.tok = tok, .n_vocab = n_vocab};
    pthread_mutex_init(&b->lock, NULL);
}

void breakers_done(struct breakers *b)
{
    if (!b->tok)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b->bytes);
    free(b->start);
    *b = (struct breakers){0};
}

/* Collects the bytes of all tokens. The caller holds the lock. */
static int collect_bytes(struct breakers *b)
{
    _cleanup_str_ struct str bytes = {0};
    unsigned char buf[256];
    uint32_t *start;
    size_t len;

    if (b->bytes)
        return 0;
    start = NEW(uint32_t, b->n_vocab + 1u);
    for (uint32_t i = 0; start && i < b->n_vocab; i++) {
        len = inf_tokenizer_token_bytes(b->tok, (int32_t)i, buf, sizeof(buf));
        if (str_append(&bytes, (const char *)buf, MIN(len, sizeof(buf))) < 0)
            break;
        start[i + 1] = (uint32_t)bytes.len;
        if (i + 1 == b->n_vocab && str_reserve(&bytes, 1) == 0) {
            b->start = start;
            b->bytes = str_take(&bytes, &len);
            return 0;
        }
    }
    free(start);
    return -ENOMEM;
}

/* For each byte of a breaker: where the tokens of the rest of the breaker, from this byte on, are
 * in `tails`, and how many there are. */
struct rest {
    uint32_t tail[BREAKERS_MAX_BYTES], n_tail[BREAKERS_MAX_BYTES];
};

struct search {
    const struct breakers *b;
    const struct inf_breaker *list;
    size_t n;
    struct rest *rests; /* [n] */
    struct dry_head *heads;
    uint32_t n_heads;
    size_t heads_cap;
    int32_t *tails;
    uint32_t n_tails;
    size_t tails_cap;
};

/* Encodes the rest of a breaker, which begins at its byte @at. */
static int add_rest(struct search *s, size_t i, uint32_t at)
{
    const struct inf_breaker *breaker = &s->list[i];
    int32_t *ids = NULL;
    size_t n = 0;
    int r;

    r = inf_tokenizer_encode(s->b->tok, breaker->text + at, breaker->len - at, 0, 0, &ids, &n);
    if (r < 0)
        return r;
    n = MIN(n, BREAKERS_MAX_TAIL);
    r = ARRAY_GROW(s->tails, s->tails_cap, s->n_tails + n);
    if (r == 0) {
        s->rests[i].tail[at] = s->n_tails;
        s->rests[i].n_tail[at] = (uint32_t)n;
        if (n > 0)
            memcpy(s->tails + s->n_tails, ids, n * sizeof(*ids));
        s->n_tails += (uint32_t)n;
    }
    free(ids);
    return r;
}

static int add_head(struct search *s, uint32_t token, uint32_t tail, uint32_t n_tail)
{
    const int r = ARRAY_GROW(s->heads, s->heads_cap, s->n_heads + 1u);

    if (r < 0)
        return r;
    s->heads[s->n_heads++] = (struct dry_head){(int32_t)token, tail, n_tail};
    return 0;
}

/* Adds the ways in which the breaker @i begins within a token and ends after this token. */
static int add_partial(struct search *s, size_t i, uint32_t token, const char *word, size_t len)
{
    const struct inf_breaker *breaker = &s->list[i];
    size_t at = len < breaker->len ? 0 : len - breaker->len + 1;

    for (; at < len; at++) {
        const struct rest *rest = &s->rests[i];
        const size_t n = len - at;
        int r;

        if (memcmp(word + at, breaker->text, n) != 0)
            continue;
        r = add_head(s, token, rest->tail[n], rest->n_tail[n]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int search_token(struct search *s, uint32_t token)
{
    const char *word = s->b->bytes + s->b->start[token];
    const size_t len = s->b->start[token + 1] - s->b->start[token];
    bool whole = false;
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++) {
        if (memmem(word, len, s->list[i].text, s->list[i].len)) {
            r = whole ? 0 : add_head(s, token, 0, 0);
            whole = true;
        } else {
            r = add_partial(s, i, token, word, len);
        }
    }
    return r;
}

static int search_all(struct search *s)
{
    int r = 0;

    for (size_t i = 0; i < s->n; i++)
        for (uint32_t at = 1; r == 0 && at < s->list[i].len; at++)
            r = add_rest(s, i, at);
    for (uint32_t t = 0; r == 0 && t < s->b->n_vocab; t++)
        r = search_token(s, t);
    return r;
}

int breakers_find(struct breakers *b, const struct inf_breaker *list, size_t n,
                  struct dry_breakers *ret_breakers)
{
    struct search s = {.b = b, .list = list, .n = n};
    int r;

    assert(n <= BREAKERS_MAX);
    pthread_mutex_lock(&b->lock);
    r = collect_bytes(b);
    pthread_mutex_unlock(&b->lock);
    if (r < 0)
        return r;
    s.rests = NEW(struct rest, n);
    r = s.rests ? search_all(&s) : -ENOMEM;
    free(s.rests);
    if (r < 0) {
        free(s.heads);
        free(s.tails);
        return r;
    }
    *ret_breakers = (struct dry_breakers){s.heads, s.n_heads, s.tails};
    return 0;
}
