/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares assistants of Gemma 4 with what transformers computed (make_assistants.py), in both
 * forms: a directory and a GGUF file. One model shares keys and values between layers, and has
 * balanced norms; the texts are longer than the windows.
 */
#include <errno.h>
#include <math.h>

#include <infer/infer.h>

#include "api/handle.h"
#include "core/macros.h"
#include "core/rng.h"
#include "golden/export-case.h"
#include "golden/subject.h"
#include "lib/test.h"
#include "model/arch.h"

enum { N_FIRST = 25, N_VOCAB = 64 };

static const struct {
    const char *assistant, *target;
    uint32_t n_chosen; /* tokens with logits in the directory */
    bool has_file;     /* there is a GGUF file, too */
    double most; /* limit of the error. Products with quantized weights round their inputs, which
                    also leads to another cluster now and then */
} pairs[] = {{"gemma4-assistant", "gemma4-keys", N_VOCAB, true, 1e-9},
             {"gemma4-assistant-clusters", "gemma4-uneven", 24, true, 1e-9},
             {"gemma4-assistant-mlx", "gemma4-uneven", 24, false, 2e-2}};

/* A model with its assistant. */
struct pair {
    struct subject target, head;
    struct graph *graphs[2];
    struct runner *model, *assistant; /* they have one pool */
    struct kv_table table;
    uint32_t n_vocab, width;
};

static void pair_open(struct pair *p, const char *target, const char *path)
{
    struct inf_err err = {0};
    struct runner_params params;

    subject_open(&p->target, target);
    subject_open(&p->head, path);
    assert_true(model_is_head(p->head.m));
    assert_true(model_head_assists(p->head.m));
    ASSERT_OK_ERR(model_head_fits(p->head.m, p->target.m, &err), err);
    ASSERT_OK_ERR(model_build_tapped(p->target.m, p->head.m, &p->graphs[0], &err), err);
    ASSERT_OK_ERR(model_build_head(p->head.m, p->target.m, &p->graphs[1], &err), err);
    p->n_vocab = subject_n_vocab(&p->target);
    p->width = model_head_width(p->head.m);
    assert_int_equal(p->width, model_hparams(p->target.m)->n_embd);
    p->model = export_runner(p->target.m, p->graphs[0], p->n_vocab, p->width);
    params = (struct runner_params){.shares_backend = true,
                                    .graph = p->graphs[1],
                                    .pool = p->model->pool,
                                    .limits = {1, 1, 1, EXPORT_TOKENS},
                                    .n_vocab = p->n_vocab,
                                    .n_hidden = p->width};
    ASSERT_OK_ERR(runner_new(&p->model->backend, &params, &p->assistant, &err), err);
    ASSERT_OK(kv_table_init(&p->table, p->model->pool, EXPORT_TOKENS));
}

static void pair_close(struct pair *p)
{
    kv_table_done(&p->table);
    runner_free(p->assistant);
    runner_free(p->model);
    graph_free(p->graphs[0]);
    graph_free(p->graphs[1]);
    subject_close(&p->head);
    subject_close(&p->target);
}

/* Computes a row of the assistant at position @pos. */
static void assist(struct pair *p, uint32_t pos, int32_t token, const float *hidden, float *logits,
                   float *own)
{
    const struct batch_seq seq = kv_table_part(&p->table, 0, pos, 1);
    const struct batch batch = {.n_rows = 1,
                                .tokens = &token,
                                .n_seqs = 1,
                                .seqs = &seq,
                                .n_logits = 1,
                                .logit_rows = &(uint32_t){0},
                                .input = hidden};

    ASSERT_OK(runner_forward(p->assistant, &batch));
    memcpy(logits, p->assistant->logits, p->n_vocab * sizeof(*logits));
    memcpy(own, p->assistant->hidden, p->width * sizeof(*own));
}

/* transformers gives the tokens of clusters that were not chosen the same number, which is 1 less
 * than the smallest logit; here they have -infinity. Sets them to that number, and checks how many
 * tokens are left. A GGUF file does not say how many clusters are chosen. If all are, only the
 * tokens that transformers has chosen are compared with @want. */
