/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests tiers (stores of KV blocks outside of an engine, see infer/tier.h) with tiny models of
 * every architecture and with every number type of keys and values. A second engine reads the
 * blocks that a first engine computed. The tokens and log-probabilities of the second engine must
 * be those of an engine without a tier, bit for bit. On a Vulkan device the test also runs with
 * some of the layers on the CPU.
 */
#include "../sched/fake_tier.h"
#include "lib/test.h"

#include <infer/infer.h>

#include "api/handle.h"
#include "core/macros.h"
#include "core/rng.h"
#include "lib/device.h"
#include "lib/draw.h"

#define BLOCK    64
#define N_PROMPT 200
#define N_TOKENS 80
/* These models fit into this much memory. */
#define DEVICE_BYTES (256u << 20)

/* The models after the first N_PLAIN keep state of several kinds. */
enum { N_PLAIN = 9 };
static const char *const names[] = {
    "llama-gqa",  "llama3-scaled",    "llama-linear", "llama-yarn",  "mistral-window",
    "qwen2-tied", "qwen2-window-mix", "qwen3-norm",   "qwen3-bf16",  "qwen3_moe",
    "qwen3_5",    "gemma3",           "gemma4",       "gemma4-keys",
};
static const char *const numbers[] = {
    "f32", "f16",      "bf16",     "q8_0",        "q4_0",
    "fp8", "fp8:q8_0", "f16:q4_0", "q4_0+recent", "q4_0/0=q8_0:f16"};

struct answer {
    uint32_t n, n_cached;
    uint32_t n_blocks; /* blocks that a tier should get */
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

/* Returns whether block @i of group @i_group is needed to resume computing after @n_blocks blocks
 * of tokens. */
static bool is_needed(const struct kv_layout *layout, uint32_t i_group, uint32_t i,
                      uint32_t n_blocks)
{
    switch (layout->groups[i_group].rule) {
    case STATE_FULL:
        return i < n_blocks;
    case STATE_WINDOW:
        return i < kv_pool_last_seen(layout, i_group, n_blocks) &&
               i >= kv_pool_first_seen(layout, i_group, n_blocks * BLOCK);
    case STATE_RECURRENT:
        return i == n_blocks - 1;
    }
    return false;
}

/* Returns how many blocks a tier gets: those that are needed to continue from the last border of
 * the prompt, and from that of the whole text. */
static uint32_t count_needed(const struct kv_layout *layout)
{
    const uint32_t end = (N_PROMPT + N_TOKENS - 1) / BLOCK;
    uint32_t n = 0;

    for (uint32_t g = 0; g < layout->n_groups; g++)
        for (uint32_t i = 0; i < end; i++)
            n += is_needed(layout, g, i, (N_PROMPT - 1) / BLOCK) || is_needed(layout, g, i, end);
    return n;
}

/* Struct subject holds the parameters of an engine. */
struct subject {
    struct inf_model *model, *assistant; /* assistant: drafts in engines with a tier; or NULL */
    const char *device, *kv_type;
    uint64_t device_bytes;
};

/* Runs a prompt on a new engine. Returns false if the model or device does not support the KV
 * type. */
static bool run(const struct subject *s, struct fake_tier *tier, const int32_t *prompt,
                struct answer *a)
{
    const struct inf_engine_params params = {
        .model = s->model,
        .device = s->device,
        .device_bytes = s->device_bytes,
        .n_threads = 2,
        .n_ctx = 512,
        .max_seqs = 1,
        .kv_type = s->kv_type,
        .tier = tier ? &tier->base : NULL,
        .draft_model = tier ? s->assistant : NULL,
    };
    struct inf_engine_stats stats;
    struct inf_engine *engine;
    struct inf_err err;
    int r;

    r = inf_engine_new(&params, &engine, &err);
    if (r == -EOPNOTSUPP)
        return false;
    ASSERT_OK_ERR(r, err);
    /* The engine must load blocks, although it would compute them faster with such small models. */
    engine->sched->fetching.margin = 0;
    engine->sched->fetching.first_tok_s = 1;
    if (params.draft_model)
        engine->sched->speculation->ignores_cost = true;
    ask(engine, prompt, a);
    inf_engine_stats(engine, &stats);
    assert_int_equal(stats.n_drafted > 0, params.draft_model != NULL);
    a->n_blocks = count_needed(kv_pool_layout(engine->sched->runner->pool));
    inf_engine_free(engine);
    return true;
}

static void check(const struct subject *s)
{
    struct answer alone, first, again;
    int32_t prompt[N_PROMPT];
    struct fake_tier tier;
    struct rng rng;

    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)(rng_u32(&rng) % inf_model_info(s->model)->n_vocab);
    if (!run(s, NULL, prompt, &alone))
        return;
    fake_tier_init(&tier, 1);
    assert_true(run(s, &tier, prompt, &first));
    assert_int_equal(tier.n_put_blocks, first.n_blocks);
    assert_true(run(s, &tier, prompt, &again));
    assert_int_equal(again.n_cached, N_PROMPT / BLOCK * BLOCK);
    assert_int_equal(tier.n_rejects, 0);
    assert_memory_equal(alone.tokens, first.tokens, sizeof(alone.tokens));
    assert_memory_equal(alone.tokens, again.tokens, sizeof(alone.tokens));
    assert_memory_equal(alone.logprobs, first.logprobs, sizeof(alone.logprobs));
    assert_memory_equal(alone.logprobs, again.logprobs, sizeof(alone.logprobs));
    fake_tier_done(&tier);
}

