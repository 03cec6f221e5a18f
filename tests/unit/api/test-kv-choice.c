/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which number format of keys and values "auto" means: the most precise one with which a text
 * fits, and never one that is dominated or loses much. The formats of engines decide which blocks
 * of a tier they read.
 */
#include <errno.h>

#include "lib/open_model.h"
#include "lib/test.h"

#include <infer/infer.h>

#include "../sched/fake_tier.h"
#include "api/handle.h"
#include "core/macros.h"
#include "core/rng.h"

#define GUIDE    "../../packaging/guide/sconce-guide.gguf" /* beside tests/golden; heads of 32 */
#define STORIES  "models/stories260K/stories260K.gguf"     /* F32, heads of 8 */
#define N_CTX    1024u
#define BLOCK    64u
#define N_PROMPT 200u
#define N_TOKENS 40u

static const char *auto_of(struct inf_model *model, uint64_t kv_bytes)
{
    const struct inf_engine_params params = {
        .model = model, .n_ctx = N_CTX, .max_seqs = 1, .kv_bytes = kv_bytes};
    const char *type;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_kv_auto(&params, &type, &err), err);
    return type;
}

static size_t types_of(struct inf_model *model, uint64_t n_ctx, struct inf_kv_type *types)
{
    struct inf_err err;
    size_t n;

    ASSERT_OK_ERR(inf_model_kv_types(model, n_ctx, types, &n, &err), err);
    return n;
}

TEST(the_most_precise_format_that_fits_is_taken)
{
    struct inf_model *model = open_model(test_golden(GUIDE));
    struct inf_kv_type types[INF_MAX_KV_TYPES], *last = NULL;
    const size_t n = types_of(model, N_CTX, types);
    double precision = -1;

    ASSERT_STREQ(auto_of(model, 0), "f16");
    for (size_t i = 0; i < n; i++) {
        assert_true(types[i].divergence >= precision);
        precision = types[i].divergence;
        if (!types[i].automatic)
            continue;
        assert_null(types[i].better);
        /* Layers of this model have no windows, so formats without copies of the newest tokens need
         * just the bytes of the text. */
        assert_true(!last || types[i].bytes < last->bytes);
        if (!strchr(types[i].name, '+')) {
            ASSERT_STREQ(auto_of(model, types[i].bytes), types[i].name);
            assert_string_not_equal(auto_of(model, types[i].bytes - 1), types[i].name);
        }
        last = &types[i];
    }
    assert_non_null(last);
    ASSERT_STREQ(auto_of(model, 1), last->name);
    inf_model_unref(model);
}

TEST(dominated_and_coarse_formats_are_never_taken)
{
    struct inf_model *model = open_model(test_golden(GUIDE));
    struct inf_kv_type types[INF_MAX_KV_TYPES];

    for (uint64_t n_ctx = 256; n_ctx <= 131072; n_ctx *= 8) {
        const size_t n = types_of(model, n_ctx, types);

        for (size_t i = 0; i < n; i++) {
            const struct inf_kv_type *t = &types[i], *by = NULL;

            for (size_t k = 0; t->better && k < n; k++)
                by = strcmp(types[k].name, t->better) == 0 ? &types[k] : by;
            assert_true(!t->better || (by && by->bytes <= t->bytes && by->bytes > 0 &&
                                       by->divergence <= 1.1 * t->divergence));
            /* In heads of 32 elements both have a scale for 32. */
            if (strcmp(t->name, "fp8") == 0)
                ASSERT_STREQ(t->better, "q8_0");
            if (t->better || t->divergence > 0.01)
                assert_false(t->automatic);
        }
    }
    inf_model_unref(model);
}

