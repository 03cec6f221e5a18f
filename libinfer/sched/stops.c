/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches stop strings.
 *
 * Each stop string is matched separately with the Knuth-Morris-Pratt algorithm, because there are
 * few. The state of a stop string is the length of its longest prefix with which the text ends now.
 * This many bytes at the end of the text must be held back.
 */
#include "sched/stops.h"

#include <errno.h>
#include <string.h>

static void build_failure(const char *p, uint32_t len, uint32_t *failure)
{
    uint32_t k = 0;

    failure[0] = 0;
    for (uint32_t i = 1; i < len; i++) {
        while (k > 0 && p[i] != p[k])
            k = failure[k - 1];
        k += p[i] == p[k];
        failure[i] = k;
    }
}

int stop_set_init(struct stop_set *set, const struct inf_stop *stops, size_t n)
{
    size_t total = 0;

    assert(n <= STOPS_MAX);
    *set = (struct stop_set){0};
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        assert(stops[i].len > 0);
        total += stops[i].len;
    }
    assert(total <= STOPS_MAX_BYTES);
    set->text = NEW(char, total);
    set->start = NEW(uint32_t, n + 1);
    set->failure = NEW(uint32_t, total);
    if (!set->text || !set->start || !set->failure) {
        stop_set_done(set);
        return -ENOMEM;
    }
    set->n = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = set->start[i], len = (uint32_t)stops[i].len;

        memcpy(set->text + at, stops[i].text, len);
        build_failure(set->text + at, len, set->failure + at);
        set->start[i + 1] = at + len;
    }
    return 0;
}

void stop_set_done(struct stop_set *set)
{
    free(set->text);
    free(set->start);
    free(set->failure);
    *set = (struct stop_set){0};
}

/* Updates the state of stop string @i with the next byte of the text. Returns true if the stop
 * string is complete. */
static bool advance_stop(const struct stop_set *set, uint32_t i, uint32_t *state, char c)
{
    const uint32_t at = set->start[i], len = set->start[i + 1] - at;
    const char *p = set->text + at;
    uint32_t k = *state;

    while (k > 0 && p[k] != c)
        k = set->failure[at + k - 1];
    k += p[k] == c;
    *state = k;
    return k == len;
}

bool stop_set_scan(const struct stop_set *set, uint32_t *state, const char *text, size_t len,
                   struct stop_match *ret_match)
{
    struct stop_match match = {0};

    for (size_t i = 0; set->n > 0 && i < len; i++) {
        for (uint32_t k = 0; k < set->n; k++) {
            const uint32_t n = set->start[k + 1] - set->start[k];

            if (advance_stop(set, k, &state[k], text[i]) && n > match.len)
                match = (struct stop_match){k, n, i + 1};
        }
        if (match.len > 0) {
            *ret_match = match;
            return true;
        }
    }
    return false;
}

uint32_t stop_set_held(const struct stop_set *set, const uint32_t *state)
{
    uint32_t held = 0;

    for (uint32_t k = 0; k < set->n; k++)
        held = MAX(held, state[k]);
    return held;
}
