/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the public API of the engine with a real model. Requests run alone and in parallel, with
 * one or several choices, and end for each reason. Log-probabilities are compared with those of
 * plain forward passes. Invalid requests are rejected.
 */
#include "lib/test.h"

#include <errno.h>
#include <math.h>

#include <jansson.h>

#include <infer/infer.h>

#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"

#define MODEL "models/stories260K/stories260K.gguf"
#define N_MAX 24

struct answer {
    uint64_t id;
    struct str text[4];
    int32_t tokens[4][160];
    float logprobs[4][160];
    uint32_t n_tokens[4];
    enum inf_finish finish[4];
    float prompt_logprobs[64];
    bool over;
};

static struct inf_model *open_model(void)
{
    const char *path = test_data(MODEL);
    const struct inf_model_params params = {.path = path};
    struct inf_model *model;
    struct inf_err err;

    if (!path)
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}

static struct inf_engine *new_engine(struct inf_model *model, uint32_t max_seqs)
{
    const struct inf_engine_params params = {
        .model = model, .n_threads = 2, .n_ctx = 256, .max_seqs = max_seqs};
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    return engine;
}

static int32_t *encode(struct inf_model *model, const char *text, size_t *ret_n)
{
    int32_t *ids;

    ASSERT_OK(inf_tokenizer_encode(inf_model_tokenizer(model), text, strlen(text),
                                   INF_ENCODE_ADD_SPECIAL, 0, &ids, ret_n));
    return ids;
}

static void take(struct answer *a, const struct inf_event *e)
{
    const uint32_t c = e->choice;

    if (e->kind == INF_EVENT_PROMPT)
        for (size_t i = 0; i < e->n_tokens; i++)
            a->prompt_logprobs[i] = e->tokens[i].logprob;
    if (e->kind == INF_EVENT_TOKENS) {
        ASSERT_OK(str_append(&a->text[c], e->text, e->text_len));
        for (size_t i = 0; i < e->n_tokens; i++) {
            a->logprobs[c][a->n_tokens[c]] = e->tokens[i].logprob;
            a->tokens[c][a->n_tokens[c]++] = e->tokens[i].token;
            for (uint32_t k = 1; k < e->tokens[i].n_top; k++)
                assert_true(e->tokens[i].top[k - 1].logprob >= e->tokens[i].top[k].logprob);
        }
    }
    if (e->kind == INF_EVENT_FINISH) {
        a->finish[c] = e->finish;
        a->over |= e->last;
    }
}

static void wait_for(struct inf_engine *engine, struct answer *answers, size_t n)
{
    for (size_t i = 0; i < n;) {
        struct inf_event e;

        if (answers[i].over) {
            i++;
            continue;
        }
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        take(e.user, &e);
    }
}

static void ask(struct inf_engine *engine, struct inf_request q, struct answer *a)
{
    struct inf_err err;

    q.user = a;
    ASSERT_OK_ERR(inf_engine_submit(engine, &q, &a->id, &err), err);
}

static void answer_done(struct answer *a)
{
    for (size_t i = 0; i < 4; i++)
        str_done(&a->text[i]);
}

static const char *const prompts[] = {
    "Once upon a time",
    "Lily and Tom went to the park.",
    "The big dog",
    "One day, a boy named Sam",
    "A cat",
    "It was raining and the little girl wanted to play outside with her new red ball.",
};

TEST(text_is_the_same_alone_and_beside_other_requests)
{
    struct inf_model *model = open_model();
    struct inf_engine *alone = new_engine(model, 1), *together = new_engine(model, 16);
    static struct answer a[N_MAX], b[N_MAX];
    struct rng rng;

    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < N_MAX; i++) {
        struct inf_request q = {
            .max_tokens = 40 + 4 * i,
            .n_logprobs = 0,
            .sampling = {.temperature = i % 3 == 2 ? 0.8f : 0, .has_seed = true, .seed = i},
        };
        int32_t *ids = encode(model, prompts[i % ARRAY_SIZE(prompts)], &q.n_tokens);

        q.tokens = ids;
        ask(alone, q, &a[i]);
        wait_for(alone, &a[i], 1);
        ask(together, q, &b[i]);
        usleep(rng_u32(&rng) % 3000);
        free(ids);
    }
    wait_for(together, b, N_MAX);
    for (uint32_t i = 0; i < N_MAX; i++) {
        assert_int_equal(a[i].text[0].len, b[i].text[0].len);
        assert_memory_equal(a[i].text[0].data, b[i].text[0].data, a[i].text[0].len);
        assert_int_equal(a[i].finish[0], b[i].finish[0]);
        assert_int_equal(a[i].n_tokens[0], b[i].n_tokens[0]);
        for (uint32_t k = 0; k < a[i].n_tokens[0]; k++)
            assert_true(a[i].logprobs[0][k] == b[i].logprobs[0][k]);
        answer_done(&a[i]);
        answer_done(&b[i]);
    }
    inf_engine_free(alone);
    inf_engine_free(together);
    inf_model_unref(model);
}

