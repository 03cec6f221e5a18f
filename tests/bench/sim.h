/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A store that holds no bytes, and the policies that compete in it
 *
 * As in the service, only leaves go, the lowest rank first, so what is kept is whole prefixes. A
 * request hits the blocks that are kept from its first one on; the others are put behind them.
 */

#include "trace.h"

enum contender_id {
    SIM_LRU,
    SIM_OURS,
    SIM_LFU,
    SIM_GDSF,
    SIM_OPTIMAL,
    SIM_CONTENDERS,
};

extern const char *const sim_names[SIM_CONTENDERS];

struct sim_result {
    uint64_t asked, hits;     /* blocks */
    uint64_t late, late_hits; /* of those, in the second half of the requests */
    uint64_t put;             /* blocks written */
    const char *rule;         /* ours: the rule at the end */
};

static inline void sim_count(struct sim_result *result, bool late, uint32_t asked, uint32_t hits)
{
    result->asked += asked;
    result->hits += hits;
    result->late += late ? asked : 0;
    result->late_hits += late ? hits : 0;
}

/* -ENOMEM. */
int sim_run(const struct trace *t, enum contender_id who, uint32_t capacity,
            struct sim_result *ret_result);
/* By the store of the service itself, with room for @capacity blocks and what its files take
 * besides, @at_once blocks in a PUT. Its errors. */
int sim_run_store(const struct trace *t, uint32_t capacity, uint32_t at_once,
                  struct sim_result *ret_result);
