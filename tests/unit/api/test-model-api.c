/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the functions of the public API that open models, measure their speed and compute
 * logits. */
#include "lib/test.h"

#include <errno.h>

#include <infer/infer.h>

#define GGUF "models/stories260K/stories260K.gguf"
#define DIR  "models/TinyStories-656K"

static struct inf_model *open_model(const struct inf_model_params *params)
{
    struct inf_model *model;
    struct inf_err err;

    if (!params->path)
        skip();
    ASSERT_OK_ERR(inf_model_open(params, &model, &err), err);
    return model;
}

TEST(the_api_describes_a_gguf_file)
{
    const struct inf_model_params params = {.path = test_data(GGUF)};
    struct inf_model *model = open_model(&params);
    const struct inf_model_info *info = inf_model_info(model);
    const char *key, *value;
    size_t n = 0;

    ASSERT_STREQ(info->arch, "llama");
    ASSERT_STREQ(info->format, "gguf");
    ASSERT_STREQ(info->dtype_text, "F32");
    assert_int_equal(info->dtype, INF_DTYPE_F32);
    assert_int_equal(info->n_layers, 5);
    assert_int_equal(info->n_embd, 64);
    assert_int_equal(info->n_heads, 8);
    assert_int_equal(info->n_kv_heads, 4);
    assert_int_equal(info->n_vocab, 512);
    assert_in_range(info->n_params, 250000, 350000);
    assert_true(info->n_bytes >= 4 * info->n_params);
    assert_true(info->n_bytes_token > 0 && info->n_bytes_token <= info->n_bytes);
    assert_int_equal(info->n_madds_head, 512 * 64);
    assert_in_range(info->n_madds_token, info->n_madds_head, info->n_params);
    assert_non_null(info->name);
    assert_null(info->template_error);
    while (inf_model_meta(model, n, &key, &value))
        n++;
    assert_true(n > 10);
    assert_int_equal(inf_tokenizer_n_vocab(inf_model_tokenizer(model)), 512);
    assert_null(inf_model_chat_template(model));
    assert_ptr_equal(inf_model_ref(model), model);
    inf_model_unref(model);
    inf_model_unref(model);
}

static struct inf_kv_size kv_size_of(const char *name, const char *kv_type)
{
    struct inf_model *model = open_model(&(struct inf_model_params){.path = test_golden(name)});
    struct inf_kv_size size;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_kv_size(model, kv_type, &size, &err), err);
    ASSERT_ERROR(inf_model_kv_size(model, "f12", &size, &err), EINVAL);
    inf_model_unref(model);
    return size;
}

/* The expected numbers are computed from the shapes in config.json. */
TEST(the_memory_of_a_text_follows_from_the_shapes)
{
    /* One full layer with one head of 32, one windowed layer with one head of 16, and two layers
     * that use the keys and values of these layers. */
    struct inf_kv_size size = kv_size_of("models/gemma4", NULL);

    assert_int_equal(size.per_token, 2 * 32 * 4);
    assert_int_equal(size.windows, 2 * 64 * 2 * 16 * 4);
    assert_int_equal(size.recurrent, 0);
    /* One full layer with one head of 16, and one recurrent layer with 4 value heads of 8 × 8. */
    size = kv_size_of("models/qwen3_5", "f16");
    assert_int_equal(size.per_token, 2 * 16 * 2);
    assert_int_equal(size.windows, 0);
    assert_int_equal(size.recurrent, 4 * (4 * 8 * 8 + 3 * (2 * 2 * 8 + 4 * 8)));
}

static struct inf_kv_size draft_size(const char *name, const char *draft, const char *kind,
                                     const char *kv_type)
{
    struct inf_model *model = open_model(&(struct inf_model_params){.path = test_golden(name)});
    struct inf_model *drafter =
        draft ? open_model(&(struct inf_model_params){.path = test_golden(draft)}) : NULL;
    const struct inf_engine_params params = {
        .model = model, .draft_model = drafter, .draft_kind = kind, .kv_type = kv_type};
    struct inf_kv_size size;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_draft_kv_size(&params, &size, &err), err);
    inf_model_unref(drafter);
    inf_model_unref(model);
    return size;
}

