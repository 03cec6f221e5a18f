/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests with tiny models of each family that a text does not depend, bit for bit, on how an engine
 * computes it: alone or in a batch with other texts, whatever the sizes of its steps, after it was
 * preempted, as one of several choices, continued from blocks and snapshots of an earlier request,
 * and with drafts, which on the CPU change no bit. The tests run on the CPU or on $SCONCE_DEVICE.
 */
#include <errno.h>

#include "lib/device.h"

#include <infer/infer.h>

#include "api/draft-model.h"
#include "core/macros.h"
#include "core/rng.h"
#include "lib/draw.h"

#define BLOCK     64
#define N_CTX     320
#define N_TOKENS  70
#define N_TOP     3
#define N_CHOICES 3
#define N_ASKED   4 /* requests whose answers are compared */
#define N_COMPANY 5 /* concurrent other requests, with fewer tokens */
/* Blocks of a small KV cache. The prompts of the first two requests need 7, and their texts 9. */
#define N_TIGHT 6

/* The first N_ALWAYS models always run on the CPU: a hybrid, experts, and windows beside full
 * attention with heads of another shape and shared keys. */
enum { N_ALWAYS = 3 };
static const char *const names[] = {"qwen3_5", "qwen3_moe",  "gemma4",      "qwen3_5_moe",
                                    "gemma3",  "gemma4-moe", "gpt_oss.gguf"};

/* The second prompt is the beginning of the first. The first text ends in its fifth block. */
static const uint32_t n_prompts[N_ASKED] = {200, 130, 100, 20};

struct text {
    uint32_t n, n_cached;
    int32_t tokens[N_TOKENS];
    float logprobs[N_TOKENS], top[N_TOKENS][N_TOP];
};

struct answer {
    struct text choices[N_CHOICES];
};

struct way {
    const char *name;
    uint32_t n_threads, max_seqs, max_rows;
    bool no_cache;
    bool company; /* other requests run at the same time */
    bool tight;   /* the KV cache has N_TIGHT blocks */
    bool again;   /* all prompts were sent before */
    bool choices;
    const char *draft_kind; /* NULL: none */
    const char *draft_name; /* name of the draft model; NULL: the model itself */
    float temperature;
};

static const struct way ways[] = {
    {"alone", 1, 1, 512, .no_cache = true},
    {"in a batch", 2, 16, 512, .company = true},
    {"in small steps", 2, 16, 7, .no_cache = true, .company = true},
    {"after preemption", 2, 8, 128, .no_cache = true, .tight = true},
    {"after preemption, with a cache", 2, 8, 128, .tight = true},
    {"from snapshots", 2, 4, 512, .again = true},
    {"as choices", 1, 16, 50, .choices = true},
    {"with drafts", 2, 16, 100, .draft_kind = "suffix", .company = true, .again = true},
    {"with drafts that are right", 2, 16, 100, .draft_kind = "model", .company = true},
    {"with drafts of a hybrid", 2, 16, 100, .draft_kind = "auto", .draft_name = "qwen3_5",
     .company = true},
    {"with drafts after preemption", 2, 8, 128, .draft_kind = "model", .tight = true},
};

/* Makes request @i. Requests from N_ASKED on are company. */
static struct inf_request make_request(uint32_t i, uint32_t n_vocab, int32_t tokens[N_CTX],
                                       const struct way *way)
{
    const bool asked = i < N_ASKED;
    struct inf_request q = {
        .tokens = tokens,
        .n_tokens = asked ? n_prompts[i] : 1 + 37 * (i - N_ASKED),
        .max_tokens = asked ? N_TOKENS : 5 + 10 * (i - N_ASKED),
        .n_choices = way->choices ? N_CHOICES : 1,
        .ignore_eos = true,
        .n_logprobs = N_TOP,
        .sampling = {.temperature = way->temperature, .has_seed = true, .seed = i},
    };
    struct rng rng;

    rng_seed(&rng, i == 1 ? 0 : i);
    for (size_t j = 0; j < q.n_tokens; j++)
        tokens[j] = (int32_t)(rng_u32(&rng) % n_vocab);
    return q;
}

static void take(const struct inf_event *e)
{
    struct answer *a = e->user;
    struct text *t;

    if (!a)
        return;
    t = &a->choices[e->choice];
    for (size_t i = 0; e->kind == INF_EVENT_TOKENS && i < e->n_tokens; i++, t->n++) {
        assert_true(t->n < N_TOKENS && e->tokens[i].n_top == N_TOP);
        t->tokens[t->n] = e->tokens[i].token;
        t->logprobs[t->n] = e->tokens[i].logprob;
        for (uint32_t k = 0; k < N_TOP; k++)
            t->top[t->n][k] = e->tokens[i].top[k].logprob;
    }
    if (e->kind == INF_EVENT_FINISH) {
        assert_int_equal(e->finish, INF_FINISH_LENGTH);
        t->n_cached = e->n_cached;
    }
}

