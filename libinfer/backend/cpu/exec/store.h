/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the store of the CPU backend: the memory that holds the states of sequences
 * (graph/state.h). device.c implements it. */

#include "backend/backend.h"

enum kv_part {
    KV_NONE,
    KV_KEYS,
    KV_VALUES,
    KV_PART_N,
};

/* Describes the keys and values of a layer. Arrays are indexed by enum kv_part. */
struct store_layer {
    uint64_t offset;                /* of the layer in a block */
    uint64_t head_bytes[KV_PART_N]; /* of one head in a block */
    enum codec codec[KV_PART_N];
    enum codec turned[KV_PART_N]; /* kv_layout_turned() */
};

/* Describes the blocks of one group of the store. */
struct store_group {
    uint32_t first, n_blocks; /* the blocks have the numbers first … first + n_blocks - 1 */
    unsigned char *data;      /* block `first` */
    uint64_t block_bytes;
    struct store_layer *layers; /* FULL and WINDOW: [n_layers] */
    uint64_t layer_floats;      /* RECURRENT: floats of one layer */
};

/* Holds the blocks of all groups, one group after another. A block with keys and values is
 * [layer][kv_head][K, V]; attn.h shows the layout of one head. A block with recurrent state is
 * [layer]: floats of the convolution [K - 1, columns], then the matrices of the heads
 * (recur/recur.h). */
struct kv_store {
    unsigned char *data;
    uint64_t size;
    struct kv_layout layout;
    struct store_group groups[STATE_GROUPS_MAX];
    struct store_layer layers[]; /* of all FULL and WINDOW groups */
};

/* Returns the description of a layer. */
static inline const struct store_layer *kv_store_layer(const struct kv_store *store,
                                                       struct state_place place)
{
    return &store->groups[place.i_group].layers[place.i_layer];
}

/* Returns the address of K or V of one head in one block. */
void *kv_store_head(const struct kv_store *store, enum kv_part part, struct state_place place,
                    uint32_t i_head, uint32_t block);
/* Returns the address of the recurrent state of a layer in @block. */
float *kv_store_state(const struct kv_store *store, struct state_place place, uint32_t block);
