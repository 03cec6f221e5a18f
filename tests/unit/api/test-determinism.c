/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that equal requests give the same tokens and log-probabilities, bit for bit, for any number
 * of threads, size of steps and set of concurrent requests. This holds for greedy choices, and for
 * each kind of sampling with a seed. It also holds for prompts that are computed at once, are
 * computed in pieces, or are found in the prefix cache. The tests run on the CPU or on
 * $SCONCE_DEVICE.
 */
#include "lib/device.h"

#include <infer/infer.h>

#include "core/clock.h"
#include "core/macros.h"
#include "core/rng.h"
#include "core/str.h"
#include "lib/draw.h"

#define N_ASKED   8 /* requests whose answers are compared */
#define N_COMPANY 9 /* concurrent other requests, which come and go */
#define N_TOKENS  40
#define MAX_TOP   5

struct answer {
    uint32_t n;
    int32_t tokens[N_TOKENS];
    float logprobs[N_TOKENS];
    float top[N_TOKENS][MAX_TOP];
    double prompt;
    struct str text;
    bool over;
};

struct question {
    int32_t tokens[400];
    struct inf_request q;
};

static const struct inf_sampling kinds[N_ASKED] = {
    {.temperature = 0},
    {.temperature = 1},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
    {.temperature = 1.2f, .top_p = 0.9f},
    {.temperature = 1, .min_p = 0.02f},
    {.temperature = 1, .typical_p = 0.8f},
    {.temperature = 0, .repetition_penalty = 1.2f, .penalty_last_n = 64, .frequency_penalty = 0.2f},
    {.temperature = 0.7f, .top_p = 0.5f, .presence_penalty = 0.5f},
};

/* Makes a prompt of random tokens; its length also follows from the seed. */
static void make_question(struct question *w, uint64_t seed, uint32_t n_vocab)
{
    struct rng rng;

    rng_seed(&rng, seed);
    *w = (struct question){.q = {.tokens = w->tokens,
                                 .max_tokens = N_TOKENS,
                                 .sampling = kinds[seed % N_ASKED],
                                 .n_logprobs = MAX_TOP,
                                 .prompt_logprobs = seed % 3 == 0,
                                 .ignore_eos = true}};
    w->q.n_tokens = 1 + rng_u32(&rng) % (seed % 2 ? 20 : ARRAY_SIZE(w->tokens));
    for (size_t i = 0; i < w->q.n_tokens; i++)
        w->tokens[i] = (int32_t)(rng_u32(&rng) % n_vocab);
    w->q.sampling.has_seed = true;
    w->q.sampling.seed = seed;
}

static void take(struct answer *a, const struct inf_event *e)
{
    if (e->kind == INF_EVENT_PROMPT)
        for (size_t i = 1; i < e->n_tokens; i++)
            a->prompt += (double)e->tokens[i].logprob;
    if (e->kind == INF_EVENT_TOKENS) {
        ASSERT_OK(str_append(&a->text, e->text, e->text_len));
        for (size_t i = 0; i < e->n_tokens; i++, a->n++) {
            a->tokens[a->n] = e->tokens[i].token;
            a->logprobs[a->n] = e->tokens[i].logprob;
            for (uint32_t k = 0; k < e->tokens[i].n_top; k++)
                a->top[a->n][k] = e->tokens[i].top[k].logprob;
        }
    }
    if (e->kind == INF_EVENT_FINISH)
        a->over = true;
}

struct way {
    uint32_t n_threads, max_seqs, max_batch_tokens;
    bool company;
    const char *kv_type;
    unsigned n_known; /* the number of times that all prompts were sent before */
};

static void submit(struct inf_engine *engine, struct question *w, struct answer *a)
{
    struct inf_err err;
    uint64_t id;

    w->q.user = a;
    ASSERT_OK_ERR(inf_engine_submit(engine, &w->q, &id, &err), err);
}

/* Sends all prompts. With @company, other requests run at the same time. @known: whether some
 * tokens must be cached. */
static void ask_all(struct inf_engine *engine, uint32_t n_vocab, bool company, bool known,
                    struct answer *answers)
{
    static struct question questions[N_ASKED + N_COMPANY];
    static struct answer others[N_COMPANY];
    uint32_t n_over = 0, n_all = N_ASKED, n_cached = 0;

    for (uint32_t i = 0; i < N_ASKED; i++)
        str_done(&answers[i].text);
    memset(answers, 0, N_ASKED * sizeof(*answers));
    memset(others, 0, sizeof(others));
    for (uint32_t i = 0; i < N_ASKED; i++) {
        make_question(&questions[i], i, n_vocab);
        submit(engine, &questions[i], &answers[i]);
        if (!company || i >= N_COMPANY)
            continue;
        make_question(&questions[N_ASKED + i], 100 + i, n_vocab);
        questions[N_ASKED + i].q.max_tokens = 1 + 5 * i;
        submit(engine, &questions[N_ASKED + i], &others[i]);
        n_all++;
    }
    while (n_over < n_all) {
        struct inf_event e;

        assert_int_equal(inf_engine_wait_event(engine, 120000, &e), 1);
        take(e.user, &e);
        n_over += e.kind == INF_EVENT_FINISH;
        n_cached += e.kind == INF_EVENT_FINISH ? e.n_cached : 0;
    }
    for (uint32_t i = 0; i < N_COMPANY; i++)
        str_done(&others[i].text);
    assert_int_equal(n_cached > 0, known);
}