/* Sends all requests, and waits for all answers. */
static void ask_all(struct inf_engine *engine, const struct way *way, struct answer *answers)
{
    const uint32_t n_all = way->company ? N_ASKED + N_COMPANY : N_ASKED;
    const uint32_t n_vocab = inf_model_info(engine->model)->n_vocab;
    int32_t tokens[N_CTX];
    struct inf_event e;
    struct inf_err err;
    uint32_t n_over = 0;
    uint64_t id;

    memset(answers, 0, N_ASKED * sizeof(*answers));
    for (uint32_t i = 0; i < n_all; i++) {
        struct inf_request q = make_request(i, n_vocab, tokens, way);

        q.user = i < N_ASKED ? &answers[i] : NULL;
        ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
    }
    while (n_over < n_all) {
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        take(&e);
        n_over += e.kind == INF_EVENT_FINISH && e.last;
    }
}

static struct inf_model *open_model(const char *name)
{
    struct inf_model_params params = {0};
    struct inf_model *model;
    struct inf_err err;
    char sub[64];

    snprintf(sub, sizeof(sub), "models/%s", name);
    params.path = test_golden(sub);
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}

/* Opens an engine. Its KV cache has the default size if @kv_bytes is 0. A smaller cache does not
 * change the number format. */
static struct inf_engine *open_engine(struct inf_model *model, const struct test_target *on,
                                      const struct way *way, uint64_t kv_bytes)
{
    const bool drafts = way->draft_kind && strcmp(way->draft_kind, "suffix") != 0;
    struct inf_model *draft = NULL;
    struct inf_engine_params params = {.model = model,
                                       .device = on->device,
                                       .isa = on->isa,
                                       .n_threads = way->n_threads,
                                       .n_ctx = N_CTX,
                                       .max_seqs = way->max_seqs,
                                       .max_batch_tokens = way->max_rows,
                                       .no_prefix_cache = way->no_cache,
                                       .draft_kind = way->draft_kind,
                                       .kv_bytes = kv_bytes};
    struct inf_engine *engine;
    struct inf_err err;
    int r;

    if (drafts)
        draft = way->draft_name ? open_model(way->draft_name) : inf_model_ref(model);
    params.draft_model = draft;
    if (kv_bytes > 0) {
        const struct inf_engine_params roomy = {.model = model, .n_ctx = N_CTX};

        ASSERT_OK_ERR(inf_model_kv_auto(&roomy, &params.kv_type, &err), err);
    }
    r = inf_engine_new(&params, &engine, &err);
    inf_model_unref(draft);
    if (r == -EINVAL && kv_bytes > 0)
        return NULL;
    ASSERT_OK_ERR(r, err);
    if (way->draft_kind)
        engine->sched->speculation->ignores_cost = true;
    return engine;
}

/* Opens an engine whose KV cache is too small for the texts that it begins at the same time. */
static struct inf_engine *open_tight(struct inf_model *model, const struct test_target *on,
                                     const struct way *way)
{
    uint64_t least = 1 << 10, most = 1 << 24;

    while (least < most) {
        const uint64_t middle = (least + most) / 2;
        struct inf_engine *engine = open_engine(model, on, way, middle);
        const struct kv_pool *pool = engine ? engine->sched->runner->pool : NULL;
        const uint32_t n = pool ? kv_pool_layout(pool)->n_blocks[kv_pool_main_group(pool)] : 0;

        if (n == N_TIGHT)
            return engine;
        if (n < N_TIGHT)
            least = middle + 1;
        else
            most = middle;
        inf_engine_free(engine);
    }
    fail_msg("no size gives %u blocks", N_TIGHT);
    return NULL;
}

/* Checks that the engine computed the texts in the way that the test is about. */
static void check_way(struct inf_engine *engine, const struct way *way,
                      const struct answer *answers)
{
    struct inf_engine_stats stats;
    uint64_t n_prompt = 0;

    inf_engine_stats(engine, &stats);
    for (uint32_t i = 0; i < N_ASKED; i++) {
        n_prompt += n_prompts[i];
        if (way->again && !way->company)
            assert_int_equal(answers[i].choices[0].n_cached, (n_prompts[i] - 1) / BLOCK * BLOCK);
    }
    if (way->draft_kind)
        assert_true(stats.n_drafted > 0);
    /* Draft heads have random weights here, so chance decides whether a draft is accepted. */
    if (way->draft_kind && !draft_head_name(way->draft_kind))
        assert_true(stats.n_draft_accepted > 0);
    if (way->draft_kind && strcmp(way->draft_kind, "model") == 0)
        assert_int_equal(stats.n_draft_accepted, stats.n_drafted);
    if (way->tight && way->no_cache)
        assert_true(stats.n_prompt_tokens > n_prompt);
}

