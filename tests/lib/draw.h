/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Slow tests run a random part of their cases. */

#include "core/clock.h"
#include "core/rng.h"
#include "lib/test.h"

/* Decides whether to run a case of a slow test: one of @one_in cases, at random, or all cases with
 * test_full(). Messages of failures must name the case. */
static inline bool test_drawn(unsigned one_in)
{
    static struct rng rng;

    if (rng.inc == 0)
        rng_seed(&rng, clock_nsec());
    return test_full() || rng_u32(&rng) % one_in == 0;
}
