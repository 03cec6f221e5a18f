/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Connects the cache policy (rank-rules.h) with a store.
 *
 * The functions notify the policy of each put and use, and of how many blocks fit. They save what
 * the policy learned in a separate file.
 */

#include "cache/store-inner.h"

int rank_open(struct store *s);
/* Saves what the policy learned, and frees the policy. Errors are ignored. */
void rank_close(struct store *s);
/* Returns the new rank of a block that is put or used. @has is its present rank, or 0 if the block
 * is put. @seq is the store's count of uses and puts. @length is the number of blocks of the chain
 * that is put or requested. */
uint64_t rank_of(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t index,
                 uint32_t length, uint64_t seq, uint64_t has);
/* Notifies the policy that the block @name was requested and is not stored. @after is the number of
 * requested blocks of its chain, from this block on. */
void rank_missed(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t after);
/* Notifies the policy of how many blocks fit, if the number has changed by a tenth. */
void rank_resize(struct store *s);