TEST(choices_have_seeds_of_their_own)
{
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 8);
    static struct answer four, one;
    struct inf_request q = {
        .max_tokens = 30,
        .n_choices = 4,
        .n_logprobs = -1,
        .sampling = {.temperature = 1, .has_seed = true, .seed = 40},
    };
    int32_t *ids = encode(model, prompts[1], &q.n_tokens);

    q.tokens = ids;
    four = (struct answer){0};
    ask(engine, q, &four);
    wait_for(engine, &four, 1);
    for (uint32_t i = 0; i < 4; i++) {
        one = (struct answer){0};
        q.n_choices = 1;
        q.sampling.seed = 40 + i;
        ask(engine, q, &one);
        wait_for(engine, &one, 1);
        assert_int_equal(one.text[0].len, four.text[i].len);
        assert_memory_equal(one.text[0].data, four.text[i].data, one.text[0].len);
        assert_int_equal(four.finish[i], INF_FINISH_LENGTH);
        answer_done(&one);
    }
    assert_true(four.text[0].len != four.text[1].len ||
                memcmp(four.text[0].data, four.text[1].data, four.text[0].len) != 0);
    answer_done(&four);
    free(ids);
    inf_engine_free(engine);
    inf_model_unref(model);
}

static double log_softmax(const float *row, uint32_t n, int32_t token)
{
    double max = -INFINITY, sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = fmax(max, (double)row[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return (double)row[token] - max - log(sum);
}

TEST(log_probabilities_are_those_of_plain_forward_passes)
{
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 4);
    const uint32_t n_vocab = inf_model_info(model)->n_vocab;
    static struct answer a;
    struct inf_request q = {.max_tokens = 50, .n_logprobs = 5, .prompt_logprobs = true};
    int32_t *ids = encode(model, prompts[5], &q.n_tokens), all[256];
    struct inf_err err;
    float *logits;

    q.tokens = ids;
    a = (struct answer){0};
    ask(engine, q, &a);
    wait_for(engine, &a, 1);
    assert_int_equal(a.n_tokens[0], 50);
    memcpy(all, ids, q.n_tokens * sizeof(*ids));
    memcpy(all + q.n_tokens, a.tokens[0], 50 * sizeof(*ids));
    ASSERT_OK_ERR(inf_logits(&(struct inf_logits_params){.model = model, .n_threads = 1}, all,
                             q.n_tokens + 50, &logits, &err),
                  err);
    assert_true(isnan(a.prompt_logprobs[0]));
    for (size_t i = 1; i < q.n_tokens + 50; i++) {
        const double want = log_softmax(logits + (i - 1) * n_vocab, n_vocab, all[i]);
        const float got = i < q.n_tokens ? a.prompt_logprobs[i] : a.logprobs[0][i - q.n_tokens];

        assert_true(fabs(want - (double)got) < 1e-5);
    }
    free(logits);
    free(ids);
    answer_done(&a);
    inf_engine_free(engine);
    inf_model_unref(model);
}

static void refuse(struct inf_engine *engine, const struct inf_request *q, int code,
                   const char *reason)
{
    struct inf_err err = {0};
    uint64_t id;

    ASSERT_ERROR(inf_engine_submit(engine, q, &id, &err), code);
    ASSERT_CONTAINS(err.text, reason);
}

TEST(bad_requests_are_refused_with_reasons)
{
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 4);
    static int32_t tokens[300];
    const struct inf_request good = {.tokens = tokens, .n_tokens = 3, .n_logprobs = -1};
    struct inf_logit_bias bias = {100000, 1};
    struct inf_stop stop = {"", 0};
    struct inf_request q;

    refuse(engine, &(struct inf_request){0}, EINVAL, "empty");
    q = good;
    q.n_tokens = 256;
    refuse(engine, &q, E2BIG, "context");
    tokens[1] = 512;
    refuse(engine, &good, EINVAL, "vocabulary");
    tokens[1] = -1;
    refuse(engine, &good, EINVAL, "vocabulary");
    tokens[1] = 0;
    q = good;
    q.sampling.temperature = NAN;
    refuse(engine, &q, EINVAL, "temperature");
    q = good;
    q.sampling.top_p = 1.5f;
    refuse(engine, &q, EINVAL, "top_p");
    q = good;
    q.sampling.repetition_penalty = -1;
    refuse(engine, &q, EINVAL, "repetition_penalty");
    q = good;
    q.sampling.frequency_penalty = INFINITY;
    refuse(engine, &q, EINVAL, "frequency_penalty");
    q = good;
    q.sampling.logit_bias = &bias;
    q.sampling.n_logit_bias = 1;
    refuse(engine, &q, EINVAL, "logit_bias");
    q = good;
    q.n_logprobs = 1000;
    refuse(engine, &q, EINVAL, "n_logprobs");
    q = good;
    q.n_choices = 100000;
    refuse(engine, &q, EINVAL, "choices");
    q = good;
    q.stops = &stop;
    q.n_stops = 1;
    refuse(engine, &q, EINVAL, "stop");
    stop = (struct inf_stop){"\xff", 1};
    refuse(engine, &q, EINVAL, "UTF-8");
    inf_engine_cancel(engine, 77);
    assert_int_equal(inf_engine_n_ctx(engine), 256);
    assert_int_equal(inf_engine_n_threads(engine), 2);
    assert_non_null(inf_engine_isa(engine));
    inf_engine_free(engine);
    inf_model_unref(model);
}

