/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the DRY penalty with a search that looks at every place of the text, and with penalties
 * that were computed by hand. */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "sample/dry.h"

#define N_VOCAB 6
#define MAX_N   60

/* Returns how many tokens follow the last breaker, a sequence of tokens that ends repetitions. */
static uint32_t slow_limit(const struct dry_breakers *b, const int32_t *tokens, uint32_t n)
{
    for (uint32_t end = n; end > 0; end--) {
        uint32_t longest = 0;

        for (uint32_t h = 0; h < b->n_heads; h++) {
            const struct dry_head *head = &b->heads[h];
            bool same = head->token == tokens[end - 1] && head->n_tail <= n - end;

            for (uint32_t k = 0; same && k < head->n_tail; k++)
                same = tokens[end + k] == b->tails[head->tail + k];
            if (same)
                longest = MAX(longest, head->n_tail + 1);
        }
        if (longest > 0)
            return n - (end - 1) - longest;
    }
    return n;
}

/* Sets counts[t] to 1 plus the longest repetition that the token would continue. */
static void slow_find(const struct dry *d, const int32_t *tokens, uint32_t n, uint32_t *counts)
{
    const uint32_t first = n > d->last_n ? n - d->last_n : 0;
    const uint32_t limit = slow_limit(&d->breakers, tokens + first, n - first);

    memset(counts, 0, N_VOCAB * sizeof(*counts));
    if (n - first <= d->allowed || limit < d->allowed)
        return;
    for (uint32_t at = first + 1; at < n; at++) {
        uint32_t len = 0;

        while (at - len > first && tokens[at - len - 1] == tokens[n - len - 1])
            len++;
        len = MIN(len, limit);
        if (len >= d->allowed)
            counts[tokens[at]] = MAX(counts[tokens[at]], len + 1);
    }
}

static void random_breakers(struct rng *rng, struct dry_head *heads, int32_t *tails,
                            struct dry_breakers *ret_breakers)
{
    const uint32_t n = rng_u32(rng) % 4;
    uint32_t n_tails = 0;

    for (uint32_t i = 0; i < n; i++) {
        heads[i] = (struct dry_head){(int32_t)(i / 2), n_tails, rng_u32(rng) % 3};
        for (uint32_t k = 0; k < heads[i].n_tail; k++)
            tails[n_tails++] = (int32_t)(rng_u32(rng) % 3);
    }
    *ret_breakers = (struct dry_breakers){heads, n, tails};
}

TEST(repetitions_are_those_of_the_slow_search)
{
    struct rng rng;

    rng_seed(&rng, 3);
    for (unsigned round = 0; round < 20000; round++) {
        uint32_t counts[N_VOCAB] = {0}, slow[N_VOCAB], repeats[MAX_N];
        const uint32_t n = 1 + rng_u32(&rng) % MAX_N, n_kinds = 1 + rng_u32(&rng) % N_VOCAB;
        struct dry d = {.multiplier = 1, .base = 2, .allowed = rng_u32(&rng) % 5};
        struct dry_head heads[4];
        int32_t tokens[MAX_N], tails[12];

        for (uint32_t i = 0; i < n; i++)
            tokens[i] =
                i > 10 && rng_u32(&rng) % 8 ? tokens[i - 7] : (int32_t)(rng_u32(&rng) % n_kinds);
        d.last_n = rng_u32(&rng) % 2 ? UINT32_MAX : 1 + rng_u32(&rng) % MAX_N;
        random_breakers(&rng, heads, tails, &d.breakers);
        slow_find(&d, tokens, n, slow);
        dry_find(&d, tokens, n, N_VOCAB, repeats, counts);
        assert_memory_equal(counts, slow, sizeof(counts));
    }
}

static void check_penalty(const struct dry *d, const int32_t *tokens, uint32_t n, int32_t token,
                          double penalty)
{
    uint32_t counts[N_VOCAB] = {0}, repeats[MAX_N];
    float got = 0;

    dry_find(d, tokens, n, N_VOCAB, repeats, counts);
    if (counts[token] > 0)
        got = dry_penalty(d, token, counts[token]);
    assert_true(fabs((double)got - penalty) < 1e-4);
}

TEST(penalties_grow_with_the_repetition)
{
    static const int32_t text[] = {1, 2, 3, 4, 5, 1, 2, 3};
    struct dry_head heads[] = {{2, 0, 0}};
    int32_t tails[] = {4};
    struct dry d = {.multiplier = 0.8f, .base = 1.75f, .allowed = 2, .last_n = UINT32_MAX};

    check_penalty(&d, text, 8, 4, 0.8 * 1.75); /* 3 repeated tokens, one more than allowed */
    check_penalty(&d, text, 7, 3, 0.8);
    check_penalty(&d, text, 6, 2, 0); /* 1 repeated token */
    check_penalty(&d, text, 8, 5, 0);
    d.last_n = 7; /* the repetition has two tokens in this window */
    check_penalty(&d, text, 8, 4, 0.8);
    d.last_n = UINT32_MAX;
    d.breakers = (struct dry_breakers){heads, 1, tails};
    check_penalty(&d, text, 8, 4, 0); /* only one token follows the breaker */
    heads[0].token = 4;
    check_penalty(&d, text, 8, 4, 0); /* the token is a breaker itself */
    heads[0].n_tail = 1;
    check_penalty(&d, text, 8, 4, 0.8 * 1.75); /* 4 is followed by something else */
    tails[0] = 5;
    check_penalty(&d, text, 8, 4, 0.8 * 1.75);
    heads[0].token = 2;
    tails[0] = 3;
    check_penalty(&d, text, 8, 4, 0); /* no token follows the breaker of two tokens */
}

TEST(penalties_stay_finite)
{
    static int32_t text[3000];
    static uint32_t repeats[3000];
    uint32_t counts[N_VOCAB] = {0};
    const struct dry d = {.multiplier = 1, .base = 4, .allowed = 1, .last_n = UINT32_MAX};

    assert_int_equal(dry_find(&d, text, 3000, N_VOCAB, repeats, counts), 3000);
    assert_int_equal(counts[0], 3000);
    assert_true(isfinite(dry_penalty(&d, 0, counts[0])));
}

RUN_TESTS(cmocka_unit_test(repetitions_are_those_of_the_slow_search),
          cmocka_unit_test(penalties_grow_with_the_repetition),
          cmocka_unit_test(penalties_stay_finite))
