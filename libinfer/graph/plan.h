/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One scratch buffer for many values
 *
 * A backend lists the values with their sizes and the steps that need them. Values that are not
 * needed at the same time may share memory.
 */

#include "core/macros.h"

struct plan_span {
    uint32_t first, last; /* first and last step that needs it, both inclusive */
    uint64_t size;        /* bytes */
    uint64_t offset;      /* result; a multiple of 64 */
};

/* Places all spans; *ret_size is the size of the buffer. -EOVERFLOW, -ENOMEM. */
int plan_place(struct plan_span *spans, size_t n, uint64_t *ret_size);
