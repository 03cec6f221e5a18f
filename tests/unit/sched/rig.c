/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <math.h>

const struct rig_groups rig_groups[] = {
    {"full", 1, {{STATE_FULL, 0}}},
    {"window", 1, {{STATE_WINDOW, 10}}},
    {"full and window", 2, {{STATE_FULL, 0}, {STATE_WINDOW, 13}}},
    {"full and recurrent", 2, {{STATE_FULL, 0}, {STATE_RECURRENT, 0}}},
    {"window, recurrent and full", 3, {{STATE_WINDOW, 9}, {STATE_RECURRENT, 0}, {STATE_FULL, 0}}},
    {"recurrent", 1, {{STATE_RECURRENT, 0}}},
    {"two of full and window",
     4,
     {{STATE_WINDOW, 1}, {STATE_FULL, 0}, {STATE_WINDOW, 24}, {STATE_FULL, 0}}},
};
const unsigned rig_n_groups = ARRAY_SIZE(rig_groups);

static const struct backend_ops *host_ops;

static int copy_out(struct backend *b, struct kv_store *store, uint32_t block, void *to)
{
    memcpy(to, host_ops->kv_bytes(b, store, block), host_ops->kv_size(b, store, block));
    return 0;
}

static int copy_in(struct backend *b, struct kv_store *store, uint32_t block, const void *from)
{
    memcpy(host_ops->kv_bytes(b, store, block), from, host_ops->kv_size(b, store, block));
    return 0;
}

/* Makes a device behave like a device whose blocks can be read only after they are copied. */
static void take_copies(struct backend *b)
{
    static struct backend_ops ops;

    host_ops = b->ops;
    ops = *b->ops;
    ops.kv_bytes = NULL;
    ops.kv_export = copy_out;
    ops.kv_import = copy_in;
    b->ops = &ops;
}

static void add_tier(struct rig *rig, const struct rig_params *p)
{
    const struct tier_params params = {
        .impl = p->tier,
        .files = &p->weights,
        .n_files = p->weights ? 1 : 0,
        .model = "fake",
        .codec = "cells",
    };

    ASSERT_OK(sched_add_tier(rig->sched, &params, 1000));
    rig->sched->fetching.margin = p->tier_margin;
    rig->sched->spill.grace_usec = 0;
    if (p->takes_copies)
        rig->sched->fetching.landing = 3 * kv_pool_block_bytes(rig->sched->runner->pool, 0);
}

/* Makes a layout with @n_blocks FULL blocks. The other groups have room for @max_seqs sequences,
 * and for half as many blocks again. */
static struct kv_layout make_layout(const struct rig_groups *groups, uint32_t n_blocks,
                                    uint32_t max_seqs, uint32_t max_rows)
{
    struct kv_layout layout = kv_layout_full(1, 1, 1, 4, CODEC_F32, n_blocks);

    for (uint32_t g = 0; groups && g < groups->n; g++) {
        struct state_group *group = &layout.groups[g];
        const uint32_t window = groups->groups[g].window;

        *group = layout.groups[0];
        group->rule = groups->groups[g].rule;
        group->window = window;
        layout.n_blocks[g] = n_blocks;
        if (group->rule == STATE_WINDOW)
            layout.n_blocks[g] = (DIV_UP(window, 4) + 1) * max_seqs * 3 / 2 + max_rows / 8;
        if (group->rule == STATE_RECURRENT)
            layout.n_blocks[g] = max_seqs * 3 / 2 + 2;
        layout.n_groups = g + 1;
    }
    return layout;
}

/* Adds the draft model. */
static void add_drafter(struct rig *rig, const struct rig_params *p,
                        const struct runner_params *target)
{
    struct runner_params params = *target;
    struct backend *backend = rig->backend;
    struct null_options null = p->null;
    struct runner *runner;
    struct inf_err err;

    params.layout = make_layout(p->draft_groups,
                                p->n_draft_blocks > 0
                                    ? p->n_draft_blocks
                                    : 2 * target->limits.max_seqs * target->limits.max_ctx / 4,
                                target->limits.max_seqs, target->limits.max_rows);
    params.shares_backend = p->shares_device;
    if (p->n_draft_ctx > 0)
        params.limits.max_ctx = p->n_draft_ctx;
    if (!p->shares_device) {
        params.n_vocab = FAKE_N_VOCAB - p->n_draft_missing;
        ASSERT_OK(null_new(&backend));
        null.n_vocab = params.n_vocab;
        null.seed += 77;
        null.lose_one_in = 0;
        null.own_input = p->block > 0;
        null_configure(backend, &null);
    }
    ASSERT_OK_ERR(runner_new(&backend, &params, &runner, &err), err);
    if (p->block > 0)
        ASSERT_OK_ERR(runner_add_store(runner, NULL, &err), err);
    ASSERT_OK(sched_add_drafter(rig->sched, &runner));
    assert_null(runner);
    if (p->block > 0)
        drafter_use_blocks(rig->sched->speculation->drafter, p->block, 0);
}

