/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A scheduler on the null device, and what came out of it
 *
 * Without a thread a test calls rig_tick() itself and so decides between which steps requests
 * join, leave and end.
 */

#include "lib/test.h"

#include "backend/null/null.h"
#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "fake_tokenizer.h"
#include "sched/sched.h"

#define RIG_MAX_CHOICES 8

struct rig_params {
    struct null_options null;                                /* n_vocab is set by rig_new() */
    uint32_t n_ctx, max_seqs, max_queue, max_rows, n_blocks; /* 0: roomy */
    bool no_prefix_cache;
    uint32_t n_padding; /* logits of a row that belong to no token */
    struct inf_tier *tier;
    const struct file_map *weights; /* for the tier's names; NULL: none */
    double tier_margin;             /* 0: whatever is found is loaded, however slowly it comes */
    bool takes_copies;              /* blocks do not lie where others reach them; three at a time */
};

struct rig {
    struct backend *backend; /* the scheduler's */
    struct sched *sched;
    struct rng rng; /* when the tier works, as long as it has no thread */
};

/* What one choice gave. */
struct choice {
    struct str text;
    struct str ids; /* int32_t of its tokens */
    uint32_t n_tokens, n_generated, n_cached, n_events;
    bool prompt, finished;
    enum inf_finish finish;
    uint32_t stop_index;
    char error[256]; /* "": none */
    double logprobs; /* sum */
};

struct outcome {
    uint64_t id;
    struct choice choices[RIG_MAX_CHOICES];
    uint32_t n_choices, n_finished;
    double prompt_logprobs; /* sum, of choice 0 */
    uint32_t n_prompt_tops;
};

void rig_init(struct rig *rig, const struct rig_params *params);
void rig_done(struct rig *rig);
uint64_t rig_submit(struct rig *rig, const struct inf_request *q);
/* Reads all events that wait into the outcomes, and checks their order. */
void rig_collect(struct rig *rig, struct outcome *outcomes, uint32_t n);
/* One tick, and some work of the tier. As sched_tick(). */
bool rig_tick(struct rig *rig);
/* Ticks and collects until all is over. */
void rig_finish(struct rig *rig, struct outcome *outcomes, uint32_t n);
/* One request alone on a fresh roomy rig with the same null options. */
void rig_alone(const struct null_options *null, uint32_t n_ctx, const struct inf_request *q,
               struct outcome *ret_outcome);
void outcome_done(struct outcome *o);
void outcomes_equal(const struct outcome *a, const struct outcome *b);
/* But for sums of log-probabilities, which may differ by so much. */
void outcomes_close(const struct outcome *a, const struct outcome *b, double tolerance);

/* A prompt of @n random bytes and random sampling, made from @seed. */
struct random_request {
    int32_t tokens[64];
    struct inf_request q;
};
void random_request(struct random_request *r, uint64_t seed, uint32_t max_prompt,
                    uint32_t max_tokens);
/* Fills @tokens [n]: the first @n_common are those of @family, the others of @seed. */
struct inf_request family_prompt(int32_t *tokens, uint32_t n, uint64_t family, uint32_t n_common,
                                 uint64_t seed);
/* A random request whose prompt is of one of a few families, of one of some tenants. */
void family_request(struct random_request *r, uint64_t seed);