static void answer_all(struct inf_model *model, const struct test_target *on, const struct way *way,
                       struct answer *answers)
{
    struct inf_engine *engine =
        way->tight ? open_tight(model, on, way) : open_engine(model, on, way, 0);

    if (way->again)
        ask_all(engine, way, answers);
    ask_all(engine, way, answers);
    check_way(engine, way, answers);
    inf_engine_free(engine);
}

static bool text_equal(const struct text *a, const struct text *b)
{
    return a->n == N_TOKENS && b->n == N_TOKENS &&
           memcmp(a->tokens, b->tokens, sizeof(a->tokens)) == 0 &&
           memcmp(a->logprobs, b->logprobs, sizeof(a->logprobs)) == 0 &&
           memcmp(a->top, b->top, sizeof(a->top)) == 0;
}

static void compare(const char *name, const struct test_target *on, const struct way *way,
                    const struct answer *want, const struct answer *got)
{
    for (uint32_t i = 0; i < N_ASKED; i++)
        for (uint32_t c = 0; c < (way->choices ? N_CHOICES : 1); c++)
            if (!text_equal(&want[i].choices[0], &got[i].choices[c]))
                fail_msg("%s on %s: choice %u of request %u differs %s", name, on->name, c, i,
                         way->name);
}

static void check_model(const char *name, const struct test_target *on)
{
    static struct answer want[N_ASKED], got[N_ASKED];
    const bool is_cpu = strcmp(on->device, "cpu") == 0;
    struct inf_model *model = open_model(name);

    answer_all(model, on, &ways[0], want);
    for (size_t i = 1; i < ARRAY_SIZE(ways); i++) {
        /* lavapipe takes seconds for each way. */
        if (!is_cpu && (ways[i].draft_kind || !test_drawn(4)))
            continue;
        answer_all(model, on, &ways[i], got);
        compare(name, on, &ways[i], want, got);
    }
    inf_model_unref(model);
}

/* Returns whether to test model @i now, on target @i_target. On the CPU, the best instruction set
 * matters most. lavapipe takes seconds for each model. */
static bool is_drawn(size_t i, size_t i_target, const struct test_target *on)
{
    if (strcmp(on->device, "cpu") != 0)
        return test_drawn(3);
    if (cpu_rung_at(i_target + 1))
        return test_drawn(12);
    return i < N_ALWAYS || test_drawn(3);
}

TEST(texts_do_not_depend_on_how_they_are_computed)
{
    struct test_target on;

    for (size_t t = 0; test_target_at(t, &on); t++)
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (is_drawn(i, t, &on))
                check_model(names[i], &on);
}

/* Skips a test that only concerns the CPU if the program tests another device. */
static void need_cpu(void)
{
    if (getenv("SCONCE_DEVICE"))
        skip();
}

TEST(draft_heads_change_no_text)
{
    static const struct {
        const char *model, *head, *kind;
    } pairs[] = {{"llama-gqa", "eagle3-llama", "eagle3"},
                 {"qwen3-norm", "eagle3-qwen3.gguf", "eagle3"},
                 {"qwen2-window-mix", "dflash-qwen2", "dflash"},
                 {"gemma3", "dflash-gemma3.gguf", "dflash"},
                 {"qwen3_5", "dflash-qwen3_5", "dflash"},
                 {"gemma4-keys", "gemma4-assistant.gguf", "gemma4-assistant"},
                 {"gemma4-uneven", "gemma4-assistant-clusters", "gemma4-assistant"}};
    static struct answer want[N_ASKED], got[N_ASKED];
    const struct test_target on = {.name = "cpu", .device = "cpu", .isa = "auto"};

    need_cpu();
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        const struct way with_head[] = {
            {"with a draft head", 2, 16, 100, .draft_kind = pairs[i].kind,
             .draft_name = pairs[i].head, .company = true},
            {"with a draft head again", 2, 16, 100, .draft_kind = "auto",
             .draft_name = pairs[i].head, .company = true, .again = true},
            {"with a draft head after preemption", 2, 8, 128, .draft_kind = pairs[i].kind,
             .draft_name = pairs[i].head, .tight = true},
            {"with a draft head as choices", 2, 16, 50, .draft_kind = pairs[i].kind,
             .draft_name = pairs[i].head, .choices = true},
        };
        const struct way at_random[] = {
            {"alone, at random", 1, 1, 512, .temperature = 1.5f},
            {"with a draft head, at random", 2, 16, 100, .draft_kind = pairs[i].kind,
             .draft_name = pairs[i].head, .company = true, .temperature = 1.5f},
        };
        struct inf_model *model = open_model(pairs[i].model);

        answer_all(model, &on, &ways[0], want);
        for (size_t k = 0; k < ARRAY_SIZE(with_head); k++) {
            if (k > 1 && !test_drawn(2))
                continue;
            answer_all(model, &on, &with_head[k], got);
            compare(pairs[i].model, &on, &with_head[k], want, got);
        }
        answer_all(model, &on, &at_random[0], want);
        answer_all(model, &on, &at_random[1], got);
        compare(pairs[i].model, &on, &at_random[1], want, got);
        inf_model_unref(model);
    }
}

