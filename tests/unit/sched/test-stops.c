/* SPDX-License-Identifier: Apache-2.0 */
/* Compares stop strings with a search of the whole text. */
#include "lib/test.h"

#include "core/macros.h"
#include "core/rng.h"
#include "sched/stops.h"

struct want {
    bool found;
    size_t begin, end;
    uint32_t i_stop;
};

/* Returns the match that ends first. If several matches end at the same place, returns the longest
 * of them. */
static struct want search(const struct inf_stop *stops, size_t n, const char *text, size_t len)
{
    for (size_t end = 1; end <= len; end++) {
        struct want w = {0};

        for (size_t i = 0; i < n; i++)
            if (stops[i].len <= end && stops[i].len > w.end - w.begin &&
                memcmp(text + end - stops[i].len, stops[i].text, stops[i].len) == 0)
                w = (struct want){true, end - stops[i].len, end, (uint32_t)i};
        if (w.found)
            return w;
    }
    return (struct want){0};
}

TEST(every_cut_of_the_text_gives_the_same_match)
{
    struct rng rng;

    rng_seed(&rng, 1);
    for (unsigned round = 0; round < 20000; round++) {
        const size_t len = rng_u32(&rng) % 30, n = rng_u32(&rng) % 4;
        struct inf_stop stops[4];
        char bytes[4][6], text[32];
        struct stop_set set;
        struct stop_match match = {0};
        uint32_t states[4] = {0};
        struct want w;
        size_t at = 0;
        bool found = false;

        for (size_t i = 0; i < n; i++) {
            stops[i] = (struct inf_stop){bytes[i], 1 + rng_u32(&rng) % 5};
            for (size_t k = 0; k < stops[i].len; k++)
                bytes[i][k] = (char)('a' + rng_u32(&rng) % 2);
        }
        for (size_t i = 0; i < len; i++)
            text[i] = (char)('a' + rng_u32(&rng) % 2);
        w = search(stops, n, text, len);
        ASSERT_OK(stop_set_init(&set, stops, n));
        while (at < len && !found) {
            const size_t want = 1 + rng_u32(&rng) % 4, part = MIN(want, len - at);

            found = stop_set_scan(&set, states, text + at, part, &match);
            at += found ? match.end : part;
            /* Text that is not held back cannot be the start of a stop string. */
            if (!found && w.found)
                assert_true(at - stop_set_held(&set, states) <= w.begin);
        }
        assert_int_equal(found, w.found);
        if (found) {
            assert_int_equal(at, w.end);
            assert_int_equal(match.i_stop, w.i_stop);
            assert_int_equal(at - match.len, w.begin);
        }
        stop_set_done(&set);
    }
}

RUN_TESTS(cmocka_unit_test(every_cut_of_the_text_gives_the_same_match))