void rig_init(struct rig *rig, const struct rig_params *p)
{
    const uint32_t n_ctx = p->n_ctx > 0 ? p->n_ctx : 128;
    const uint32_t max_seqs = p->max_seqs > 0 ? p->max_seqs : 8;
    const struct sched_limits limits = {
        .n_ctx = n_ctx,
        .max_seqs = max_seqs,
        .max_queue = p->max_queue > 0 ? p->max_queue : 1000,
        .no_prefix_cache = p->no_prefix_cache,
        .speculation = p->speculation,
    };
    const uint32_t n_vocab = FAKE_N_VOCAB + p->n_padding;
    struct null_options null = p->null;
    struct runner_params params = {
        .layout = make_layout(p->groups, p->n_blocks > 0 ? p->n_blocks : 2 * max_seqs * n_ctx / 4,
                              max_seqs, p->max_rows > 0 ? p->max_rows : 64),
        .limits = {p->max_rows > 0 ? p->max_rows : 64,
                   max_seqs + (p->speculation != SPECULATION_OFF ? 20 : 3), max_seqs, n_ctx},
        .n_vocab = n_vocab,
        .n_hidden = p->predicts ? 1 : 0,
    };
    struct runner *runner;
    struct inf_err err;

    rig->steady_pace = false;
    ASSERT_OK(null_new(&rig->backend));
    null.n_vocab = n_vocab;
    null_configure(rig->backend, &null);
    if (p->takes_copies)
        take_copies(rig->backend);
    {
        struct backend *backend = rig->backend;

        ASSERT_OK_ERR(runner_new(&backend, &params, &runner, &err), err);
        assert_null(backend);
    }
    ASSERT_OK(sched_new(&runner, fake_tokenizer, &limits, &rig->sched));
    rig->sched->loss.pause_usec = 0;
    if (rig->sched->speculation)
        rig->sched->speculation->ignores_cost = true;
    if (p->speculation == SPECULATION_MODEL || p->speculation == SPECULATION_AUTO)
        add_drafter(rig, p, &params);
    if (p->mark_every > 0)
        rig->sched->marks.every = p->mark_every;
    assert_null(runner);
    rng_seed(&rig->rng, p->null.seed);
    if (p->tier)
        add_tier(rig, p);
}

/* Refers to a function in the file of the fake grammars, so that the linker uses this file and not
 * the library. */
static bool (*const fake_is_complete)(const struct grammar_matcher *) = grammar_matcher_is_complete;

void rig_done(struct rig *rig)
{
    assert_non_null(fake_is_complete);
    rig->sched = sched_free(rig->sched);
}

uint64_t rig_submit(struct rig *rig, const struct inf_request *q)
{
    uint64_t id = 0;

    assert_int_equal(sched_submit(rig->sched, q, &id), 0);
    assert_int_not_equal(id, 0);
    return id;
}

static void take_tokens(struct choice *c, const struct inf_event *e)
{
    assert_true(c->prompt);
    ASSERT_OK(str_append(&c->text, e->text, e->text_len));
    assert_int_equal(e->text[e->text_len], 0);
    c->n_tokens += (uint32_t)e->n_tokens;
    for (size_t i = 0; i < e->n_tokens; i++) {
        ASSERT_OK(str_append(&c->ids, (const char *)&e->tokens[i].token, sizeof(int32_t)));
        c->logprobs += (double)e->tokens[i].logprob;
        for (uint32_t k = 0; k < e->tokens[i].n_top; k++)
            c->logprobs += (double)e->tokens[i].top[k].logprob * 0.1 + e->tokens[i].top[k].token;
    }
    assert_true(e->n_generated >= c->n_generated);
}

