/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Simulates a store without bytes, to compare eviction policies.
 *
 * A leaf is a block that no other stored block continues. The policy gives each block a rank: a
 * number that says how much the block is worth keeping. As in the service, only leaves are evicted,
 * the lowest rank first, so the store always holds whole prefixes. A request hits its blocks up to
 * the first one that is missing; it puts the missing block and all blocks after it.
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
    uint64_t late, late_hits; /* blocks in the second half of the requests */
    uint64_t put;             /* blocks written */
    const char *rule;         /* SIM_OURS: the rule in use at the end */
};

static inline void sim_count(struct sim_result *result, bool late, uint32_t asked, uint32_t hits)
{
    result->asked += asked;
    result->hits += hits;
    result->late += late ? asked : 0;
    result->late_hits += late ? hits : 0;
}

/* Replays @t with the policy @who and room for @capacity blocks. Errors: -ENOMEM. */
int sim_run(const struct trace *t, enum contender_id who, uint32_t capacity,
            struct sim_result *ret_result);
/* Replays @t in the real store of the service, which has room for @capacity blocks and the overhead
 * of its files, with @at_once blocks in a PUT. Returns the errors of the store. */
int sim_run_store(const struct trace *t, uint32_t capacity, uint32_t at_once,
                  struct sim_result *ret_result);
