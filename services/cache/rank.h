/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The policy of a store: told of each put and use, and of how many blocks fit; what it learned
 * outlives the process in a file of its own. */

#include "cache/store-inner.h"

int rank_open(struct store *s);
/* Writes down what was learned, as well as can be. */
void rank_close(struct store *s);
/* The rank of a block that is put (@has 0) or used (@has the one it has), at count @seq; @length:
 * blocks of the chain that is put or asked for. */
uint64_t rank_of(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t index,
                 uint32_t length, uint64_t seq, uint64_t has);
/* Tells the policy of a block that is not kept and was asked for, @after blocks of its chain from
 * it on. */
void rank_missed(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t after);
/* Tells the policy how many blocks fit, if that has changed. */
void rank_resize(struct store *s);
