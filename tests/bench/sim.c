/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulates a cache, with a heap of the leaves (blocks that no cached block continues), ordered by
 * rank. When a block is put into a full cache, the leaf with the lowest rank is evicted. A block
 * that would be evicted immediately is not put, and neither are the blocks after it.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

#include "cache/rank-rules.h"

#define NOWHERE UINT32_MAX

const char *const sim_names[SIM_CONTENDERS] = {"lru", "sconce", "lfu", "gdsf", "optimal"};

struct block {
    uint64_t rank;
    uint32_t children; /* number of cached blocks after this one */
    uint32_t place;    /* in the heap; NOWHERE: not a leaf, or not cached */
    uint32_t hits;
    bool kept;
};

struct sim {
    const struct trace *t;
    enum contender_id who;
    uint32_t capacity, n_kept;
    struct block *blocks;
    uint32_t *heap, n_heap;
    struct cache_policy *policy;
    uint64_t *next;   /* [n_chain], optimal: the next request that has the block */
    uint64_t seq;     /* uses and puts */
    uint64_t evicted; /* gdsf: the highest rank that was evicted */
};

static bool heap_less(const struct sim *s, uint32_t a, uint32_t b)
{
    return s->blocks[s->heap[a]].rank < s->blocks[s->heap[b]].rank;
}

static void heap_swap(struct sim *s, uint32_t a, uint32_t b)
{
    const uint32_t x = s->heap[a];

    s->heap[a] = s->heap[b];
    s->heap[b] = x;
    s->blocks[s->heap[a]].place = a;
    s->blocks[s->heap[b]].place = b;
}

static void heap_settle(struct sim *s, uint32_t i)
{
    while (i > 0 && heap_less(s, i, (i - 1) / 2)) {
        heap_swap(s, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
    for (;;) {
        uint32_t low = i;

        for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < s->n_heap; c++)
            if (heap_less(s, c, low))
                low = c;
        if (low == i)
            return;
        heap_swap(s, i, low);
        i = low;
    }
}

static void heap_add(struct sim *s, uint32_t block)
{
    s->heap[s->n_heap] = block;
    s->blocks[block].place = s->n_heap;
    heap_settle(s, s->n_heap++);
}

static void heap_remove(struct sim *s, uint32_t block)
{
    const uint32_t i = s->blocks[block].place;

    heap_swap(s, i, --s->n_heap);
    s->blocks[block].place = NOWHERE;
    if (i < s->n_heap)
        heap_settle(s, i);
}

static void evict(struct sim *s)
{
    const uint32_t block = s->heap[0], parent = s->t->parents[block];

    s->evicted = MAX(s->evicted, s->blocks[block].rank);
    heap_remove(s, block);
    s->blocks[block].kept = false;
    s->n_kept--;
    if (parent != TRACE_NO_BLOCK && --s->blocks[parent].children == 0)
        heap_add(s, parent);
}

/* A position in a request. */
struct at {
    uint64_t request;
    uint64_t chain; /* index in trace.chain of the request's first block */
    uint32_t index, n;
};

static uint64_t rank_of(struct sim *s, uint32_t block, const struct at *at)
{
    const struct block *b = &s->blocks[block];
    const struct cache_policy_use use = {
        .seq = ++s->seq,
        .rank = b->rank,
        .name = block,
        .index = at->index,
        .length = at->n,
        .kept = b->kept,
    };

    switch (s->who) {
    case SIM_OURS:
        return cache_policy_rank(s->policy, &use);
    case SIM_LFU:
        return ((uint64_t)b->hits << 40) + at->request;
    case SIM_GDSF:
        /* All blocks have the same size and cost. The older of two equal blocks is evicted. */
        return ((s->evicted >> 32) << 32) + (((uint64_t)b->hits + 1) << 32) + at->request;
    case SIM_OPTIMAL:
        return UINT64_MAX - s->next[at->chain + at->index];
    default:
        return at->request;
    }
}

/* Puts a block. Returns false if it is not cached, so the blocks after it cannot be cached
 * either. */
static bool put(struct sim *s, uint32_t block, uint64_t rank)
{
    const uint32_t parent = s->t->parents[block];
    struct block *b = &s->blocks[block];

    if (s->n_kept == s->capacity) {
        if (!cache_policy_admits(rank, s->blocks[s->heap[0]].rank))
            return false;
        evict(s);
        if (parent != TRACE_NO_BLOCK && !s->blocks[parent].kept)
            return false;
    }
    b->kept = true;
    b->rank = rank;
    s->n_kept++;
    if (parent != TRACE_NO_BLOCK && s->blocks[parent].children++ == 0)
        heap_remove(s, parent);
    heap_add(s, block);
    return true;
}

static uint32_t request(struct sim *s, uint64_t number, struct sim_result *result)
{
    const struct trace_request *q = &s->t->requests[number];
    struct at at = {.request = number, .chain = q->first, .n = q->n};
    uint32_t hits = 0;
    bool whole = true;

    for (; at.index < q->n; at.index++) {
        const uint32_t block = s->t->chain[q->first + at.index];
        struct block *b = &s->blocks[block];
        const uint64_t rank = rank_of(s, block, &at);

        b->hits++;
        if (b->kept) {
            hits++;
            b->rank = rank;
            if (b->place != NOWHERE)
                heap_settle(s, b->place);
            continue;
        }
        whole = whole && put(s, block, rank);
        result->put += whole;
        /* A block that is not cached loses its count, as usual in LFU. */
        if (!whole)
            b->hits = 0;
    }
    return hits;
}

/* Computes for each use of a block the next request that has it. */
static int look_ahead(struct sim *s)
{
    _cleanup_free_ uint64_t *seen = NEW(uint64_t, s->t->n_blocks);

    s->next = NEW(uint64_t, s->t->n_chain);
    if (!seen || !s->next)
        return -ENOMEM;
    memset(seen, 0xff, s->t->n_blocks * sizeof(*seen));
    for (uint64_t i = s->t->n_requests; i-- > 0;) {
        const struct trace_request *q = &s->t->requests[i];

        for (uint32_t k = 0; k < q->n; k++) {
            const uint32_t block = s->t->chain[q->first + k];

            s->next[q->first + k] = seen[block];
            seen[block] = i;
        }
    }
    return 0;
}

static int sim_init(struct sim *s)
{
    int r;

    s->blocks = NEW(struct block, s->t->n_blocks);
    s->heap = NEW(uint32_t, s->t->n_blocks);
    if (!s->blocks || !s->heap)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->t->n_blocks; i++)
        s->blocks[i].place = NOWHERE;
    r = s->who == SIM_OPTIMAL ? look_ahead(s) : 0;
    return r < 0 || s->who != SIM_OURS ? r : cache_policy_new(s->capacity, NULL, 0, &s->policy);
}

int sim_run(const struct trace *t, enum contender_id who, uint32_t capacity,
            struct sim_result *ret_result)
{
    struct sim s = {.t = t, .who = who, .capacity = MAX(capacity, 1u)};
    struct sim_result result = {.rule = ""};
    int r = sim_init(&s);

    for (uint64_t i = 0; i < t->n_requests && r == 0; i++) {
        const uint32_t hits = request(&s, i, &result);

        sim_count(&result, i >= t->n_requests / 2, t->requests[i].n, hits);
    }
    if (s.policy)
        result.rule = cache_policy_rule_name(s.policy);
    cache_policy_free(s.policy);
    free(s.blocks);
    free(s.heap);
    free(s.next);
    if (r == 0)
        *ret_result = result;
    return r;
}
