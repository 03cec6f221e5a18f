/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the work of compiling one grammar
 *
 * Sizes of results do not bound the time: a small grammar can make the same large automaton again
 * and again, or automata that become small only at the end. So everything that is made or looked at
 * is counted by its approximate cost, and all parts of a compilation share one counter.
 */

#include <errno.h>

#include "core/macros.h"

/* A unit is about a nanosecond of a processor of 2021. */
#define WORK_MAX      150000000u
#define WORK_NODE     160u  /* a node that is made or found */
#define WORK_STEP     15u   /* a part of a JSON Schema is looked at */
#define WORK_DISJOINT 300u  /* two schemas are compared */
#define WORK_SET      4000u /* a set of characters with a name is made */
#define WORK_RANGE    20u   /* a range of such a set, or of a class */
#define WORK_WORD     1u    /* an operand of a node that is made or found */
#define WORK_CALL     40u   /* a node of which a fragment is made or found */
/* A state and an edge of an nfa, with what the program does to them later. */
#define WORK_STATE  40u
#define WORK_EDGE   40u
#define WORK_VISIT  5u   /* a state or an edge that is looked at while sets of states are made */
#define WORK_SUBSET 100u /* a set of states that is made or found */
#define WORK_SHRINK 16u  /* an edge of a deterministic automaton that is finished */
#define WORK_SPLIT  3u   /* an edge that is looked at while equal states are found */
#define WORK_ESCAPE 60u  /* a place within an escape sequence */
#define WORK_ROW    300u /* the edges of a state of a deterministic automaton are listed */

struct work {
    uint64_t done;
};

/* Returns -E2BIG if the limit is exceeded, also in all later calls. @w may be NULL. */
static inline int work_add(struct work *w, uint64_t units)
{
    if (!w)
        return 0;
    w->done += units;
    return w->done > WORK_MAX ? -E2BIG : 0;
}
