/* SPDX-License-Identifier: Apache-2.0 */

/* Checks the loops that measure the machine: each variant must read every word exactly once. */

#include <stdio.h>
#include <string.h>

#include "backend/cpu/limits/limits.h"
#include "harness.h"

void check_limits(struct check *c)
{
    static const unsigned streams[] = {1, 2, 3, 4, 8, 16};
    static const size_t aheads[] = {0, 1024, 4096};
    const struct limits_ops *ops = limits_ops_get(c->flags);
    const size_t size = 48 * 256;
    struct guarded g = guarded_new(size, true);
    uint64_t expected = 0;

    for (size_t i = 0; i < size; i += 8) {
        const uint64_t word = (uint64_t)rng_u32(&c->rng) << 32 | rng_u32(&c->rng);

        memcpy((uint8_t *)g.data + i, &word, sizeof(word));
        expected ^= word;
    }
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(aheads); j++) {
            if (ops->read(g.data, size, streams[i], aheads[j]) != expected)
                check_fail(c, "%u streams, %zu bytes ahead: the words are not those in memory",
                           streams[i], aheads[j]);
            c->n_cases++;
        }
    }
    if ((ops->dot != NULL) != (ops->dot_name != NULL) || (ops->dot != NULL) != (ops->dot_ops > 0))
        check_fail(c, "%s: only some of dot, dot_name and dot_ops are set", ops->name);
    if (ops->dot)
        ops->dot(3);
    guarded_done(&g);
}

void bench_limits(struct check *c)
{
    struct limits *l;
    const char *how;
    double bytes_s;

    if (limits_new(c->n_threads, c->flags, &l) < 0 || limits_read(l, &bytes_s, &how) < 0)
        exit(2);
    printf("limits %s, %u threads: memory %.1f GB/s (%s), int8 %.2f TOPS (%s)\n", c->rung,
           c->n_threads, bytes_s * 1e-9, how, limits_dot(l) * 1e-12,
           limits_dot_name(l) ? limits_dot_name(l) : "no instruction");
    limits_free(l);
}
