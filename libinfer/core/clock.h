/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the monotonic clock.
 */

#include <stdint.h>
#include <time.h>

/* Returns the monotonic time in microseconds. */
static inline uint64_t clock_usec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

/* Returns the monotonic time in nanoseconds. */
static inline uint64_t clock_nsec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