TEST(a_model_has_only_the_formats_of_its_heads)
{
    const char *path = test_data(STORIES);
    struct inf_kv_type types[INF_MAX_KV_TYPES];
    struct inf_model *model;
    size_t n;

    if (!path)
        skip();
    model = open_model(path);
    n = types_of(model, N_CTX, types);
    for (size_t i = 0; i < n; i++)
        /* Formats with the names q…, affine… and turbo… need heads of at least 32 elements. */
        assert_int_equal(types[i].bytes > 0, !strchr("qat", types[i].name[0]));
    /* Weights in F32 have keys and values in F32. */
    ASSERT_STREQ(auto_of(model, 0), "f32");
    ASSERT_STREQ(auto_of(model, types[0].bytes - 1), "f16");
    ASSERT_STREQ(auto_of(model, 1), "fp8");
    inf_model_unref(model);
}

/* The text that an engine generated for a prompt, and the format of its keys and values. */
struct answer {
    char kv_name[64];
    uint32_t n, n_cached;
    int32_t tokens[N_TOKENS];
};

static void run(struct inf_model *model, const char *kv_type, uint64_t kv_bytes,
                struct fake_tier *tier, struct answer *a)
{
    const struct inf_engine_params params = {.model = model,
                                             .device = "cpu",
                                             .n_threads = 1,
                                             .n_ctx = N_CTX,
                                             .max_seqs = 1,
                                             .kv_type = kv_type,
                                             .kv_bytes = kv_bytes,
                                             .tier = tier ? &tier->base : NULL};
    int32_t prompt[N_PROMPT];
    const struct inf_request q = {
        .tokens = prompt, .n_tokens = N_PROMPT, .max_tokens = N_TOKENS, .ignore_eos = true};
    struct inf_engine *engine;
    struct inf_event e;
    struct inf_err err;
    struct rng rng;
    uint64_t id;

    *a = (struct answer){0};
    rng_seed(&rng, 1);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = (int32_t)(rng_u32(&rng) % inf_model_info(model)->n_vocab);
    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    /* The engine must load blocks, although it would compute them faster with such small models. */
    engine->sched->fetching.margin = 0;
    engine->sched->fetching.first_tok_s = 1;
    snprintf(a->kv_name, sizeof(a->kv_name), "%s", inf_engine_kv_name(engine));
    assert_int_equal(inf_engine_kv_type(engine, a->kv_name, &err), 0);
    assert_int_equal(inf_engine_kv_type(engine, "bf16", &err), 1);
    if (!kv_type)
        assert_int_equal(inf_engine_kv_type(engine, "auto", &err), 0);
    ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
    do {
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        for (size_t i = 0; e.kind == INF_EVENT_TOKENS && i < e.n_tokens; i++)
            a->tokens[a->n++] = e.tokens[i].token;
    } while (e.kind != INF_EVENT_FINISH);
    a->n_cached = e.n_cached;
    inf_engine_free(engine);
}

static uint64_t token_bytes(struct inf_model *model, const char *kv_type)
{
    struct inf_kv_size size;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_kv_size(model, kv_type, &size, &err), err);
    return size.per_token;
}

TEST(layers_have_formats_of_their_own)
{
    static const struct {
        const char *name, *want;
        int error;
    } wrong[] = {
        {"q8_0/", "/LAYERS=TYPE", EINVAL},
        {"q8_0/1", "/LAYERS=TYPE", EINVAL},
        {"q8_0/2-1=q4_0", "/LAYERS=TYPE", EINVAL},
        {"q8_0/x=q4_0", "/LAYERS=TYPE", EINVAL},
        {"q8_0/1=q4_1", "q4_1", EINVAL},
        {"q8_0/1=q4_0+recent", "q4_0+recent", EINVAL},
        {"q8_0/1=q4_0:turbo4_qjl", "keys only", EINVAL},
        {"q4_0+recent/1=f16", "+recent is for", EINVAL},
        {"q8_0/999=q4_0", "numbered from 0", EOPNOTSUPP},
        {"q8_0/0-999=q4_0", "numbered from 0", EOPNOTSUPP},
        {"q8_0/1=q3_0", "multiple of 128", EOPNOTSUPP},
    };
    struct inf_model *model = open_model(test_golden(GUIDE));
    const uint32_t n = inf_model_info(model)->n_layers;
    const uint64_t q8 = token_bytes(model, "q8_0"), q4 = token_bytes(model, "q4_0");
    const uint64_t f16 = token_bytes(model, "f16");

    assert_int_equal(token_bytes(model, "q8_0/1=q4_0") * n, q8 * (n - 1) + q4);
    assert_int_equal(token_bytes(model, "q8_0/0-1=q4_0/1=f16") * n, q8 * (n - 2) + q4 + f16);
    assert_int_equal(token_bytes(model, "q8_0/2=f16:q4_0") * 2 * n, q8 * 2 * (n - 1) + f16 + q4);
    /* The model has no layers with windows. */
    assert_int_equal(token_bytes(model, "q8_0/windows=q4_0"), q8);
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct inf_kv_size size;
        struct inf_err err;

        ASSERT_ERROR(inf_model_kv_size(model, wrong[i].name, &size, &err), wrong[i].error);
        ASSERT_CONTAINS(err.text, wrong[i].want);
    }
    inf_model_unref(model);
}