/* Returns an amount of GPU memory that holds some of the layers, but not all. */
static uint64_t part_of_it(const struct subject *s)
{
    uint64_t least = 0, most = DEVICE_BYTES;

    while (least < most) {
        const uint64_t middle = (least + most) / 2;
        const struct inf_engine_params params = {
            .model = s->model,
            .device = s->device,
            .device_bytes = middle,
            .n_ctx = 512,
            .max_seqs = 1,
            .kv_type = s->kv_type,
        };
        struct inf_engine *engine;
        struct inf_err err;
        const char *name;

        ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
        name = engine->sched->runner->backend->ops->name;
        inf_engine_free(engine);
        if (strcmp(name, "split") == 0)
            return middle;
        if (strcmp(name, "cpu") == 0)
            least = middle + 1;
        else
            most = middle;
    }
    fail_msg("no memory holds a part of the model");
    return 0;
}

static void open_model(struct subject *s, const char *name)
{
    struct inf_model_params params = {0};
    struct inf_err err;
    char sub[64], path[4096];

    snprintf(sub, sizeof(sub), "models/%s", name);
    snprintf(path, sizeof(path), "%s", test_golden(sub));
    params.path = path;
    ASSERT_OK_ERR(inf_model_open(&params, &s->model, &err), err);
}

TEST(every_model_reads_its_stored_blocks)
{
    for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
        struct subject s = {.device = "cpu"};

        open_model(&s, names[i]);
        for (unsigned k = 0; k < ARRAY_SIZE(numbers); k++) {
            s.kv_type = numbers[k];
            if (i < N_PLAIN || k == 0 || test_drawn(4))
                check(&s);
        }
        inf_model_unref(s.model);
    }
}

TEST(assistants_draft_from_stored_blocks)
{
    struct subject s = {.device = "cpu"}, head = {0};

    open_model(&s, "gemma4-uneven");
    open_model(&head, "gemma4-assistant-clusters");
    s.assistant = head.model;
    for (unsigned k = 0; k < ARRAY_SIZE(numbers); k++) {
        s.kv_type = numbers[k];
        check(&s);
    }
    inf_model_unref(s.model);
    inf_model_unref(head.model);
}

TEST(a_device_with_separate_memory_reads_its_stored_blocks)
{
    static const char *const own_numbers[] = {"f16", "q8_0"};
    struct subject s = {0};
    struct test_target on = {0};

    if (!test_target_at(0, &on))
        skip();
    s.device = on.device;
    open_model(&s, "qwen2-window-mix");
    for (unsigned k = 0; k < ARRAY_SIZE(own_numbers); k++) {
        s.kv_type = own_numbers[k];
        if (k == 0 || test_drawn(4))
            check(&s);
    }
    inf_model_unref(s.model);
}

TEST(a_model_on_two_devices_reads_its_stored_blocks)
{
    struct subject s = {.kv_type = "f16"};
    struct test_target on = {0};

    if (!test_target_at(0, &on))
        skip();
    s.device = on.device;
    open_model(&s, "qwen3-norm");
    s.device_bytes = part_of_it(&s);
    check(&s);
    inf_model_unref(s.model);
}

int main(void)
{
    const struct CMUnitTest cpu[] = {
        cmocka_unit_test(every_model_reads_its_stored_blocks),
        cmocka_unit_test(assistants_draft_from_stored_blocks),
    };
    const struct CMUnitTest other[] = {
        cmocka_unit_test(a_device_with_separate_memory_reads_its_stored_blocks),
        cmocka_unit_test(a_model_on_two_devices_reads_its_stored_blocks),
    };

    return getenv("SCONCE_DEVICE") ? cmocka_run_group_tests(other, NULL, NULL)
                                   : cmocka_run_group_tests(cpu, NULL, NULL);
}