TEST(the_memory_of_drafts_follows_from_the_shapes)
{
    struct inf_kv_size size = draft_size("models/llama-gqa", NULL, NULL, "f16");

    assert_int_equal(size.per_token + size.windows + size.recurrent, 0);
    /* A head of one layer with two heads of 8 for keys and values */
    size = draft_size("models/llama-gqa", "models/eagle3-llama", "eagle3", "f16");
    assert_int_equal(size.per_token, 2 * 2 * 8 * 2);
    assert_int_equal(size.windows + size.recurrent, 0);
    assert_int_equal(
        draft_size("models/llama-gqa", "models/eagle3-llama", "ngram", "f16").per_token, 0);
    /* A predicting layer with one head of 16 */
    size = draft_size("models/qwen3_5-mtp", NULL, "auto", "f16");
    assert_int_equal(size.per_token, 2 * 16 * 2);
    assert_int_equal(size.windows + size.recurrent, 0);
    assert_int_equal(draft_size("models/qwen3_5-mtp", NULL, "none", "f16").per_token, 0);
    /* DFlash has keys and values for its own layers, and an assistant has none. */
    size = draft_size("models/gemma3", "models/dflash-gemma3.gguf", "dflash", "f16");
    assert_true(size.per_token + size.windows > 0);
    size =
        draft_size("models/gemma4-keys", "models/gemma4-assistant.gguf", "gemma4-assistant", "f16");
    assert_int_equal(size.per_token + size.windows + size.recurrent, 0);
    /* These heads are too small for blocks of 32 elements, so the drafter has the default format.
     */
    assert_int_equal(draft_size("models/qwen3_5-mtp", NULL, "mtp", "q8_0").per_token, 2 * 16 * 4);
}

TEST(a_directory_and_its_tokenizer_alone)
{
    struct inf_model_params params = {.path = test_data(DIR)};
    struct inf_model *model = open_model(&params), *vocab;
    struct inf_engine *engine;
    struct inf_err err;

    ASSERT_STREQ(inf_model_info(model)->format, "safetensors");
    params.vocab_only = true;
    vocab = open_model(&params);
    assert_int_equal(inf_tokenizer_n_vocab(inf_model_tokenizer(model)),
                     inf_tokenizer_n_vocab(inf_model_tokenizer(vocab)));
    ASSERT_ERROR(inf_engine_new(&(struct inf_engine_params){.model = vocab}, &engine, &err),
                 EINVAL);
    inf_model_unref(vocab);

    params.path = test_data(DIR "/tokenizer.json");
    vocab = open_model(&params);
    ASSERT_STREQ(inf_model_info(vocab)->format, "tokenizer");
    assert_int_equal(inf_tokenizer_n_vocab(inf_model_tokenizer(model)),
                     inf_tokenizer_n_vocab(inf_model_tokenizer(vocab)));
    inf_model_unref(vocab);
    inf_model_unref(model);
}

TEST(a_chat_template_may_be_given)
{
    struct inf_model_params params = {.path = test_data(GGUF),
                                      .chat_template = "{{ messages[0].content }}"};
    struct inf_model *model = open_model(&params);
    struct inf_err err;

    assert_non_null(inf_model_chat_template(model));
    ASSERT_STREQ(inf_chat_template_text(inf_model_chat_template(model)), params.chat_template);
    inf_model_unref(model);
    params.chat_template = "{% if %}";
    assert_true(inf_model_open(&params, &model, &err) < 0);
}

TEST(missing_files_are_reported)
{
    struct inf_model *model;
    struct inf_err err = {0};

    ASSERT_ERROR(inf_model_open(&(struct inf_model_params){.path = "/nonexistent"}, &model, &err),
                 ENOENT);
    assert_true(strlen(err.text) > 0);
    ASSERT_ERROR(inf_model_open(&(struct inf_model_params){0}, &model, &err), EINVAL);
    assert_null(inf_model_unref(NULL));
}

static void count(void *data, double fraction)
{
    double *last = data;

    assert_true(fraction >= *last && fraction <= 1);
    *last = fraction;
}

