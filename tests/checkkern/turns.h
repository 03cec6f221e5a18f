/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes random preparations of rows (struct turn_params) for checks. */

#include "checkkern/harness.h"
#include "graph/params.h"

/* Returns a preparation of @width columns. @n_rounds 0: without rotations. The caller passes it to
 * turns_free(). */
struct turn_params *turns_new(struct check *c, uint32_t width, uint32_t group, uint32_t n_rounds,
                              bool has_factors, bool has_order);
void turns_free(struct turn_params *p);
