/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the slots and push constants of elem/turn, as push.h does for the other kernels. */

#include <stdint.h>

/* elem/turn: slots 0 pairs (uints: the second column of a pair in the high half), 1 cos and sin, 2
 * x, 3 y, 4 factors, 5 order; a workgroup computes a group of columns of one row: groups (groups of
 * columns, rows × slots). */
struct push_turn {
    uint32_t width, group, n_rounds;
    uint32_t rows_kept;
    uint32_t slots; /* at least 1 */
};

enum { SPEC_TURN_HAS_FACTORS = 2, SPEC_TURN_HAS_ORDER = 3 };
