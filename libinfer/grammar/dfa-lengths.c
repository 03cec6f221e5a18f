/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of the texts that a state accepts
 *
 * Two states that accept texts of different lengths are not equal, so the lengths give a first
 * partition of the states. Without this partition, the search for equal states would take one round
 * for each length in which two states differ: hundreds of rounds for automata of texts with a
 * limited length.
 */
#include <errno.h>
#include <string.h>

#include "grammar/dfa.h"

/* Counts the edges of each state, and lists the states that lead to each state: from[first[i]] …
 * from[first[i + 1] - 1]. */
static int dfa_reverse(const struct dfa *dfa, uint32_t *n_out, uint32_t *first, uint32_t *from)
{
    const size_t n_edges = (size_t)dfa->n * dfa->n_classes;
    _cleanup_free_ uint32_t *at = NEW(uint32_t, dfa->n);

    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < n_edges; i++)
        if (dfa->next[i] != DFA_DEAD) {
            n_out[i / dfa->n_classes]++;
            first[dfa->next[i] + 1]++;
        }
    for (uint32_t i = 0; i < dfa->n; i++) {
        at[i] = first[i];
        first[i + 1] += first[i];
    }
    for (size_t i = 0; i < n_edges; i++)
        if (dfa->next[i] != DFA_DEAD)
            from[at[dfa->next[i]]++] = (uint32_t)(i / dfa->n_classes);
    return 0;
}

/* Sets the lower half of part[i] to the length of the longest text that state i accepts; 0xffff:
 * there is no longest text. */
static void dfa_longest(const struct dfa *dfa, uint32_t *n_out, const uint32_t *first,
                        const uint32_t *from, uint32_t *stack, uint32_t *part)
{
    uint32_t n_stack = 0;

    for (uint32_t i = 0; i < dfa->n; i++)
        if (n_out[i] == 0)
            stack[n_stack++] = i;
    while (n_stack > 0) {
        const uint32_t to = stack[--n_stack];

        for (uint32_t k = first[to]; k < first[to + 1]; k++) {
            part[from[k]] = MAX(part[from[k]], part[to] + 1);
            if (--n_out[from[k]] == 0)
                stack[n_stack++] = from[k];
        }
    }
    for (uint32_t i = 0; i < dfa->n; i++)
        if (n_out[i] > 0)
            part[i] = 0xffff;
}

/* Adds the length of the shortest text that state i accepts to the upper half of part[i]. */
static void dfa_shortest(const struct dfa *dfa, const uint32_t *first, const uint32_t *from,
                         uint32_t *queue, uint32_t *part)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < dfa->n; i++) {
        part[i] |= dfa->is_final[i] ? 0 : 0xffff0000;
        if (dfa->is_final[i])
            queue[n++] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = first[queue[i]]; k < first[queue[i] + 1]; k++)
            if (part[from[k]] >> 16 == 0xffff) {
                part[from[k]] = (part[from[k]] & 0xffff) | ((part[queue[i]] >> 16) + 1) << 16;
                queue[n++] = from[k];
            }
}

int dfa_lengths(const struct dfa *dfa, uint32_t *part)
{
    _cleanup_free_ uint32_t *n_out = NEW(uint32_t, dfa->n);
    _cleanup_free_ uint32_t *first = NEW(uint32_t, (size_t)dfa->n + 1);
    _cleanup_free_ uint32_t *from = NEW(uint32_t, (size_t)dfa->n * dfa->n_classes);
    _cleanup_free_ uint32_t *stack = NEW(uint32_t, dfa->n);
    int r;

    static_assert(DFA_MAX_STATES < 0xffff, "lengths have 16 bits");
    if (!n_out || !first || !from || !stack)
        return -ENOMEM;
    r = dfa_reverse(dfa, n_out, first, from);
    if (r < 0)
        return r;
    memset(part, 0, dfa->n * sizeof(*part));
    dfa_longest(dfa, n_out, first, from, stack, part);
    dfa_shortest(dfa, first, from, stack, part);
    return 0;
}