static void take_prompt(struct outcome *o, struct choice *c, const struct inf_event *e)
{
    assert_false(c->prompt);
    c->prompt = true;
    if (e->choice != 0)
        return;
    for (size_t i = 1; i < e->n_tokens; i++) {
        o->prompt_logprobs += (double)e->tokens[i].logprob;
        o->n_prompt_tops += e->tokens[i].n_top;
    }
    if (e->n_tokens > 0)
        assert_true(isnan(e->tokens[0].logprob));
}

static void take_event(struct outcome *o, const struct inf_event *e)
{
    struct choice *c = &o->choices[e->choice];

    assert_ptr_equal(e->user, o);
    assert_false(c->finished);
    c->n_events++;
    c->n_cached = e->n_cached;
    if (e->kind == INF_EVENT_PROMPT)
        take_prompt(o, c, e);
    else if (e->kind == INF_EVENT_TOKENS)
        take_tokens(c, e);
    c->n_generated = e->n_generated;
    c->n_channel = e->n_channel;
    c->n_accepted = e->n_draft_accepted;
    c->n_rejected = e->n_draft_rejected;
    if (e->kind == INF_EVENT_FINISH) {
        c->finished = true;
        c->finish = e->finish;
        c->stop_index = e->stop_index;
        c->stop_token = e->stop_token;
        snprintf(c->error, sizeof(c->error), "%s", e->error ? e->error : "");
        o->n_finished++;
        assert_int_equal(e->last, o->n_finished == o->n_choices);
    }
}

void rig_collect(struct rig *rig, struct outcome *outcomes, uint32_t n)
{
    struct inf_event e;

    while (events_next(&rig->sched->events, &e)) {
        struct outcome *o = e.user;

        assert_true(o >= outcomes && o < outcomes + n);
        assert_int_equal(e.request, o->id);
        take_event(o, &e);
    }
}

/* Replaces the measured times of steps. */
static void set_pace(struct batch_pace *pace)
{
    pace->chunk = 0;
    pace->row_usec = 1;
    for (unsigned i = 0; i < ARRAY_SIZE(pace->classes); i++)
        pace->classes[i] =
            (struct batch_class){.n = BATCH_MEASURE, .usec = 40, .at = pace->n_steps};
}

bool rig_tick(struct rig *rig)
{
    bool again;

    if (rig->steady_pace)
        set_pace(&rig->sched->pace);
    again = sched_tick(rig->sched);
    if (rig->sched->tier)
        for (uint32_t i = rng_u32(&rig->rng) % 4; i > 0; i--)
            tier_work(rig->sched->tier);
    if (rig->sched->tier && rng_u32(&rig->rng) % 4 == 0)
        sched_spill_idle(rig->sched);
    return again;
}

void rig_finish(struct rig *rig, struct outcome *outcomes, uint32_t n)
{
    for (unsigned i = 0; rig_tick(rig); i++) {
        rig_collect(rig, outcomes, n);
        assert_true(i < 1000000);
    }
    rig_collect(rig, outcomes, n);
    assert_null(rig->sched->live);
    assert_int_equal(kv_pool_n_free(rig->sched->runner->pool),
                     kv_pool_n_blocks(rig->sched->runner->pool));
    if (rig->sched->speculation && rig->sched->speculation->drafter) {
        const struct kv_pool *pool = rig->sched->speculation->drafter->runner->pool;

        assert_int_equal(kv_pool_n_free(pool), kv_pool_n_blocks(pool));
    }
}

void rig_alone(const struct null_options *null, uint32_t n_ctx, const struct inf_request *q,
               struct outcome *ret_outcome)
{
    const struct rig_params params = {.null = *null, .n_ctx = n_ctx, .max_seqs = RIG_MAX_CHOICES};
    struct inf_request copy = *q;
    struct rig rig;

    *ret_outcome = (struct outcome){.n_choices = MAX(q->n_choices, 1)};
    copy.user = ret_outcome;
    rig_init(&rig, &params);
    ret_outcome->id = rig_submit(&rig, &copy);
    rig_finish(&rig, ret_outcome, 1);
    rig_done(&rig);
}

void outcome_done(struct outcome *o)
{
    for (uint32_t i = 0; i < RIG_MAX_CHOICES; i++) {
        str_done(&o->choices[i].text);
        str_done(&o->choices[i].ids);
    }
}

