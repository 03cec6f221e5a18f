/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Places many values in one scratch buffer.
 *
 * A plan is a graph that was compiled for a device, as a list of steps. A backend lists the values,
 * each with its size and the first and the last step of the plan that need it. Values that no step
 * needs together may share memory.
 */

#include "core/macros.h"

struct plan_span {
    uint32_t first, last; /* first and last step that need the value, both inclusive */
    uint64_t size;        /* bytes */
    uint64_t offset;      /* result; a multiple of 64 */
};

/* Sets the offsets of all spans; *ret_size is the size of the buffer. Returns 0, -EOVERFLOW or
 * -ENOMEM. */
int plan_place(struct plan_span *spans, size_t n, uint64_t *ret_size);
