/* SPDX-License-Identifier: Apache-2.0 */
/* Adds states and edges to an nfa (nfa.h), and divides bytes into classes. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/nfa.h"

int nfa_add_state(struct nfa *nfa, bool is_final, uint32_t *ret_state)
{
    int r;

    if (nfa->n_states >= NFA_MAX_STATES)
        return -E2BIG;
    r = work_add(nfa->work, WORK_STATE);
    if (r == 0)
        r = ARRAY_GROW(nfa->states, nfa->cap_states, (size_t)nfa->n_states + 1);
    if (r == 0)
        r = ARRAY_GROW(nfa->edges, nfa->cap_edges, 1);
    if (r < 0)
        return r;
    nfa->states[nfa->n_states] = (struct state){.is_final = is_final};
    *ret_state = nfa->n_states++;
    return 0;
}

int nfa_set_edges(struct nfa *nfa, uint32_t state, const struct edge *edges, uint32_t n)
{
    int r;

    assert(nfa->states[state].n == 0);
    if (n > NFA_MAX_EDGES - nfa->n_edges)
        return -E2BIG;
    r = work_add(nfa->work, WORK_EDGE * (uint64_t)n);
    if (r == 0)
        r = ARRAY_GROW(nfa->edges, nfa->cap_edges, (size_t)nfa->n_edges + n);
    if (r < 0)
        return r;
    if (n > 0)
        memcpy(nfa->edges + nfa->n_edges, edges, n * sizeof(*edges));
    nfa->states[state].first = nfa->n_edges;
    nfa->states[state].n = n;
    nfa->n_edges += n;
    return 0;
}

void nfa_done(struct nfa *nfa)
{
    free(nfa->states);
    free(nfa->edges);
    *nfa = (struct nfa){.work = nfa->work};
}

uint32_t nfa_classes(const struct nfa *nfa, uint8_t ret_class_of[256])
{
    bool starts[257] = {false};
    uint32_t n = 0;

    for (uint32_t i = 0; i < nfa->n_edges; i++)
        if (nfa->edges[i].kind == EDGE_BYTES) {
            starts[nfa->edges[i].first] = true;
            starts[nfa->edges[i].last + 1] = true;
        }
    for (unsigned byte = 0; byte < 256; byte++) {
        n += starts[byte] && byte > 0;
        ret_class_of[byte] = (uint8_t)n;
    }
    return n + 1;
}
