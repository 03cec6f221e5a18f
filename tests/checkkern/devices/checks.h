/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists the checks of whole devices, in the form of the list in harness.h. */

#include "checkkern/harness.h"

/* Each row has the name of a check, and whether the check is about products. */
#define DEVICE_CHECKS(X)                                                                           \
    X(graph_product, true)                                                                         \
    X(graph_hostile, true)                                                                         \
    X(graph_embed, false)                                                                          \
    X(graph_norm, false)                                                                           \
    X(graph_rope, false)                                                                           \
    X(graph_act, false)                                                                            \
    X(graph_cols, false)                                                                           \
    X(graph_streams, false)                                                                        \
    X(graph_statistics, false)                                                                     \
    X(graph_turn, false)                                                                           \
    X(graph_experts, true)                                                                         \
    X(graph_conv, false)                                                                           \
    X(graph_delta, false)                                                                          \
    X(graph_groups, false)                                                                         \
    X(graph_rows, false)                                                                           \
    X(graph_attention, false)                                                                      \
    X(graph_steps, false)                                                                          \
    X(graph_far, false)                                                                            \
    X(graph_long, false)                                                                           \
    X(graph_blocks, false)                                                                         \
    X(graph_tops, false)

#define X(name, products)                                                                          \
    void check_##name(struct check *c);                                                            \
    void bench_##name(struct check *c);
DEVICE_CHECKS(X)
#undef X
