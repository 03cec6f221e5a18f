/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Describes what a model keeps of a sequence from one step to the next.
 *
 * The state of a sequence consists of groups. All layers of a group keep data of the same shape, by
 * the same rule. A model has at most STATE_GROUPS_MAX groups.
 */

#include <stdbool.h>
#include <stdint.h>

#define STATE_GROUPS_MAX 4

enum state_rule {
    /* Keys and values of all tokens, in blocks of tokens (backend/backend.h). */
    STATE_FULL,
    /* Like STATE_FULL, but attention reads only a window of the newest tokens, so blocks before the
     * window can be dropped while the sequence runs. */
    STATE_WINDOW,
    /* Recurrent state of a fixed size, which every token changes. */
    STATE_RECURRENT,
};

struct state_group {
    enum state_rule rule;
    uint32_t n_layers;             /* layers that store their data in this group */
    uint32_t n_kv_heads, head_dim; /* FULL and WINDOW */
    uint32_t window;               /* WINDOW: tokens that a row sees, including its own */
    bool first_only; /* WINDOW: the group keeps only its first block, until the sequence ends */
    bool exact;      /* the group's codec is Q8_0 of turned heads, not that of the layout */
    /* RECURRENT: floats of one layer: the newest inputs of the convolution, then the matrices of
     * the heads. */
    uint32_t conv_floats, matrix_floats;
};

/* Says where a layer of the model keeps its data. */
struct state_place {
    uint32_t i_group, i_layer; /* the group, and the layer's number in the group */
};