void outcomes_equal(const struct outcome *a, const struct outcome *b)
{
    outcomes_close(a, b, 0);
}

/* Compares two sums, which are -infinity for an impossible token. */
static void assert_near(double a, double b, double tolerance)
{
    assert_true(a == b || fabs(a - b) <= tolerance);
}

void outcomes_close(const struct outcome *a, const struct outcome *b, double tolerance)
{
    assert_int_equal(a->n_choices, b->n_choices);
    for (uint32_t i = 0; i < a->n_choices; i++) {
        const struct choice *x = &a->choices[i], *y = &b->choices[i];

        assert_true(x->finished && y->finished);
        assert_int_equal(x->finish, y->finish);
        assert_int_equal(x->text.len, y->text.len);
        if (x->text.len > 0)
            assert_memory_equal(x->text.data, y->text.data, x->text.len);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_int_equal(x->n_generated, y->n_generated);
        assert_near(x->logprobs, y->logprobs, tolerance);
    }
    assert_near(a->prompt_logprobs, b->prompt_logprobs, tolerance);
    assert_int_equal(a->n_prompt_tops, b->n_prompt_tops);
}

void random_request(struct random_request *r, uint64_t seed, uint32_t max_prompt,
                    uint32_t max_tokens)
{
    static const struct inf_stop stops[] = {{"ab", 2}, {"\xc3\xbc", 2}};
    struct rng rng;

    rng_seed(&rng, seed);
    *r = (struct random_request){0};
    r->q.tokens = r->tokens;
    r->q.n_tokens = 1 + rng_u32(&rng) % MIN(max_prompt, 64);
    for (size_t i = 0; i < r->q.n_tokens; i++)
        r->tokens[i] = (int32_t)(rng_u32(&rng) % 256);
    r->q.max_tokens = 1 + rng_u32(&rng) % max_tokens;
    r->q.n_choices = rng_u32(&rng) % 4 == 0 ? 1 + rng_u32(&rng) % 4 : 1;
    r->q.n_logprobs = (int)(rng_u32(&rng) % 5) - 1;
    r->q.prompt_logprobs = rng_u32(&rng) % 4 == 0;
    r->q.ignore_eos = rng_u32(&rng) % 2;
    r->q.sampling.has_seed = true;
    r->q.sampling.seed = seed;
    if (rng_u32(&rng) % 2) {
        r->q.sampling.temperature = 1;
        r->q.sampling.top_p = rng_u32(&rng) % 2 ? 0.9f : 0;
        r->q.sampling.top_k = rng_u32(&rng) % 2 ? 40 : 0;
        r->q.sampling.repetition_penalty = rng_u32(&rng) % 2 ? 1.1f : 0;
        r->q.sampling.penalty_last_n = 64;
        r->q.sampling.presence_penalty = rng_u32(&rng) % 2 ? 0.5f : 0;
    }
    if (rng_u32(&rng) % 2) {
        r->q.stops = stops;
        r->q.n_stops = 2;
    }
}

struct inf_request family_prompt(int32_t *tokens, uint32_t n, uint64_t family, uint32_t n_common,
                                 uint64_t seed)
{
    struct rng common, own;

    rng_seed(&common, family);
    rng_seed(&own, seed);
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(rng_u32(i < n_common ? &common : &own) % 256);
    return (struct inf_request){
        .tokens = tokens, .n_tokens = n, .max_tokens = 10, .n_logprobs = -1, .ignore_eos = true};
}

void family_request(struct random_request *r, uint64_t seed)
{
    static const char *const tenants[] = {NULL, NULL, "a", "b"};
    struct rng rng;

    random_request(r, seed, 56, 40);
    rng_seed(&rng, seed);
    family_prompt(r->tokens, (uint32_t)r->q.n_tokens, rng_u32(&rng) % 4, rng_u32(&rng) % 80, seed);
    r->q.prompt_logprobs = rng_u32(&rng) % 16 == 0;
    r->q.no_cache = rng_u32(&rng) % 16 == 0;
    r->q.cache_tenant = tenants[rng_u32(&rng) % 4];
    r->q.session = rng_u32(&rng) % 4 == 0 ? "s" : NULL;
    if (rng_u32(&rng) % 8 == 0) {
        r->q.cache_salt = "salt";
        r->q.cache_salt_len = 4;
    }
}
