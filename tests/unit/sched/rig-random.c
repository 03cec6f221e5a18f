/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

static struct outcome outcomes[RIG_AT_ONCE], expected[RIG_AT_ONCE];
static struct random_request requests[RIG_AT_ONCE];

static bool was_cancelled(const struct outcome *o)
{
    for (uint32_t i = 0; i < o->n_choices; i++)
        if (o->choices[i].finish == INF_FINISH_CANCELLED)
            return true;
    return false;
}

/* Submits requests to both rigs, cancels some on @rig, and compares the others. Returns the number
 * of tokens that @rig had in its cache. */
static uint64_t run_round(struct rig *rig, struct rig *without, struct rng *rng, uint64_t seed)
{
    uint64_t n_cached = 0;

    for (uint32_t i = 0; i < RIG_AT_ONCE; i++) {
        struct inf_request *q = &requests[i].q;

        family_request(&requests[i], seed + i);
        outcomes[i] = expected[i] = (struct outcome){.n_choices = MAX(q->n_choices, 1u)};
        q->user = &outcomes[i];
        outcomes[i].id = rig_submit(rig, q);
        q->user = &expected[i];
        expected[i].id = rig_submit(without, q);
        for (uint32_t k = rng_u32(rng) % 4; k > 0; k--)
            rig_tick(rig);
        if (rng_u32(rng) % 8 == 0)
            sched_cancel(rig->sched, outcomes[rng_u32(rng) % (i + 1)].id);
        rig_collect(rig, outcomes, RIG_AT_ONCE);
    }
    rig_finish(rig, outcomes, RIG_AT_ONCE);
    rig_finish(without, expected, RIG_AT_ONCE);
    for (uint32_t i = 0; i < RIG_AT_ONCE; i++) {
        n_cached += outcomes[i].choices[0].n_cached;
        if (!was_cancelled(&outcomes[i]))
            outcomes_equal(&outcomes[i], &expected[i]);
        outcome_done(&outcomes[i]);
        outcome_done(&expected[i]);
    }
    return n_cached;
}

struct rig_totals rig_random(const struct rig_params *params, uint32_t n_rounds)
{
    struct rig_params plain = {.null = params->null,
                               .n_ctx = params->n_ctx,
                               .groups = params->groups,
                               .n_padding = params->n_padding,
                               .no_prefix_cache = true};
    struct rig_totals totals = {0};
    struct tier_counts counts;
    struct rig rig, without;
    struct rng rng;

    plain.null.lose_one_in = 0;
    rng_seed(&rng, params->null.seed);
    rig_init(&without, &plain);
    for (uint32_t round = 0; round < n_rounds; round++) {
        if (round % 10 == 0)
            rig_init(&rig, params);
        totals.n_cached += run_round(&rig, &without, &rng,
                                     params->null.seed << 32 | (uint64_t)round * RIG_AT_ONCE);
        if (round % 10 < 9 && round + 1 < n_rounds)
            continue;
        if (rig.sched->tier) {
            tier_count(rig.sched->tier, &counts);
            totals.n_loaded += counts.n_loaded;
        }
        totals.n_drafted += rig.sched->stats.n_drafted;
        totals.n_accepted += rig.sched->stats.n_draft_accepted;
        assert_int_equal(rig.sched->stats.n_errors, 0);
        rig_done(&rig);
    }
    rig_done(&without);
    return totals;
}
