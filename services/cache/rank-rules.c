/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the ranks of blocks with one of several rules. A rank is the count of uses at which a
 * block is expected to be used again.
 *
 * A rule gives each block a life. When a block is put or used, its rank is the present count of
 * uses plus its life. A life is measured in turnovers: if N blocks fit into the store, one turnover
 * is N uses. The life is longer for a block that was used again before, shorter for a new block,
 * and longer for a block of a long chain. Each rule has a shadow: a simulated store that sees only
 * one in 2^n blocks, chosen by name. The score of the rule counts how often its shadow still has a
 * block when the block is used. Because the sample is chosen by name, it has the whole history of
 * each of its blocks. Therefore a shadow of 1/2^n of the store's size has nearly the hit ratio of
 * the store (Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015). Evicted
 * blocks are recognized by fingerprints, called ghosts as in 2Q and ARC.
 *
 * Invariant: a struct sample that is in no shadow says only that its block was seen.
 */
#include "cache/rank-rules.h"

#include <errno.h>
#include <string.h>

#define N_RULES 4
/* This number is added to all ranks, so that the rank of a block with a negative life is still
 * positive. */
#define RANK_ZERO    (INT64_C(1) << 48)
#define CAPACITY_MIN UINT64_C(64)
#define CAPACITY_MAX (UINT64_C(1) << 40)

/* Fingerprints of the blocks that were seen, also of evicted ones, in sets of GHOST_WAYS. A new
 * fingerprint replaces the oldest of its set. LRU loses blocks that return only after a long time.
 * To recognize these blocks, there are many fingerprints for each block that fits into the
 * store. */
#define GHOST_WAYS      UINT64_C(4)
#define GHOSTS_PER_SLOT UINT64_C(16)
#define GHOST_MAX       (UINT64_C(1) << 21)

/* The number of misses that are remembered. Later misses replace earlier ones. */
#define MISSES (UINT64_C(1) << 16)

/* The sample has sets of SAMPLE_WAYS blocks. A shadow holds at most SHADOW_MAX blocks of the
 * sample. */
#define SAMPLE_WAYS UINT64_C(8)
#define SAMPLE_SETS UINT64_C(1024)
#define SAMPLES     (SAMPLE_WAYS * SAMPLE_SETS)
#define SHADOW_MAX  (SAMPLES / 8)
#define NOWHERE     UINT16_MAX

/* Another rule is used only when its score is higher by the factor RULE_MARGIN, because a store
 * that often switches between rules follows none of them. A hit that is SCORE_HALVES turnovers old
 * counts half. */
#define RULE_MARGIN   1.1
#define SCORE_HALVES  16.0
#define LENGTH_WEIGHT (1.0 / 4096)
/* A chain that is longer than LENGTH_MAX times the mean length counts as LENGTH_MAX times the mean
 * length. */
#define LENGTH_MAX 4.0

struct rule {
    const char *name;
    double used, fresh; /* lives in turnovers. used: of a block that was used again before; fresh:
                           of a new block */
    double often;       /* added to the life each time the number of uses doubles */
    double length;      /* added to the life for a chain of mean length */
};

static const struct rule rules[N_RULES] = {
    {"lru", 0, 0, 0, 0},
    {"reused", 0.5, -0.3, 0.5, 0},
    {"long", 4, -6, 0, 1},
    {"mild", 1, -1, 0, 1},
};
#define RULE_FIRST 1

struct ghost {
    uint32_t print : 24; /* 0: none */
    uint32_t uses : 8;   /* uses after the first; 255: 255 or more */
    uint32_t age;        /* the lower bits of the count of uses when the block was last seen */
};

struct sample {
    uint64_t name; /* 0: none */
    uint64_t seq;
    uint32_t uses; /* uses after the first */
    int64_t ranks[N_RULES];
    uint16_t places[N_RULES]; /* index in each shadow; NOWHERE: the sample is not in this shadow */
};

/* Struct shadow holds the blocks of the sample that a rule would keep, as a heap with the lowest
 * rank first. */
struct shadow {
    uint16_t heap[SHADOW_MAX + 1];
    uint32_t n;
    double score; /* number of hits, in which older hits count less */
};

/* Struct saved is the header of the saved state; the ghosts follow it. If the byte order of the
 * machine differs, the magic number does not match. */