/* Asks with keys and values in the format @kv_type, with an assistant or without. */
static void answer_with(struct inf_model *model, struct inf_model *assistant, const char *kv_type,
                        const struct way *way, struct answer *answers)
{
    const struct inf_engine_params params = {.model = model,
                                             .draft_model = assistant,
                                             .device = "cpu",
                                             .n_threads = way->n_threads,
                                             .n_ctx = N_CTX,
                                             .max_seqs = way->max_seqs,
                                             .max_batch_tokens = way->max_rows,
                                             .kv_type = kv_type};
    struct inf_engine_stats stats;
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    if (assistant)
        engine->sched->speculation->ignores_cost = true;
    ask_all(engine, way, answers);
    inf_engine_stats(engine, &stats);
    assert_int_equal(stats.n_drafted > 0, assistant != NULL);
    inf_engine_free(engine);
}

TEST(assistants_read_keys_in_all_formats)
{
    static const char *const types[] = {"f32", "f16", "bf16", "fp8"};
    static const struct way way = {"with an assistant", 2, 16, 100, .company = true};
    static struct answer want[N_ASKED], got[N_ASKED];
    const struct test_target on = {.name = "cpu", .device = "cpu", .isa = "auto"};
    struct inf_model *model, *assistant;

    need_cpu();
    model = open_model("gemma4-uneven");
    assistant = open_model("gemma4-assistant-clusters");
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        if (i > 0 && !test_drawn(2))
            continue;
        answer_with(model, NULL, types[i], &way, want);
        answer_with(model, assistant, types[i], &way, got);
        compare(types[i], &on, &way, want, got);
    }
    inf_model_unref(assistant);
    inf_model_unref(model);
}

static void refuse(struct inf_model *model, const char *draft, const char *kind, const char *part)
{
    struct inf_model *head = open_model(draft);
    const struct inf_engine_params params = {
        .model = model, .draft_model = head, .draft_kind = kind, .device = "cpu", .n_ctx = N_CTX};
    struct inf_engine *engine;
    struct inf_err err;

    assert_int_equal(inf_engine_new(&params, &engine, &err), -EINVAL);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, part);
    inf_model_unref(head);
}

TEST(heads_of_another_kind_are_refused)
{
    struct inf_model *gemma = open_model("gemma4-keys"), *llama = open_model("llama-gqa"),
                     *qwen = open_model("qwen2-window-mix");

    refuse(gemma, "gemma4-assistant", "eagle3", "the draft model is an assistant of Gemma 4");
    refuse(gemma, "gemma4-keys", "gemma4-assistant", "the draft model is none");
    refuse(llama, "eagle3-llama", "gemma4-assistant", "the draft model is a draft head of EAGLE-3");
    refuse(qwen, "dflash-qwen2", "eagle3", "the draft model is a draft head of DFlash");
    refuse(gemma, "gemma4-assistant", "dflash", "need a draft head of DFlash");
    refuse(llama, "gemma4-assistant", "model", "the assistant is for models of Gemma 4");
    inf_model_unref(gemma);
    inf_model_unref(llama);
    inf_model_unref(qwen);
}

TEST(draft_heads_suit_no_other_use)
{
    /* The directory has no tokenizer. */
    struct inf_model *head = open_model("eagle3-llama");
    struct inf_err err;

    for (int use = INF_USE_GENERATE; use <= INF_USE_SPEECH; use++)
        assert_int_equal(inf_model_suits(head, (enum inf_model_use)use, &err), -EOPNOTSUPP);
    inf_model_unref(head);
}

RUN_TESTS(cmocka_unit_test(texts_do_not_depend_on_how_they_are_computed),
          cmocka_unit_test(draft_heads_change_no_text),
          cmocka_unit_test(assistants_read_keys_in_all_formats),
          cmocka_unit_test(heads_of_another_kind_are_refused),
          cmocka_unit_test(draft_heads_suit_no_other_use))
