/* SPDX-License-Identifier: Apache-2.0 */
/* Compares inf_perplexity() with values computed from the logits of transformers. */
#include <infer/bench.h>
#include <infer/tokenizer.h>

#include <math.h>
#include <string.h>

#include "core/file.h"
#include "golden/subject.h"
#include "lib/test.h"

enum { N_TOKENS = 40 };

static const char *const names[] = {
    "llama-gqa", "llama-yarn", "mistral-window", "qwen2-tied", "qwen3-norm",
};

struct golden {
    struct inf_model *model;
    int32_t *tokens;
    float *logits; /* [N_TOKENS, n_vocab] */
};

static void golden_open(struct golden *g, const char *name)
{
    char sub[128], path[4096];
    struct inf_err err = {0};
    size_t size;

    snprintf(sub, sizeof(sub), "models/%s", name);
    snprintf(path, sizeof(path), "%s", test_golden(sub));
    ASSERT_OK_ERR(inf_model_open(&(struct inf_model_params){.path = path}, &g->model, &err), err);
    g->tokens = subject_read(path, "tokens.bin", &size);
    assert_int_equal(size, N_TOKENS * sizeof(int32_t));
    g->logits = subject_read(path, "logits.bin", &size);
    assert_int_equal(size, N_TOKENS * inf_model_info(g->model)->n_vocab * sizeof(float));
}

static void golden_done(struct golden *g)
{
    inf_model_unref(g->model);
    free(g->tokens);
    free(g->logits);
}

/* Computes the mean and the standard deviation (divisor: n) of the tokens' -ln(probability), for
 * the tokens after position @first. */
static void golden_nll(const struct golden *g, size_t first, double *ret_mean,
                       double *ret_deviation)
{
    const uint32_t n_vocab = inf_model_info(g->model)->n_vocab;
    double nll[N_TOKENS], mean = 0, squares = 0;
    size_t n = 0;

    for (size_t pos = first; pos + 1 < N_TOKENS; pos++) {
        const float *row = g->logits + pos * n_vocab;
        double sum = 0;

        for (uint32_t i = 0; i < n_vocab; i++)
            sum += exp((double)row[i]);
        nll[n++] = -log(exp((double)row[g->tokens[pos + 1]]) / sum);
    }
    for (size_t i = 0; i < n; i++)
        mean += nll[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (nll[i] - mean) * (nll[i] - mean) / (double)n;
    *ret_mean = mean;
    *ret_deviation = sqrt(squares);
}

static void chunk_count(void *data, const struct inf_perplexity_result *result)
{
    uint32_t *n = data;

    (*n)++;
    assert_int_equal(result->n_chunks_done, *n);
    assert_true(result->ppl > 1);
}

TEST(perplexity_is_that_of_transformers)
{
    static const uint32_t batches[] = {1, 7, 0};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_perplexity_result result, first = {0};
        struct inf_err err = {0};
        double mean, deviation;
        struct golden g;

        golden_open(&g, names[i]);
        if (inf_tokenizer_adds_bos(inf_model_tokenizer(g.model)))
            assert_int_equal(g.tokens[0], inf_tokenizer_bos(inf_model_tokenizer(g.model)));
        golden_nll(&g, N_TOKENS / 2, &mean, &deviation);
        for (size_t j = 0; j < sizeof(batches) / sizeof(batches[0]); j++) {
            const struct inf_perplexity_params params = {.model = g.model,
                                                         .device = "cpu",
                                                         .n_threads = 2,
                                                         .n_ctx = N_TOKENS,
                                                         .n_batch = batches[j]};

            ASSERT_OK_ERR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), err);
            print_message("%-18s PPL %.6f, transformers %.6f\n", names[i], result.ppl, exp(mean));
            assert_int_equal(result.n_tokens, N_TOKENS / 2 - 1);
            assert_int_equal(result.n_chunks, 1);
            assert_true(fabs(result.nll - mean) < 1e-5);
            assert_true(fabs(result.ppl - exp(mean)) < 1e-5 * exp(mean));
            assert_true(fabs(result.error - exp(mean) * deviation / sqrt(N_TOKENS / 2 - 2)) <
                        1e-4 * result.error);
            if (j == 0)
                first = result;
            assert_true(result.nll == first.nll);
        }
        golden_done(&g);
    }
}

