/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiny models of every architecture, with keys and values as each kind of numbers: what one engine
 * computed the next one reads, and tokens and log-probabilities are those of an engine without a
 * tier, bit for bit.
 */
#include "../sched/fake_tier.h"
#include "lib/test.h"

#include <infer/infer.h>

#include "api/handle.h"
#include "core/macros.h"
#include "core/rng.h"

#define BLOCK    64
#define N_PROMPT 200
#define N_TOKENS 80

static const char *const names[] = {
    "llama-gqa",  "llama3-scaled",    "llama-linear", "llama-yarn", "mistral-window",
    "qwen2-tied", "qwen2-window-mix", "qwen3-norm",   "qwen3-bf16",
};
static const char *const numbers[] = {"f32",  "f16", "bf16",     "q8_0",
                                      "q4_0", "fp8", "fp8:q8_0", "f16:q4_0"};

struct answer {
    uint32_t n, n_cached;
    int32_t tokens[N_TOKENS];
    float logprobs[N_TOKENS];
};

static void ask(struct inf_engine *engine, const int32_t *prompt, struct answer *a)
{
    const struct inf_request q = {
        .tokens = prompt,
        .n_tokens = N_PROMPT,
        .max_tokens = N_TOKENS,
        .n_logprobs = 0,
        .ignore_eos = true,
    };
    struct inf_event e;
    struct inf_err err;
    uint64_t id;

    *a = (struct answer){0};
    ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
    do {
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        for (size_t i = 0; e.kind == INF_EVENT_TOKENS && i < e.n_tokens; i++, a->n++) {
            a->tokens[a->n] = e.tokens[i].token;
            a->logprobs[a->n] = e.tokens[i].logprob;
        }
    } while (e.kind != INF_EVENT_FINISH);
    assert_int_equal(e.finish, INF_FINISH_LENGTH);
    a->n_cached = e.n_cached;
}

/* On an engine of its own; false: its numbers are none for this model. */
static bool run(struct inf_model *model, const char *kv_type, struct fake_tier *tier,
                const int32_t *prompt, struct answer *a)
{
    const struct inf_engine_params params = {
        .model = model,
        .device = "cpu",
        .n_threads = 2,
        .n_ctx = 512,
        .max_seqs = 1,
        .kv_type = kv_type,
        .tier = tier ? &tier->base : NULL,
    };
    struct inf_engine *engine;
    struct inf_err err;
    int r;

    r = inf_engine_new(&params, &engine, &err);
    if (r == -EOPNOTSUPP)
        return false;
    ASSERT_OK_ERR(r, err);
    /* Models as small as these are computed faster than anything is read, and sooner than asked. */
    engine->sched->fetching.margin = 0;
    engine->sched->fetching.first_tok_s = 1;
    ask(engine, prompt, a);
    inf_engine_free(engine);
    return true;
}

static void check(struct inf_model *model, const char *kv_type)
{
    struct answer alone, first, again;
    int32_t prompt[N_PROMPT];
    struct fake_tier tier;
    struct rng rng;

    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)(rng_u32(&rng) % inf_model_info(model)->n_vocab);
    if (!run(model, kv_type, NULL, prompt, &alone))
        return;
    fake_tier_init(&tier, 1);
    assert_true(run(model, kv_type, &tier, prompt, &first));
    assert_int_equal(tier.n_put_blocks, (N_PROMPT + N_TOKENS - 1) / BLOCK);
    assert_true(run(model, kv_type, &tier, prompt, &again));
    assert_int_equal(again.n_cached, N_PROMPT / BLOCK * BLOCK);
    assert_int_equal(tier.n_rejects, 0);
    assert_memory_equal(alone.tokens, first.tokens, sizeof(alone.tokens));
    assert_memory_equal(alone.tokens, again.tokens, sizeof(alone.tokens));
    assert_memory_equal(alone.logprobs, first.logprobs, sizeof(alone.logprobs));
    assert_memory_equal(alone.logprobs, again.logprobs, sizeof(alone.logprobs));
    fake_tier_done(&tier);
}

TEST(every_model_reads_what_it_left)
{
    for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
        struct inf_model_params params = {0};
        struct inf_model *model;
        struct inf_err err;
        char sub[64], path[4096];

        snprintf(sub, sizeof(sub), "models/%s", names[i]);
        snprintf(path, sizeof(path), "%s", test_golden(sub));
        params.path = path;
        ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
        for (unsigned k = 0; k < ARRAY_SIZE(numbers); k++)
            check(model, numbers[k]);
        inf_model_unref(model);
    }
}

RUN_TESTS(cmocka_unit_test(every_model_reads_what_it_left))