static void answer_all(struct inf_model *model, const struct test_target *on, const struct way *way,
                       struct answer *answers)
{
    const uint32_t n_vocab = inf_model_info(model)->n_vocab;
    const struct inf_engine_params params = {
        .model = model,
        .device = on->device,
        .n_threads = way->n_threads,
        .n_ctx = 512,
        .max_seqs = way->max_seqs,
        .max_batch_tokens = way->max_batch_tokens,
        .kv_type = way->kv_type,
    };
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    for (unsigned i = 0; i <= way->n_known; i++)
        ask_all(engine, n_vocab, way->company, i > 0, answers);
    inf_engine_free(engine);
}

static void compare(const struct way *way, const struct answer *a, const struct answer *b)
{
    for (uint32_t i = 0; i < N_ASKED; i++) {
        const bool same = a[i].n == N_TOKENS && b[i].n == N_TOKENS && a[i].prompt == b[i].prompt &&
                          memcmp(a[i].tokens, b[i].tokens, sizeof(a[i].tokens)) == 0 &&
                          memcmp(a[i].logprobs, b[i].logprobs, sizeof(a[i].logprobs)) == 0 &&
                          memcmp(a[i].top, b[i].top, sizeof(a[i].top)) == 0 &&
                          a[i].text.len == b[i].text.len &&
                          memcmp(a[i].text.data, b[i].text.data, a[i].text.len) == 0;

        if (!same)
            fail_msg("request %u differs with %u threads, %u sequences, %u rows%s%s, %s", i,
                     way->n_threads, way->max_seqs, way->max_batch_tokens,
                     way->company ? ", with other requests" : "",
                     way->n_known > 0 ? ", with cached prompts" : "",
                     way->kv_type ? way->kv_type : "auto");
    }
}

/* Returns whether a variant runs. On the CPU all variants run, or one in four if the tests are
 * slowed down, for example by sanitizers. On a device one in eight runs, because lavapipe takes
 * seconds for each. */
static bool way_is_drawn(const struct test_target *on)
{
    const bool is_cpu = strcmp(on->device, "cpu") == 0;

    return is_cpu && test_slowness() <= 1 ? true : test_drawn(is_cpu ? 4 : 8);
}

/* Compares all variants with the first one. */
static void check_ways(struct inf_model *model, const struct test_target *on,
                       const struct way *ways, size_t n_ways)
{
    static struct answer first[N_ASKED], again[N_ASKED];

    answer_all(model, on, &ways[0], first);
    for (size_t i = 1; i < n_ways; i++) {
        answer_all(model, on, &ways[i], again);
        compare(&ways[i], first, again);
    }
    for (size_t k = 0; k < N_ASKED; k++) {
        str_done(&first[k].text);
        str_done(&again[k].text);
    }
}

static void check_kv_type(struct inf_model *model, const struct test_target *on,
                          const char *kv_type)
{
    const struct way known[] = {
        {2, 16, 512, false, kv_type},
        {1, 3, 40, false, kv_type, 1},
    };

    if (way_is_drawn(on) && (kv_type[0] != 'q' || inf_model_info(model)->head_dim % 32 == 0))
        check_ways(model, on, known, ARRAY_SIZE(known));
}

static void check(const char *path)
{
    static const struct way ways[] = {
        {1, 1, 512, false}, {2, 1, 512, false}, {3, 1, 64, false},
        {1, 16, 512, true}, {2, 16, 512, true}, {3, 16, 64, true},
        {4, 5, 33, true},   {2, 8, 8, true},    {2, 16, 512, true, .n_known = 2},
    };
    static const char *const kv_types[] = {"f32", "f16", "bf16", "q8_0"},
                             *const cpu_kv_types[] = {"fp8",
                                                      "q4_0",
                                                      "q8_0:fp8",
                                                      "fp8:f32",
                                                      "q4_0+recent",
                                                      "q4_0:f16/0=q8_0:bf16",
                                                      "q4_0+recent/1=q4_0:q8_0/windows=q8_0"};
    const struct inf_model_params params = {.path = path};
    struct way drawn[ARRAY_SIZE(ways)] = {ways[0]};
    struct test_target on;
    struct inf_model *model;
    struct inf_err err;
    size_t n_drawn = 1;

    if (!test_target_at(0, &on))
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    for (size_t i = 1; i < ARRAY_SIZE(ways); i++)
        if (way_is_drawn(&on))
            drawn[n_drawn++] = ways[i];
    /* If no other variant was drawn, the current time selects one, so that at least one variant is
     * compared. */
    if (n_drawn == 1)
        drawn[n_drawn++] = ways[1 + clock_nsec() / 1000 % (ARRAY_SIZE(ways) - 1)];
    check_ways(model, &on, drawn, n_drawn);
    for (size_t i = 0; i < ARRAY_SIZE(kv_types); i++)
        check_kv_type(model, &on, kv_types[i]);
    for (size_t i = 0; strcmp(on.device, "cpu") == 0 && i < ARRAY_SIZE(cpu_kv_types); i++)
        check_kv_type(model, &on, cpu_kv_types[i]);
    inf_model_unref(model);
}

TEST(float_models_give_the_same_answers)
{
    const char *path = test_data("models/stories260K/stories260K.gguf");

    if (!path)
        skip();
    check(path);
}

/* SCONCE_MODEL names another model, for runs by hand. */
TEST(quantized_models_give_the_same_answers)
{
    const char *src = getenv("SCONCE_SRC"), *other = getenv("SCONCE_MODEL");
    char path[4096];

    snprintf(path, sizeof(path), "%s/packaging/guide/sconce-guide.gguf", src ? src : ".");
    check(other ? other : path);
}

RUN_TESTS(cmocka_unit_test(float_models_give_the_same_answers),
          cmocka_unit_test(quantized_models_give_the_same_answers))
