/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Follows the edges of a configuration that consume nothing: empty edges, calls and returns. */

#include "grammar/automaton.h"

int closure_new(const struct program *p, struct closure **ret_closure);
struct closure *closure_free(struct closure *c);
/* Makes the configuration of the items @kernel, or finds an equal one. Frames and the configuration
 * are stored in @a. */
int closure_make(struct closure *c, struct automaton *a, const item *kernel, uint32_t n,
                 uint32_t *ret_config);
