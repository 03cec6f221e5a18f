/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a scheduler on the null device, and collects the results of its requests.
 *
 * The scheduler has no thread. The test calls rig_tick(), so it decides between which steps
 * requests begin, are canceled and end.
 */

#include "lib/test.h"

#include "backend/null/null.h"
#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "fake_matcher.h"
#include "fake_tokenizer.h"
#include "sched/sched.h"

#define RIG_MAX_CHOICES 8

struct rig_params {
    struct null_options null;                                /* n_vocab is set by rig_init() */
    uint32_t n_ctx, max_seqs, max_queue, max_rows, n_blocks; /* 0: large enough */
    bool no_prefix_cache;
    uint32_t n_padding; /* logits of a row that belong to no token */
    struct inf_tier *tier;
    const struct file_map *weights;  /* part of the names of the tier's blocks; NULL: none */
    double tier_margin;              /* 0: the engine loads each block that it finds */
    bool takes_copies;               /* the device's blocks can only be copied, three in one load */
    const struct rig_groups *groups; /* NULL: one FULL group */
    uint32_t mark_every;             /* 0: as the engine chooses */
    enum speculation_kind speculation; /* drafts are verified whatever they cost */
    /* The draft model, for kinds of speculation that use one. It has the same logits with another
     * seed, and a device of its own, unless shares_device is set. */
    const struct rig_groups *draft_groups; /* NULL: one FULL group */
    uint32_t n_draft_blocks, n_draft_ctx;  /* 0: large enough */
    uint32_t n_draft_missing;              /* tokens that the draft model lacks */
    bool shares_device;
    /* The drafter has the layer of the model that predicts a further token: its rows have inputs,
     * which the device checks if null.checks_input is set. */
    bool predicts;
    uint32_t block; /* with `predicts`: the drafter drafts blocks of this many tokens; 0: it does
                       not */
};

/* The groups of state of a model. */
struct rig_groups {
    const char *name;
    uint32_t n;
    struct {
        enum state_rule rule;
        uint32_t window;
    } groups[STATE_GROUPS_MAX];
};
extern const struct rig_groups rig_groups[];
extern const unsigned rig_n_groups;

struct rig {
    struct backend *backend; /* the scheduler's */
    struct sched *sched;
    struct rng rng; /* decides when the tier works, if it has no thread */
    /* Set after rig_init(): a step takes as many rows of prompts as if all steps took equal times,
     * so that the steps do not depend on the speed of the machine. */
    bool steady_pace;
};

/* Struct choice holds the result of one choice. */
struct choice {
    struct str text;
    struct str ids; /* its tokens as int32_t */
    uint32_t n_tokens, n_generated, n_channel, n_cached, n_events;
    uint32_t n_accepted, n_rejected; /* drafted tokens */
    bool prompt, finished;
    enum inf_finish finish;
    uint32_t stop_index;
    int32_t stop_token;
    char error[256]; /* "": none */
    double logprobs; /* sum */
};

struct outcome {
    uint64_t id;
    struct choice choices[RIG_MAX_CHOICES];
    uint32_t n_choices, n_finished;
    double prompt_logprobs; /* the sum for choice 0 */
    uint32_t n_prompt_tops;
};

void rig_init(struct rig *rig, const struct rig_params *params);
void rig_done(struct rig *rig);
uint64_t rig_submit(struct rig *rig, const struct inf_request *q);
/* Reads all pending events into the outcomes, and checks their order. */
void rig_collect(struct rig *rig, struct outcome *outcomes, uint32_t n);
/* Runs one tick, and some work of the tier. Returns the result of sched_tick(). */
bool rig_tick(struct rig *rig);
/* Ticks and collects events until all requests have ended. */
void rig_finish(struct rig *rig, struct outcome *outcomes, uint32_t n);
/* Runs one request alone on a new rig with enough room and the same null options. */
void rig_alone(const struct null_options *null, uint32_t n_ctx, const struct inf_request *q,
               struct outcome *ret_outcome);
void outcome_done(struct outcome *o);
void outcomes_equal(const struct outcome *a, const struct outcome *b);
/* Compares outcomes; sums of log-probabilities may differ by at most @tolerance. */
void outcomes_close(const struct outcome *a, const struct outcome *b, double tolerance);

/* Struct random_request holds a prompt of random bytes and random sampling options, made from a
 * seed. */
struct random_request {
    int32_t tokens[64];
    struct inf_request q;
};
void random_request(struct random_request *r, uint64_t seed, uint32_t max_prompt,
                    uint32_t max_tokens);
/* Fills @tokens [n]: the first @n_common tokens depend on @family, the others on @seed. */
struct inf_request family_prompt(int32_t *tokens, uint32_t n, uint64_t family, uint32_t n_common,
                                 uint64_t seed);
/* Makes a random request. Its prompt belongs to one of a few families and one of some tenants. */
void family_request(struct random_request *r, uint64_t seed);

#define RIG_AT_ONCE 40 /* requests of one round of rig_random() */

struct rig_totals {
    uint64_t n_cached;              /* tokens of prompts that were in a cache */
    uint64_t n_loaded;              /* blocks that were loaded from the tier */
    uint64_t n_drafted, n_accepted; /* drafted tokens */
};

/* Runs @n_rounds rounds of RIG_AT_ONCE requests whose prompts belong to a few families, so that
 * prefixes repeat. The requests are submitted and canceled at random. A new engine, with the same
 * tier, replaces the old one every ten rounds. All requests that are not canceled must give the
 * same result as on an engine without a cache. */
struct rig_totals rig_random(const struct rig_params *params, uint32_t n_rounds);
