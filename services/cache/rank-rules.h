/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which blocks are worth keeping
 *
 * Each block that is kept has a rank, and the leaf (a block that no kept block continues) of the
 * lowest rank goes first. A rank is made anew whenever its block is put or used, and not else: it
 * is the count of uses until which the block is expected back, so that the count going on is all
 * the aging there is. No clock is looked at.
 *
 * How long a block is expected back depends on how often it came back, and on how long its chain is
 * beside others. How much that matters differs between workloads and sizes, so a few rules
 * compete: each has a small imaginary store that holds a sample of the blocks, and the rule whose
 * store has had the most hits makes the ranks. Plain LRU is one of them.
 *
 * No I/O and no time; the same calls give the same ranks. Memory: 1 MiB, and 128 bytes for each
 * block of capacity to recognize those that were evicted, 16 MiB at most. One thread calls.
 */

#include <infer/types.h>

#include "core/macros.h"

struct cache_policy;

/* One block that is put, or used (found, or used without being read). */
struct cache_policy_use {
    uint64_t seq;    /* the store's count of uses and puts; never less than in the call before */
    uint64_t rank;   /* what it had; not looked at unless it is kept */
    uint64_t name;   /* any 8 bytes of its name */
    uint32_t index;  /* in its chain, from 0 */
    uint32_t length; /* blocks of the chain that is put or asked for, as far as is known */
    bool kept;       /* it has a row; else it is put */
};

/* @capacity: blocks that fit, about; see cache_policy_resize(). @saved [size]: what
 * cache_policy_save() gave, or NULL; bytes that cannot be that are as NULL. -ENOMEM. */
int cache_policy_new(uint64_t capacity, const void *saved, size_t size,
                     struct cache_policy **ret_policy);
struct cache_policy *cache_policy_free(struct cache_policy *p);
DEFINE_CLEANUP(struct cache_policy *, cache_policy_free)
/* What was learned, to outlive the process: *ret_saved [*ret_size] is the caller's to free. Without
 * it a policy learns again; ranks stay what they are. -ENOMEM. */
int cache_policy_save(const struct cache_policy *p, void **ret_saved, size_t *ret_size);

/* How many blocks fit now. To be called when it may have changed by a tenth; what was learned is
 * forgotten only when it changes by more than half. -ENOMEM: it is as before. */
int cache_policy_resize(struct cache_policy *p, uint64_t capacity);

/* A block that is not kept was asked for, and of its chain @after blocks from it on: when it is
 * put, that is known to be the length of its chain, of which it may be put alone. */
void cache_policy_missed(struct cache_policy *p, uint64_t name, uint32_t after);

/* The rank that the block has from now on; below 2^63, and not below the one it had. Blocks of a
 * chain are told from its first to its last. */
uint64_t cache_policy_rank(struct cache_policy *p, const struct cache_policy_use *use);

/* Whether a block of @rank is worth writing to a full store, whose lowest leaf has @lowest: not if
 * it would be the next to go. */
static inline bool cache_policy_admits(uint64_t rank, uint64_t lowest)
{
    return rank >= lowest;
}

/* For listings: "lru", … */
const char *cache_policy_rule_name(const struct cache_policy *p);