static void put_masks(float *logits, const float *want, uint32_t n, uint32_t n_chosen)
{
    float least = INFINITY, masked = INFINITY;
    uint32_t n_finite = 0;

    for (uint32_t i = 0; i < n; i++) {
        masked = fminf(masked, want[i]);
        if (isfinite(logits[i])) {
            least = MIN(least, logits[i]);
            n_finite++;
        }
    }
    assert_int_equal(n_finite, n_chosen);
    for (uint32_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            logits[i] = least - 1;
        else if (n_chosen == n && want[i] == masked)
            logits[i] = want[i];
}

static void compare(const char *path, const char *dir, const char *target_dir, uint32_t n_chosen,
                    double most)
{
    size_t n_tokens, n_logits, n_predicted, n_own;
    int32_t *tokens = subject_read(target_dir, "tokens.bin", &n_tokens);
    float *want = subject_read(target_dir, "logits.bin", &n_logits);
    float *predicted = subject_read(dir, "predicted.bin", &n_predicted);
    float *own = subject_read(dir, "own.bin", &n_own);
    const uint32_t n = (uint32_t)(n_tokens / sizeof(*tokens)), n_made = 2 * (n - 1);
    struct pair p;

    pair_open(&p, target_dir, path);

    float *logits = NEW(float, (size_t)n *p.n_vocab), *hidden = NEW(float, (size_t)n *p.width);
    float *made = NEW(float, (size_t)n_made *p.n_vocab);
    float *states = NEW(float, (size_t)n_made *p.width);

    assert_int_equal(n_predicted, (size_t)n_made * p.n_vocab * sizeof(float));
    assert_int_equal(n_own, (size_t)n_made * p.width * sizeof(float));
    export_forward_to(p.model, &p.table, tokens, n, N_FIRST, NULL, logits, hidden);
    assert_true(export_nmse(logits, want, (size_t)n * p.n_vocab) < 1e-9);
    for (uint32_t pos = 1; pos < n; pos++) {
        float *first = states + (size_t)(pos - 1) * p.width;
        float *scores = made + (size_t)(pos - 1) * p.n_vocab;
        const size_t second = n - 1;

        assist(&p, pos, tokens[pos], hidden + (size_t)(pos - 1) * p.width, scores, first);
        assist(&p, pos, tokens[pos - 1], first, scores + second * p.n_vocab,
               first + second * p.width);
        put_masks(scores, predicted + (pos - 1) * p.n_vocab, p.n_vocab, n_chosen);
        put_masks(scores + second * p.n_vocab, predicted + (pos - 1 + second) * p.n_vocab,
                  p.n_vocab, n_chosen);
    }
    assert_true(export_nmse(made, predicted, (size_t)n_made * p.n_vocab) < most);
    assert_true(export_nmse(states, own, (size_t)n_made * p.width) < most);
    pair_close(&p);
    free(logits);
    free(hidden);
    free(made);
    free(states);
    free(tokens);
    free(want);
    free(predicted);
    free(own);
}

TEST(assistants_predict_what_transformers_does)
{
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        char dir[4200], file[4200], target[4200], sub[128];

        snprintf(sub, sizeof(sub), "models/%s", pairs[i].assistant);
        snprintf(dir, sizeof(dir), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s.gguf", pairs[i].assistant);
        snprintf(file, sizeof(file), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s", pairs[i].target);
        snprintf(target, sizeof(target), "%s", test_golden(sub));
        compare(dir, dir, target, pairs[i].n_chosen, pairs[i].most);
        if (pairs[i].has_file)
            compare(file, dir, target, N_VOCAB, pairs[i].most);
    }
}

enum { N_PROMPT = 20, N_TEXT = 96, N_TEXTS = 20, N_FAVORITES = 8 };
#define BIAS 64.0f

/* Texts consist of these tokens, so that some drafts of random weights are right. */
static const int32_t favorites[N_FAVORITES] = {5, 12, 17, 29, 33, 41, 53, 60};

static struct inf_model *open_model(const char *path)
{
    const struct inf_model_params params = {.path = path};
    struct inf_model *model;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}

/* Lets the engine continue a prompt, in steps with at most one drafted token. @text [N_TEXT] begins
 * with the prompt. */
static void continue_text(struct inf_engine *engine, int32_t *text)
{
    struct inf_logit_bias bias[N_FAVORITES];
    const struct inf_request q = {.tokens = text,
                                  .n_tokens = N_PROMPT,
                                  .max_tokens = N_TEXT - N_PROMPT,
                                  .n_choices = 1,
                                  .ignore_eos = true,
                                  .n_logprobs = -1,
                                  .sampling = {.logit_bias = bias, .n_logit_bias = N_FAVORITES}};
    uint32_t n = N_PROMPT;
    struct inf_event e = {0};
    struct inf_err err;
    uint64_t id;

    for (uint32_t i = 0; i < N_FAVORITES; i++)
        bias[i] = (struct inf_logit_bias){.token = favorites[i], .bias = BIAS};
    ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
    while (e.kind != INF_EVENT_FINISH) {
        assert_int_equal(inf_engine_wait_event(engine, 60000, &e), 1);
        for (size_t i = 0; e.kind == INF_EVENT_TOKENS && i < e.n_tokens; i++)
            text[n++] = e.tokens[i].token;
    }
    assert_int_equal(n, N_TEXT);
}

/* Returns the token with the largest biased logit. */
static uint32_t largest(float *logits, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < N_FAVORITES; i++)
        logits[favorites[i]] += BIAS;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* Counts the drafts of one token that the engine makes for a text, and those that are right. */
static void expect_drafts(struct pair *p, const int32_t *text, uint64_t *n_drafted,
                          uint64_t *n_right)
{
    float *hidden = NEW(float, (size_t)N_TEXT * p->width), *logits = NEW(float, p->n_vocab);
    float *own = NEW(float, p->width);

    kv_table_truncate(&p->table, 0);
    export_forward_to(p->model, &p->table, text, N_TEXT, N_FIRST, NULL, NULL, hidden);
    for (uint32_t n = N_PROMPT + 1; n + 1 < N_TEXT;) {
        bool right;

        assist(p, n - 1, text[n - 1], hidden + (size_t)(n - 2) * p->width, logits, own);
        right = largest(logits, p->n_vocab) == (uint32_t)text[n];
        ++*n_drafted;
        *n_right += right;
        n += 1 + right;
    }
    free(hidden);
    free(logits);
    free(own);
}

/* The bits of a row do not depend on how it is computed, so the engine drafts exactly the tokens
 * that are the most likely ones here. */
TEST(the_engine_drafts_what_assistants_predict)
{
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        uint64_t n_drafted = 0, n_right = 0;
        char dir[4200], target[4200], sub[128];
        struct inf_engine_params params = {
            .device = "cpu", .n_ctx = EXPORT_TOKENS, .kv_type = "f32", .max_draft = 1};
        int32_t text[N_TEXT];
        struct inf_engine_stats stats;
        struct inf_engine *engine;
        struct inf_err err;
        struct pair p = {0};
        struct rng rng;

        snprintf(sub, sizeof(sub), "models/%s", pairs[i].assistant);
        snprintf(dir, sizeof(dir), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s", pairs[i].target);
        snprintf(target, sizeof(target), "%s", test_golden(sub));
        pair_open(&p, target, dir);
        params.model = open_model(target);
        params.draft_model = open_model(dir);
        ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
        engine->sched->speculation->ignores_cost = true;
        rng_seed(&rng, i);
        for (uint32_t k = 0; k < N_TEXTS; k++) {
            for (uint32_t j = 0; j < N_PROMPT; j++)
                text[j] = 3 + (int32_t)(rng_u32(&rng) % (p.n_vocab - 3));
            continue_text(engine, text);
            expect_drafts(&p, text, &n_drafted, &n_right);
        }
        inf_engine_stats(engine, &stats);
        print_message("%s: %llu of %llu drafted tokens are right\n", pairs[i].assistant,
                      (unsigned long long)n_right, (unsigned long long)n_drafted);
        assert_int_equal(stats.n_drafted, n_drafted);
        assert_int_equal(stats.n_draft_accepted, n_right);
        assert_true(n_right > 20);
        inf_engine_free(engine);
        inf_model_unref(params.model);
        inf_model_unref(params.draft_model);
        pair_close(&p);
    }
}

/* Without this, these tests would not notice queries whose factors are missing. */
TEST(a_model_of_the_test_is_balanced)
{
    struct subject s;
    uint32_t n_other = 0;

    subject_open_golden(&s, "gemma4-uneven");
    assert_non_null(s.m->query_factors);
    for (uint32_t i = 0; i < 2; i++) {
        const struct weight *w = &s.m->query_factors[i];

        assert_non_null(w->data);
        for (uint32_t d = 0; d < w->cols; d++)
            n_other += ((const float *)w->data)[d] != 1;
    }
    assert_true(n_other > 8);
    subject_close(&s);
}

static void refuse(const char *assistant, const char *target, const char *part)
{
    struct subject head, model;
    struct inf_err err = {0};

    subject_open_golden(&head, assistant);
    subject_open_golden(&model, target);
    assert_int_equal(model_head_fits(head.m, model.m, &err), -EINVAL);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, part);
    subject_close(&head);
    subject_close(&model);
}

TEST(an_assistant_of_another_model_is_refused)
{
    refuse("gemma4-assistant", "gemma3", "models of Gemma 4");
    refuse("gemma4-assistant", "gemma4", "layer 0 of the assistant reads keys of 2 heads of 16");
    refuse("gemma4-assistant-clusters", "gemma4-keys",
           "but layer 1 of the model has 2 heads of 16");
    refuse("gemma4-assistant", "llama-gqa", "models of Gemma 4");
}

RUN_TESTS(cmocka_unit_test(assistants_predict_what_transformers_does),
          cmocka_unit_test(the_engine_drafts_what_assistants_predict),
          cmocka_unit_test(a_model_of_the_test_is_balanced),
          cmocka_unit_test(an_assistant_of_another_model_is_refused))