TEST(sampling_and_token_lists_are_checked)
{
    static const int32_t ids[] = {1}, bad[] = {100000};
    static const uint8_t twice[] = {INF_STAGE_TOP_K, INF_STAGE_XTC, INF_STAGE_TOP_K};
    static const uint8_t unknown[] = {INF_N_STAGES};
    const struct inf_breaker empty = {"", 0}, ok = {"x", 1};
    const struct {
        struct inf_sampling sampling;
        const char *word;
    } cases[] = {
        {{.dynatemp_range = -1}, "dynatemp_range"},
        {{.top_n_sigma = NAN}, "top_n_sigma"},
        {{.xtc_probability = 2}, "xtc_probability"},
        {{.mirostat = 3}, "mirostat"},
        {{.mirostat = 1, .mirostat_tau = -1}, "mirostat_tau"},
        {{.order = twice, .n_order = 3}, "twice"},
        {{.order = unknown, .n_order = 1}, "no such stage"},
        {{.dry_multiplier = INFINITY}, "dry_multiplier"},
        {{.dry_breakers = &empty, .n_dry_breakers = 1}, "breaker"},
        {{.dry_breakers = &ok, .n_dry_breakers = 1000}, "breakers"},
    };
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 2);
    struct inf_request q = {.tokens = ids, .n_tokens = 1, .n_logprobs = -1};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        q.sampling = cases[i].sampling;
        refuse(engine, &q, EINVAL, cases[i].word);
    }
    q.sampling = (struct inf_sampling){0};
    q.stop_tokens = bad;
    q.n_stop_tokens = 1;
    refuse(engine, &q, EINVAL, "stop_tokens");
    q.n_stop_tokens = 5000;
    refuse(engine, &q, EINVAL, "stop_tokens");
    q.n_stop_tokens = 0;
    q.channel = (struct inf_channel){.close = bad, .n_close = 1};
    refuse(engine, &q, EINVAL, "channel.close");
    inf_engine_free(engine);
    inf_model_unref(model);
}

/* Generates a text with DRY and some other stages of sampling. */
TEST(further_samplers_and_histograms_work_with_a_model)
{
    static const struct inf_breaker breakers[] = {{"\n", 1}, {".", 1}, {". The", 5}};
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 4);
    static struct answer a, b;
    struct inf_engine_stats stats;
    struct inf_request q = {.max_tokens = 60, .n_logprobs = -1};
    int32_t *ids = encode(model, prompts[1], &q.n_tokens);

    q.tokens = ids;
    q.sampling = (struct inf_sampling){.temperature = 1,
                                       .has_seed = true,
                                       .top_n_sigma = 1.5f,
                                       .dry_multiplier = 0.8f,
                                       .dry_base = 1.75f,
                                       .dry_allowed_length = 2,
                                       .dry_breakers = breakers,
                                       .n_dry_breakers = 3};
    a = b = (struct answer){0};
    ask(engine, q, &a);
    wait_for(engine, &a, 1);
    ask(engine, q, &b);
    wait_for(engine, &b, 1);
    assert_memory_equal(a.tokens[0], b.tokens[0], 60 * sizeof(int32_t));
    inf_engine_stats(engine, &stats);
    assert_int_equal(stats.queue_seconds.count, 2);
    assert_int_equal(stats.first_token_seconds.count, 2);
    assert_int_equal(stats.next_token_seconds.count, 118);
    assert_int_equal(stats.step_tokens.count, stats.n_steps);
    assert_true(stats.step_tokens.sum == (double)(stats.n_prompt_tokens + 118));
    assert_true(stats.step_seqs.buckets[0] == stats.n_steps);
    assert_true(inf_histogram_bounds(INF_HISTOGRAM_NUMBER)[15] == 32768);
    answer_done(&a);
    answer_done(&b);
    free(ids);
    inf_engine_free(engine);
    inf_model_unref(model);
}