TEST(benchmarks_measure)
{
    const struct inf_model_params params = {.path = test_data(GGUF)};
    struct inf_model *model = open_model(&params);
    double last = 0;
    struct inf_bench_params bench = {.model = model,
                                     .n_threads = 1,
                                     .n_prompt = 70,
                                     .n_generate = 10,
                                     .n_repeat = 2,
                                     .n_batch = 32,
                                     .progress = count,
                                     .progress_data = &last};
    struct inf_bench_result result;
    struct inf_err err;

    ASSERT_OK_ERR(inf_bench(&bench, &result, &err), err);
    assert_true(result.pp_tok_s > 0 && result.tg_tok_s > 0);
    assert_true(result.pp_stddev >= 0 && result.tg_stddev >= 0);
    assert_int_equal(result.n_threads, 1);
    assert_true(last == 1);
    last = 0;
    bench.n_prompt = 0;
    bench.isa = "ref";
    ASSERT_OK_ERR(inf_bench(&bench, &result, &err), err);
    ASSERT_STREQ(result.isa, "ref");
    assert_true(result.pp_tok_s == 0);
    bench.n_generate = 0;
    ASSERT_ERROR(inf_bench(&bench, &result, &err), EINVAL);
    inf_model_unref(model);
}

TEST(the_bounds_of_the_machine_are_measured)
{
    const struct inf_model_params params = {.path = test_data(GGUF)};
    struct inf_bench_params bench = {
        .membw = true, .peak = true, .n_threads = 2, .n_repeat = 1, .isa = "ref"};
    struct inf_bench_result result;
    struct inf_err err;

    ASSERT_OK_ERR(inf_bench(&bench, &result, &err), err);
    assert_true(result.read_bytes_s > 1e8);
    assert_non_null(result.read_how);
    assert_true(result.int8_ops_s == 0 && !result.int8_how);
    assert_true(result.pp_tok_s == 0 && result.tg_of_bound == 0 && result.pp_of_peak == 0);
    bench.isa = "none";
    ASSERT_ERROR(inf_bench(&bench, &result, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "unknown instruction set none");
    bench.isa = NULL;
    bench.n_depth = 100;
    ASSERT_ERROR(inf_bench(&bench, &result, &err), EINVAL);

    bench.model = open_model(&params);
    bench.n_prompt = 40;
    bench.n_generate = 10;
    ASSERT_OK_ERR(inf_bench(&bench, &result, &err), err);
    assert_true(result.fill_tok_s > 0 && result.pp_tok_s > 0 && result.tg_tok_s > 0);
    assert_true(result.tg_of_bound > 0);
    assert_true(!result.int8_how || (result.int8_ops_s > 0 && result.pp_of_peak > 0));
    inf_model_unref(bench.model);
}

TEST(logits_do_not_depend_on_the_length)
{
    const struct inf_model_params params = {.path = test_data(GGUF)};
    struct inf_model *model = open_model(&params);
    int32_t tokens[150];
    struct inf_err err;
    float *longer, *shorter;

    for (int i = 0; i < 150; i++)
        tokens[i] = 1 + i * 7 % 500;
    ASSERT_OK_ERR(inf_logits(&(struct inf_logits_params){.model = model, .n_threads = 2}, tokens,
                             150, &longer, &err),
                  err);
    ASSERT_OK_ERR(inf_logits(&(struct inf_logits_params){.model = model, .n_threads = 1}, tokens,
                             33, &shorter, &err),
                  err);
    assert_memory_equal(longer, shorter, 33 * 512 * sizeof(float));
    free(longer);
    free(shorter);
    tokens[3] = 512;
    ASSERT_ERROR(inf_logits(&(struct inf_logits_params){.model = model, .n_threads = 1}, tokens, 33,
                            &shorter, &err),
                 EINVAL);
    inf_model_unref(model);
}

TEST(the_library_has_a_version)
{
    ASSERT_CONTAINS(inf_version(), ".");
    ASSERT_STREQ(inf_dtype_name(INF_DTYPE_Q4_K), "q4_k");
    assert_null(inf_dtype_name(INF_DTYPE_N));
    assert_null(inf_dtype_name(INF_DTYPE_INVALID));
}

RUN_TESTS(cmocka_unit_test(the_api_describes_a_gguf_file),
          cmocka_unit_test(the_memory_of_a_text_follows_from_the_shapes),
          cmocka_unit_test(the_memory_of_drafts_follows_from_the_shapes),
          cmocka_unit_test(a_directory_and_its_tokenizer_alone),
          cmocka_unit_test(a_chat_template_may_be_given),
          cmocka_unit_test(missing_files_are_reported), cmocka_unit_test(benchmarks_measure),
          cmocka_unit_test(the_bounds_of_the_machine_are_measured),
          cmocka_unit_test(logits_do_not_depend_on_the_length),
          cmocka_unit_test(the_library_has_a_version))
