/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cache policy (rank-rules.h) of a store
 *
 * The policy is notified of each put and use, and of how many blocks fit. Its
 * statistics are saved in a file of their own.
 */

#include "cache/store-inner.h"

int rank_open(struct store *s);
/* Saves what was learned; errors are ignored. */
void rank_close(struct store *s);
/* Returns the rank of a block that is put (@has is 0) or used (@has is its old rank) at count @seq.
 * @length: number of blocks of the chain that is put or requested. */
uint64_t rank_of(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t index,
                 uint32_t length, uint64_t seq, uint64_t has);
/* Notifies the policy that a block was requested that is not stored, with @after blocks of its
 * chain from it on. */
void rank_missed(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t after);
/* Notifies the policy of how many blocks fit, if that has changed. */
void rank_resize(struct store *s);