/* Returns whether a text is a whole JSON object. */
static bool is_object(const struct str *text)
{
    json_t *json = json_loadb(text->data, text->len, 0, NULL);
    const bool is = json_is_object(json);

    json_decref(json);
    return is;
}

TEST(a_grammar_guides_all_choices_of_a_model)
{
    struct inf_model *model = open_model();
    struct inf_engine *engine = new_engine(model, 4);
    struct inf_grammar_vocab *vocab;
    struct inf_request q = {.n_choices = 4, .n_logprobs = 0, .max_tokens = 120};
    int32_t *ids = encode(model, prompts[1], &q.n_tokens);
    uint32_t n_whole = 0;
    struct inf_err err;

    ASSERT_OK(inf_grammar_vocab_new(inf_model_tokenizer(model), &vocab));
    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_JSON, "", 0, &q.grammar, &err), err);
    q.tokens = ids;
    for (uint64_t seed = 0; seed < 5; seed++) {
        static struct answer a;

        a = (struct answer){0};
        q.sampling = (struct inf_sampling){.temperature = 2, .has_seed = true, .seed = seed * 4};
        q.sampling.repetition_penalty = seed % 2 ? 1.1f : 0;
        q.sampling.penalty_last_n = 64;
        ask(engine, q, &a);
        wait_for(engine, &a, 1);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(a.finish[i] == INF_FINISH_STOP || a.finish[i] == INF_FINISH_LENGTH);
            assert_int_equal(a.text[i].data[0], '{');
            if (a.finish[i] == INF_FINISH_STOP)
                assert_true(is_object(&a.text[i]));
            n_whole += a.finish[i] == INF_FINISH_STOP;
        }
        answer_done(&a);
    }
    assert_true(n_whole > 0);
    inf_grammar_unref(q.grammar);
    inf_grammar_vocab_unref(vocab);
    free(ids);
    inf_engine_free(engine);
    inf_model_unref(model);
}

TEST(engines_refuse_impossible_parameters)
{
    struct inf_model *model = open_model();
    struct inf_engine_params p = {.model = model, .device = "abacus"};
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    p = (struct inf_engine_params){.model = model, .isa = "mmx"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    p = (struct inf_engine_params){.model = model, .n_ctx = 512, .kv_bytes = 100000};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "n_ctx");
    p = (struct inf_engine_params){.model = model, .kv_type = "q4_0:f16"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "multiple of 32");
    p = (struct inf_engine_params){.model = model, .kv_type = "f16:q9"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    ASSERT_CONTAINS(err.text, ": q9;");
    p = (struct inf_engine_params){.model = model, .kv_type = "f16:"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    p = (struct inf_engine_params){.model = model, .kv_type = "f16+recent"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    p = (struct inf_engine_params){.model = model, .kv_type = "f16+new"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    p = (struct inf_engine_params){.model = model, .kv_type = "q8_0"};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "multiple of 32");
    p = (struct inf_engine_params){.model = model, .n_ctx = 1};
    ASSERT_ERROR(inf_engine_new(&p, &engine, &err), EINVAL);
    ASSERT_ERROR(inf_engine_new(&(struct inf_engine_params){0}, &engine, &err), EINVAL);
    /* If there is too little memory for the model's context, the context becomes shorter, unless
     * the caller requested a length. */
    p = (struct inf_engine_params){.model = model, .kv_bytes = 200000, .kv_type = "f32"};
    ASSERT_OK_ERR(inf_engine_new(&p, &engine, &err), err);
    assert_in_range(inf_engine_n_ctx(engine), 64, 192);
    inf_engine_free(engine);
    p = (struct inf_engine_params){.model = model, .kv_type = "fp8:bf16"};
    ASSERT_OK_ERR(inf_engine_new(&p, &engine, &err), err);
    inf_engine_free(engine);
    /* The fake device also works through the public API. */
    p = (struct inf_engine_params){.model = model, .device = "null"};
    ASSERT_OK_ERR(inf_engine_new(&p, &engine, &err), err);
    ASSERT_STREQ(inf_engine_isa(engine), "null");
    inf_engine_free(engine);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(text_is_the_same_alone_and_beside_other_requests),
          cmocka_unit_test(choices_have_seeds_of_their_own),
          cmocka_unit_test(log_probabilities_are_those_of_plain_forward_passes),
          cmocka_unit_test(bad_requests_are_refused_with_reasons),
          cmocka_unit_test(sampling_and_token_lists_are_checked),
          cmocka_unit_test(further_samplers_and_histograms_work_with_a_model),
          cmocka_unit_test(a_grammar_guides_all_choices_of_a_model),
          cmocka_unit_test(engines_refuse_impossible_parameters))