#define SAVED_MAGIC UINT32_C(0x53505233)
struct saved {
    uint32_t magic, rule;
    double length, scores[N_RULES];
};

/* Struct miss is a block that was requested and not found. */
struct miss {
    uint32_t print;
    uint32_t after; /* number of requested blocks of its chain, from this block on */
};

struct cache_policy {
    uint64_t capacity;
    uint32_t rule;
    double length; /* mean length of chains; a chain counts once for each of its blocks */

    struct ghost *ghosts;
    uint64_t n_ghosts;   /* a power of two */
    struct miss *misses; /* [MISSES] */

    struct sample *samples;
    uint32_t shift;  /* one block in 2^shift is in the sample */
    uint64_t n_uses; /* uses of sampled blocks since the scores were last compared */
    uint32_t shadow_size;
    struct shadow shadows[N_RULES];
};

static uint64_t policy_mix(uint64_t x)
{
    /* Names may be small numbers in tests and traces, so the finalizer of MurmurHash3 spreads
     * them. */
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

static uint64_t power_of_two(uint64_t at_least)
{
    uint64_t n = 1;

    while (n < at_least)
        n *= 2;
    return n;
}

static void sample_clear(struct sample *s, uint64_t name)
{
    *s = (struct sample){.name = name};
    memset(s->places, 0xff, sizeof(s->places));
}

static int policy_fit(struct cache_policy *p, uint64_t capacity)
{
    const uint64_t n = power_of_two(MIN(GHOSTS_PER_SLOT * capacity, GHOST_MAX));
    struct ghost *ghosts = NEW(struct ghost, n);

    if (!ghosts)
        return -ENOMEM;
    free(p->ghosts);
    p->ghosts = ghosts;
    p->n_ghosts = n;
    for (uint64_t i = 0; i < SAMPLES; i++)
        sample_clear(&p->samples[i], 0);
    for (uint32_t i = 0; i < N_RULES; i++)
        p->shadows[i].n = 0;
    p->n_uses = 0;
    p->shift = 0;
    while (capacity >> p->shift > SHADOW_MAX)
        p->shift++;
    p->shadow_size = (uint32_t)(capacity >> p->shift);
    p->capacity = capacity;
    return 0;
}

/* Restores the saved state as far as it is valid. */
static void policy_restore(struct cache_policy *p, const void *bytes, size_t size)
{
    struct saved saved;

    if (size < sizeof(saved))
        return;
    memcpy(&saved, bytes, sizeof(saved));
    if (saved.magic != SAVED_MAGIC || saved.rule >= N_RULES ||
        !(saved.length >= 1 && saved.length < 1e9))
        return;
    for (uint32_t i = 0; i < N_RULES; i++)
        if (!(saved.scores[i] >= 0 && saved.scores[i] < 1e15))
            return;
    p->rule = saved.rule;
    p->length = saved.length;
    for (uint32_t i = 0; i < N_RULES; i++)
        p->shadows[i].score = saved.scores[i];
    if (size - sizeof(saved) == p->n_ghosts * sizeof(*p->ghosts))
        memcpy(p->ghosts, (const char *)bytes + sizeof(saved), size - sizeof(saved));
}

int cache_policy_new(uint64_t capacity, const void *saved, size_t size,
                     struct cache_policy **ret_policy)
{
    _cleanup_(cache_policy_freep) struct cache_policy *p = NEW(struct cache_policy, 1);
    int r;

    if (!p)
        return -ENOMEM;
    p->samples = NEW(struct sample, SAMPLES);
    p->misses = NEW(struct miss, MISSES);
    if (!p->samples || !p->misses)
        return -ENOMEM;
    p->rule = RULE_FIRST;
    p->length = 1;
    r = policy_fit(p, MIN(MAX(capacity, CAPACITY_MIN), CAPACITY_MAX));
    if (r < 0)
        return r;
    if (saved)
        policy_restore(p, saved, size);
    *ret_policy = STEAL(p);
    return 0;
}

struct cache_policy *cache_policy_free(struct cache_policy *p)
{
    if (!p)
        return NULL;
    free(p->ghosts);
    free(p->misses);
    free(p->samples);
    free(p);
    return NULL;
}

int cache_policy_save(const struct cache_policy *p, void **ret_saved, size_t *ret_size)
{
    const size_t ghosts = p->n_ghosts * sizeof(*p->ghosts), size = sizeof(struct saved) + ghosts;
    struct saved saved = {.magic = SAVED_MAGIC, .rule = p->rule, .length = p->length};
    char *bytes = malloc(size);

    if (!bytes)
        return -ENOMEM;
    for (uint32_t i = 0; i < N_RULES; i++)
        saved.scores[i] = p->shadows[i].score;
    memcpy(bytes, &saved, sizeof(saved));
    memcpy(bytes + sizeof(saved), p->ghosts, ghosts);
    *ret_saved = bytes;
    *ret_size = size;
    return 0;
}

int cache_policy_resize(struct cache_policy *p, uint64_t capacity)
{
    capacity = MIN(MAX(capacity, CAPACITY_MIN), CAPACITY_MAX);
    if (capacity > 2 * p->capacity || 2 * capacity < p->capacity)
        return policy_fit(p, capacity);
    p->capacity = capacity;
    return 0;
}

/* Returns how often the block was seen before (255 means 255 times or more), and records that it is
 * seen now. */
static uint32_t ghost_seen(struct cache_policy *p, uint64_t hash, uint64_t seq)
{
    struct ghost *set = &p->ghosts[hash & (p->n_ghosts - 1) & ~(GHOST_WAYS - 1)];
    const uint32_t print = (uint32_t)(hash >> 40) | 1, now = (uint32_t)seq;
    struct ghost *oldest = set;

    for (uint64_t i = 0; i < GHOST_WAYS; i++) {
        if (set[i].print == print) {
            set[i].age = now;
            if (set[i].uses < UINT8_MAX)
                set[i].uses++;
            return set[i].uses;
        }
        if (set[i].print == 0 || (oldest->print && now - set[i].age > now - oldest->age))
            oldest = &set[i];
    }
    *oldest = (struct ghost){.print = print & 0xffffff, .age = now};
    return 0;
}

static struct miss *miss_of(struct cache_policy *p, uint64_t hash)
{
    return &p->misses[hash >> 20 & (MISSES - 1)];
}

void cache_policy_missed(struct cache_policy *p, uint64_t name, uint32_t after)
{
    const uint64_t hash = policy_mix(name) | 1;

    *miss_of(p, hash) = (struct miss){(uint32_t)(hash >> 32), after};
}

/* Returns the length of the chain of @use, as far as it is known. */
static uint32_t length_of(struct cache_policy *p, const struct cache_policy_use *use, uint64_t hash)
{
    const struct miss *miss = miss_of(p, hash);
    const bool missed = !use->kept && miss->print == (uint32_t)(hash >> 32);
    const uint64_t length = missed ? (uint64_t)use->index + miss->after : 0;

    return (uint32_t)MIN(MAX(length, MAX(use->length, 1u)), UINT32_MAX);
}

static int64_t rank_by(const struct cache_policy *p, const struct rule *rule,
                       const struct cache_policy_use *use, uint32_t uses)
{
    const int doubled = uses ? 31 - __builtin_clz(uses) : 0;
    double life = uses ? rule->used + rule->often * doubled : rule->fresh;

    life += rule->length * MIN(use->length / p->length, LENGTH_MAX);
    /* The lives of all blocks of a chain begin with the use of its first block. */
    return RANK_ZERO + (int64_t)use->seq - use->index + (int64_t)(life * (double)p->capacity);
}

static bool shadow_less(const struct cache_policy *p, uint32_t rule, uint32_t a, uint32_t b)
{
    const struct shadow *h = &p->shadows[rule];

    return p->samples[h->heap[a]].ranks[rule] < p->samples[h->heap[b]].ranks[rule];
}

static void shadow_swap(struct cache_policy *p, uint32_t rule, uint32_t a, uint32_t b)
{
    struct shadow *h = &p->shadows[rule];
    const uint16_t x = h->heap[a];

    h->heap[a] = h->heap[b];
    h->heap[b] = x;
    p->samples[h->heap[a]].places[rule] = (uint16_t)a;
    p->samples[h->heap[b]].places[rule] = (uint16_t)b;
}

static void shadow_settle(struct cache_policy *p, uint32_t rule, uint32_t i)
{
    const uint32_t n = p->shadows[rule].n;

    for (; i > 0 && shadow_less(p, rule, i, (i - 1) / 2); i = (i - 1) / 2)
        shadow_swap(p, rule, i, (i - 1) / 2);
    for (;;) {
        uint32_t low = i;

        for (uint32_t c = 2 * i + 1; c <= 2 * i + 2 && c < n; c++)
            if (shadow_less(p, rule, c, low))
                low = c;
        if (low == i)
            return;
        shadow_swap(p, rule, i, low);
        i = low;
    }
}

static void shadow_remove(struct cache_policy *p, uint32_t rule, uint32_t i)
{
    struct shadow *h = &p->shadows[rule];

    shadow_swap(p, rule, i, --h->n);
    p->samples[h->heap[h->n]].places[rule] = NOWHERE;
    if (i < h->n)
        shadow_settle(p, rule, i);
}

static void shadow_add(struct cache_policy *p, uint32_t rule, struct sample *s)
{
    struct shadow *h = &p->shadows[rule];

    h->heap[h->n] = (uint16_t)(s - p->samples);
    s->places[rule] = (uint16_t)h->n;
    shadow_settle(p, rule, h->n++);
    if (h->n > p->shadow_size)
        shadow_remove(p, rule, 0);
}

static void scores_age(struct cache_policy *p)
{
    uint32_t best = p->rule;

    if (++p->n_uses < p->shadow_size / 2)
        return;
    p->n_uses = 0;
    for (uint32_t i = 0; i < N_RULES; i++) {
        const double margin = best == p->rule ? RULE_MARGIN : 1;

        if (p->shadows[i].score > p->shadows[best].score * margin)
            best = i;
    }
    p->rule = best;
    for (uint32_t i = 0; i < N_RULES; i++)
        p->shadows[i].score *= 1 - 0.35 / SCORE_HALVES;
}

static struct sample *sample_of(struct cache_policy *p, uint64_t hash)
{
    struct sample *set = &p->samples[(hash >> 20 & (SAMPLE_SETS - 1)) * SAMPLE_WAYS];
    struct sample *oldest = set;

    for (uint64_t i = 0; i < SAMPLE_WAYS; i++) {
        if (set[i].name == hash) {
            set[i].uses++;
            return &set[i];
        }
        if (set[i].seq < oldest->seq)
            oldest = &set[i];
    }
    for (uint32_t i = 0; i < N_RULES; i++)
        if (oldest->places[i] != NOWHERE)
            shadow_remove(p, i, oldest->places[i]);
    sample_clear(oldest, hash);
    return oldest;
}

/* Simulates @use with all rules. */
static void policy_judge(struct cache_policy *p, const struct cache_policy_use *use, uint64_t hash)
{
    struct sample *s = sample_of(p, hash);

    s->seq = use->seq;
    for (uint32_t i = 0; i < N_RULES; i++) {
        const int64_t rank = rank_by(p, &rules[i], use, s->uses);

        if (s->places[i] == NOWHERE) {
            s->ranks[i] = rank;
            shadow_add(p, i, s);
            continue;
        }
        p->shadows[i].score += 1;
        s->ranks[i] = MAX(s->ranks[i], rank);
        shadow_settle(p, i, s->places[i]);
    }
    scores_age(p);
}

uint64_t cache_policy_rank(struct cache_policy *p, const struct cache_policy_use *told)
{
    const uint64_t hash = policy_mix(told->name) | 1;
    const uint32_t seen = ghost_seen(p, hash, told->seq), uses = told->kept ? MAX(seen, 1u) : seen;
    struct cache_policy_use use = *told;
    uint64_t rank;

    use.length = length_of(p, told, hash);
    p->length += (use.length - p->length) * LENGTH_WEIGHT;
    if ((hash >> 1 & ((UINT64_C(1) << p->shift) - 1)) == 0)
        policy_judge(p, &use, hash);
    rank = (uint64_t)MAX(rank_by(p, &rules[p->rule], &use, uses), 1);
    return use.kept ? MAX(use.rank, rank) : rank;
}

const char *cache_policy_rule_name(const struct cache_policy *p)
{
    return rules[p->rule].name;
}