TEST(the_last_tokens_alone_can_be_predicted)
{
    static const uint32_t counts[] = {1, 5, N_TOKENS - 1};
    struct golden g;

    golden_open(&g, "qwen3-norm");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const struct inf_perplexity_params params = {.model = g.model,
                                                     .device = "cpu",
                                                     .n_threads = 1,
                                                     .n_ctx = N_TOKENS,
                                                     .n_predict = counts[i],
                                                     .base = g.model,
                                                     .base_kv_type = "f32"};
        struct inf_perplexity_result result;
        struct inf_err err = {0};
        double mean, deviation;

        golden_nll(&g, N_TOKENS - 1 - counts[i], &mean, &deviation);
        ASSERT_OK_ERR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), err);
        assert_int_equal(result.n_tokens, counts[i]);
        assert_true(fabs(result.nll - mean) < 1e-5);
    }
    golden_done(&g);
}

TEST(chunks_do_not_see_each_other)
{
    struct inf_perplexity_result one, two, limited;
    struct inf_err err = {0};
    int32_t tokens[N_TOKENS * 2 + 9];
    uint32_t n_told = 0;
    struct golden g;

    golden_open(&g, "qwen3-norm");
    memcpy(tokens, g.tokens, N_TOKENS * sizeof(*tokens));
    memcpy(tokens + N_TOKENS, g.tokens, N_TOKENS * sizeof(*tokens));
    memcpy(tokens + 2 * (size_t)N_TOKENS, g.tokens, 9 * sizeof(*tokens));
    struct inf_perplexity_params params = {.model = g.model,
                                           .device = "cpu",
                                           .n_threads = 1,
                                           .n_ctx = N_TOKENS,
                                           .chunk = chunk_count,
                                           .chunk_data = &n_told};

    ASSERT_OK_ERR(inf_perplexity(&params, tokens, N_TOKENS * 2 + 9, &two, &err), err);
    assert_int_equal(n_told, 2);
    params.chunk = NULL;
    params.n_chunks = 1;
    ASSERT_OK_ERR(inf_perplexity(&params, tokens, N_TOKENS * 2 + 9, &limited, &err), err);
    params.n_chunks = 100;
    ASSERT_OK_ERR(inf_perplexity(&params, tokens, N_TOKENS, &one, &err), err);
    assert_int_equal(two.n_chunks, 2);
    assert_int_equal(two.n_tokens, 2 * one.n_tokens);
    assert_true(limited.nll == one.nll && fabs(two.nll - one.nll) < 1e-12);
    assert_true(two.error < one.error);
    golden_done(&g);
}

TEST(wrong_sizes_and_tokens_are_refused)
{
    struct inf_perplexity_result result;
    struct inf_err err = {0};
    struct golden g;

    golden_open(&g, "qwen3-norm");
    struct inf_perplexity_params params = {.model = g.model, .device = "cpu", .n_ctx = 41};

    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "the text has 40 tokens, but one chunk needs 41");
    params.n_ctx = 3;
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    params.n_ctx = 1 << 20;
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "the model has a context of");
    params.n_ctx = N_TOKENS;
    params.n_predict = N_TOKENS;
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "a chunk of 40 tokens cannot have 40 that are predicted");
    params.n_predict = 0;
    params.isa = "none";
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    params.isa = NULL;
    g.tokens[5] = -1;
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    params.model = NULL;
    ASSERT_ERROR(inf_perplexity(&params, g.tokens, N_TOKENS, &result, &err), EINVAL);
    golden_done(&g);
}

RUN_TESTS(cmocka_unit_test(perplexity_is_that_of_transformers),
          cmocka_unit_test(the_last_tokens_alone_can_be_predicted),
          cmocka_unit_test(chunks_do_not_see_each_other),
          cmocka_unit_test(wrong_sizes_and_tokens_are_refused))