TEST(blocks_of_other_mixes_are_not_read)
{
    struct inf_model *model = open_model(test_golden(GUIDE));
    struct answer first, other, again, alone;
    struct fake_tier tier;

    fake_tier_init(&tier, 1);
    run(model, "q8_0/1=f16", 0, &tier, &first);
    ASSERT_STREQ(first.kv_name, "q8_0/1=f16");
    run(model, "q8_0/2=f16", 0, &tier, &other);
    assert_int_equal(other.n_cached, 0);
    /* Another name of the same formats */
    run(model, "q8_0/1-1=f16:f16", 0, &tier, &again);
    assert_int_equal(again.n_cached, N_PROMPT / BLOCK * BLOCK);
    run(model, "q8_0/1=f16", 0, NULL, &alone);
    assert_memory_equal(first.tokens, alone.tokens, sizeof(first.tokens));
    assert_memory_equal(first.tokens, again.tokens, sizeof(first.tokens));
    fake_tier_done(&tier);
    inf_model_unref(model);
}

TEST(blocks_are_read_only_in_the_format_that_auto_took)
{
    struct inf_model *model = open_model(test_golden(GUIDE));
    struct inf_kv_type types[INF_MAX_KV_TYPES];
    uint64_t narrow = 0;
    struct fake_tier tier;
    struct answer wide, named, small, small_named, again;

    for (size_t i = 0, n = types_of(model, N_CTX, types); i < n; i++)
        if (strcmp(types[i].name, "q8_0") == 0)
            narrow = types[i].bytes;
    fake_tier_init(&tier, 1);
    run(model, NULL, 0, &tier, &wide);
    ASSERT_STREQ(wide.kv_name, "f16");
    run(model, NULL, narrow, &tier, &small);
    ASSERT_STREQ(small.kv_name, "q8_0");
    /* The blocks of the first engine have another name, so the second one computed its own. */
    assert_int_equal(small.n_cached, 0);
    run(model, "q8_0", 0, &tier, &small_named);
    assert_int_equal(small_named.n_cached, N_PROMPT / BLOCK * BLOCK);
    run(model, NULL, 0, &tier, &again);
    assert_int_equal(again.n_cached, N_PROMPT / BLOCK * BLOCK);
    run(model, "f16", 0, NULL, &named);
    assert_memory_equal(wide.tokens, named.tokens, sizeof(named.tokens));
    assert_memory_equal(wide.tokens, again.tokens, sizeof(again.tokens));
    run(model, "q8_0", 0, NULL, &again);
    assert_memory_equal(small.tokens, again.tokens, sizeof(again.tokens));
    assert_memory_equal(small.tokens, small_named.tokens, sizeof(again.tokens));
    fake_tier_done(&tier);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(the_most_precise_format_that_fits_is_taken),
          cmocka_unit_test(dominated_and_coarse_formats_are_never_taken),
          cmocka_unit_test(a_model_has_only_the_formats_of_its_heads),
          cmocka_unit_test(layers_have_formats_of_their_own),
          cmocka_unit_test(blocks_of_other_mixes_are_not_read),
          cmocka_unit_test(blocks_are_read_only_in_the_format_that_auto_took))
