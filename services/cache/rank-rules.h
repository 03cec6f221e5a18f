/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Implements the cache policy, which decides which blocks are worth keeping.
 *
 * Each block has a rank, and the leaf (a block that no stored block continues) with the lowest rank
 * is evicted first. The rank is computed when the block is put or used, and at no other time. The
 * rank is the count of uses at which the block is expected to be used again. The count grows with
 * each use, so unused blocks fall behind without any other aging, and the policy reads no clock.
 *
 * The expected time depends on how often the block was used again. It also depends on the length of
 * its chain (the consecutive blocks of one text) relative to other chains. The importance of these
 * two factors differs between workloads and between sizes of the store, so several rules compete.
 * Each rule has a small simulated store with a sample of the blocks. The rule whose simulated store
 * had the most hits recently gives the ranks. Plain LRU is one of the rules.
 *
 * The policy does no I/O, and the same calls always give the same ranks. It takes 1 MiB of memory.
 * To recognize evicted blocks, it takes another 128 to 256 bytes per block of capacity, but at most
 * 16 MiB. One thread calls all functions.
 */

#include <infer/types.h>

#include "core/macros.h"

struct cache_policy;

/* Struct cache_policy_use is one put or use of a block. A use is a lookup that finds the block, or
 * a report that an engine used its own copy. */
struct cache_policy_use {
    uint64_t seq;    /* the store's count of uses and puts, which never decreases */
    uint64_t rank;   /* the current rank of the block; used only if `kept` is set */
    uint64_t name;   /* any 8 bytes of the block's name */
    uint32_t index;  /* position of the block in its chain, from 0 */
    uint32_t length; /* known length of the chain that is put or requested, in blocks */
    bool kept;       /* true: the block is stored; false: the block is being put */
};

/* Makes a policy. @capacity: about how many blocks fit into the store; see cache_policy_resize().
 * @saved [@size]: the result of cache_policy_save(), or NULL; invalid parts are ignored.
 * -ENOMEM. */
int cache_policy_new(uint64_t capacity, const void *saved, size_t size,
                     struct cache_policy **ret_policy);
struct cache_policy *cache_policy_free(struct cache_policy *p);
DEFINE_CLEANUP(struct cache_policy *, cache_policy_free)
/* Saves what the policy learned, so that the next process can use it. The caller frees *ret_saved
 * [*ret_size]. A policy without saved state learns again; the ranks of blocks stay valid.
 * -ENOMEM. */
int cache_policy_save(const struct cache_policy *p, void **ret_saved, size_t *ret_size);

/* Sets how many blocks fit. Called when the number has changed by about a tenth. The policy forgets
 * the sample and the fingerprints only if the number more than doubles or falls below half.
 * -ENOMEM: nothing has changed. */
int cache_policy_resize(struct cache_policy *p, uint64_t capacity);

/* Records that the block @name was requested and is not stored. @after is the number of requested
 * blocks of its chain, from this block on. If the block is put later, possibly alone, the length of
 * its chain is known from this call. */
void cache_policy_missed(struct cache_policy *p, uint64_t name, uint32_t after);

/* Returns the new rank of the block, which is below 2^63 and not below the old rank. Must be called
 * for the blocks of a chain from the first to the last. */
uint64_t cache_policy_rank(struct cache_policy *p, const struct cache_policy_use *use);

/* Returns whether a block of @rank is worth writing to a full store whose lowest leaf has the rank
 * @lowest. A block is not worth writing if it would be the next to be evicted. */
static inline bool cache_policy_admits(uint64_t rank, uint64_t lowest)
{
    return rank >= lowest;
}

/* Returns the name of the rule in use ("lru", …), for listings. */
const char *cache_policy_rule_name(const struct cache_policy *p);
