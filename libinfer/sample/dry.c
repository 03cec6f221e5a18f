/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds repetitions with the Z algorithm, from the end of the text to its beginning: repeats[k] is
 * the length of the longest run of tokens that ends k places before the last token and equals the
 * last tokens of the text.
 */
#include "sample/dry.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/macros.h"

void dry_breakers_done(struct dry_breakers *b)
{
    free(b->heads);
    free(b->tails);
    *b = (struct dry_breakers){0};
}

/* The end of a text; index 0 is its last token. */
struct tail {
    const int32_t *last;
    uint32_t n;
};

static int32_t tail_at(const struct tail *t, uint32_t i)
{
    return *(t->last - i);
}

/* Returns the first head of @token, or n_heads. */
static uint32_t find_head(const struct dry_breakers *b, int32_t token)
{
    uint32_t lo = 0, hi = b->n_heads;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;

        if (b->heads[mid].token < token)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < b->n_heads && b->heads[lo].token == token ? lo : b->n_heads;
}

static bool head_matches(const struct dry_breakers *b, const struct dry_head *h,
                         const struct tail *t, uint32_t i)
{
    if (h->n_tail > i)
        return false;
    for (uint32_t k = 0; k < h->n_tail; k++)
        if (b->tails[h->tail + k] != tail_at(t, i - k - 1))
            return false;
    return true;
}

/* Returns how many tokens the text has after its last breaker; all if there is none. */
static uint32_t dry_limit(const struct dry_breakers *b, const struct tail *t)
{
    for (uint32_t i = 0; i < t->n && b->n_heads > 0; i++) {
        const int32_t token = tail_at(t, i);
        int64_t longest = -1;

        for (uint32_t h = find_head(b, token); h < b->n_heads && b->heads[h].token == token; h++)
            if (head_matches(b, &b->heads[h], t, i))
                longest = MAX(longest, (int64_t)b->heads[h].n_tail);
        if (longest >= 0)
            return i - (uint32_t)longest;
    }
    return t->n;
}

static void count_repeats(const struct tail *t, uint32_t limit, uint32_t *repeats)
{
    uint32_t lo = 0, end = 0; /* the tokens from lo up to end equal the last tokens */

    for (uint32_t k = 1; k < t->n; k++) {
        uint32_t i = k;

        if (k < end) {
            if (repeats[k - lo] < end - k) {
                repeats[k] = repeats[k - lo];
                continue;
            }
            i = end;
        }
        while (i < t->n && tail_at(t, i) == tail_at(t, i - k))
            i++;
        repeats[k] = MIN(i - k, limit);
        if (i > k) {
            lo = k;
            end = i;
        }
    }
}

uint32_t dry_find(const struct dry *d, const int32_t *tokens, uint32_t n, uint32_t n_vocab,
                  uint32_t *repeats, uint32_t *counts)
{
    const struct tail t = {tokens + n - 1, MIN(n, d->last_n)};
    uint32_t limit;

    if (t.n <= d->allowed)
        return 0;
    limit = dry_limit(&d->breakers, &t);
    if (limit < d->allowed)
        return 0;
    count_repeats(&t, limit, repeats);
    for (uint32_t k = 1; k < t.n; k++) {
        const uint32_t token = (uint32_t)tail_at(&t, k - 1);

        if (repeats[k] >= d->allowed && token < n_vocab)
            counts[token] = MAX(counts[token], repeats[k] + 1);
    }
    return t.n;
}

/* Returns whether the token contains a whole breaker. */
static bool is_breaker(const struct dry_breakers *b, int32_t token)
{
    for (uint32_t h = find_head(b, token); h < b->n_heads && b->heads[h].token == token; h++)
        if (b->heads[h].n_tail == 0)
            return true;
    return false;
}

float dry_penalty(const struct dry *d, int32_t token, uint32_t count)
{
    const float max_log = 88.7228391f; /* log(FLT_MAX) */
    uint32_t exponent = count - 1 - d->allowed;

    if (is_breaker(&d->breakers, token))
        return 0;
    if (d->base > 1.000001f)
        exponent = MIN(exponent, (uint32_t)(max_log / logf(d->base)));
    return (float)MIN((double)d->multiplier * pow((double)d->base, (double)exponent),
                      (double)FLT_MAX);
}
