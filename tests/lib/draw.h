/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Chooses the random part of the cases that slow tests run. */

#include "core/clock.h"
#include "core/rng.h"
#include "lib/test.h"

/* Returns whether to run a case of a slow test: one in @one_in cases, at random, or all cases if
 * test_full() is true. Messages of failures must name the case. */
static inline bool test_drawn(unsigned one_in)
{
    static struct rng rng;

    if (rng.inc == 0)
        rng_seed(&rng, clock_nsec());
    return test_full() || rng_u32(&rng) % one_in == 0;
}

/* Works like test_drawn() if a tool slows the program down (test_slowness()); otherwise returns
 * true. */
static inline bool test_drawn_if_slow(unsigned one_in)
{
    return test_slowness() <= 1 || test_drawn(one_in);
}
