/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Provides a device whose blocks are arrays of token numbers, and a pool on it. */

#include "kv/pool.h"

enum { BLOCK = 4, N_BLOCKS = 24 };

struct kv_store {
    uint32_t cells[N_BLOCKS][BLOCK];
    unsigned n_copies, n_drops;
};

extern struct kv_store the_store; /* of the most recent pool */
extern int store_error;           /* if not 0, creating a store fails with this error */
extern struct backend store_device;

struct kv_layout store_layout(uint32_t n_blocks);
struct kv_pool *pool_make(uint32_t n_blocks);
void put(struct kv_table *t, uint32_t pos, uint32_t value);
uint32_t get(const struct kv_table *t, uint32_t pos);
