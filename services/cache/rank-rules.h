/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cache policy: which blocks are worth keeping
 *
 * Each block has a rank, and the leaf (a block that no stored block continues) with the lowest rank
 * is evicted first. The rank is computed when the block is put or used, and at no other time. It is
 * the count of uses at which the block is expected to be used again; the growing count is therefore
 * all the aging that is needed. The policy reads no clock.
 *
 * When a block is expected depends on how often it was used again, and on the length of its chain
 * relative to others. The weight of both differs between workloads and sizes, so several rules
 * compete. Each rule has a small simulated store with a sample of the blocks. The rule whose store
 * had the most hits recently gives the ranks. Plain LRU is one of the rules.
 *
 * The policy does no I/O; the same calls give the same ranks. Memory: 1 MiB, and 128 bytes per
 * block of capacity for recognizing evicted blocks, 16 MiB at most. One thread calls all functions.
 */

#include <infer/types.h>

#include "core/macros.h"

struct cache_policy;

/* A block that is put or used (found, or used without being read). */
struct cache_policy_use {
    uint64_t seq;    /* the store's count of uses and puts; never decreases */
    uint64_t rank;   /* its present rank; ignored unless @kept */
    uint64_t name;   /* any 8 bytes of the block's name */
    uint32_t index;  /* position in its chain, from 0 */
    uint32_t length; /* known length of the chain that is put or requested, in blocks */
    bool kept;       /* true: it has a row; false: it is being put */
};

/* @capacity: about how many blocks fit; see cache_policy_resize(). @saved [size]: the result of
 * cache_policy_save(), or NULL; invalid bytes count as NULL. -ENOMEM. */
int cache_policy_new(uint64_t capacity, const void *saved, size_t size,
                     struct cache_policy **ret_policy);
struct cache_policy *cache_policy_free(struct cache_policy *p);
DEFINE_CLEANUP(struct cache_policy *, cache_policy_free)
/* Saves what the policy learned, so that the next process can use it. The caller frees *ret_saved
 * [*ret_size]. Without it a new policy learns again; existing ranks stay valid. -ENOMEM. */
int cache_policy_save(const struct cache_policy *p, void **ret_saved, size_t *ret_size);

/* Sets how many blocks fit. Call it when the number may have changed by a tenth. The rule
 * forgets its statistics only when the number changes by more than half. -ENOMEM: nothing
 * changed. */
int cache_policy_resize(struct cache_policy *p, uint64_t capacity);

/* Records that a block was requested that is not stored, with @after blocks of its chain from it
 * on. When the block is put later, possibly alone, this is the known length of its chain. */
void cache_policy_missed(struct cache_policy *p, uint64_t name, uint32_t after);

/* Returns the new rank of the block: below 2^63, and not below the old one. Call it for the blocks
 * of a chain from the first to the last. */
uint64_t cache_policy_rank(struct cache_policy *p, const struct cache_policy_use *use);

/* Whether a block of @rank is worth writing to a full store whose lowest leaf has the rank @lowest.
 * It is not if it would be evicted next. */
static inline bool cache_policy_admits(uint64_t rank, uint64_t lowest)
{
    return rank >= lowest;
}

/* Name of the rule in use ("lru", …), for listings. */
const char *cache_policy_rule_name(const struct cache_policy *p);
