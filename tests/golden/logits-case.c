/* SPDX-License-Identifier: Apache-2.0 */
#include "golden/logits-case.h"

#include <infer/bench.h>

#include "golden/subject.h"
#include "lib/graph_eval.h"

void golden_open(struct golden *g, const char *name)
{
    char sub[128];
    size_t size;

    snprintf(sub, sizeof(sub), "models/%s", name);
    snprintf(g->path, sizeof(g->path), "%s", test_golden(sub));
    g->tokens = subject_read(g->path, "tokens.bin", &size);
    g->n_tokens = size / sizeof(int32_t);
    g->logits = subject_read(g->path, "logits.bin", &size);
    g->n_vocab = size / sizeof(float) / g->n_tokens;
}

void golden_done(struct golden *g)
{
    free(g->tokens);
    free(g->logits);
}

static double nmse(const double *x, const float *want, size_t n)
{
    double err = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        err += (x[i] - (double)want[i]) * (x[i] - (double)want[i]);
        sum += (double)want[i] * (double)want[i];
    }
    return err / sum;
}

double golden_eval(const struct golden *g, const struct format *f)
{
    struct inf_err err = {0};
    struct graph *graph;
    struct model *m;
    double *logits, e;

    ASSERT_OK_ERR(model_open(f, &m, &err), err);
    ASSERT_OK_ERR(model_build(m, &graph, &err), err);
    assert_int_equal(model_hparams(m)->n_vocab, g->n_vocab);
    ASSERT_OK(graph_eval(graph, g->tokens, g->n_tokens, &logits));
    e = nmse(logits, g->logits, g->n_tokens * g->n_vocab);
    free(logits);
    graph_free(graph);
    model_close(m);
    return e;
}

/* Runs the engine, and returns the logits of all rows, which the caller frees. */
static float *engine_logits(const struct golden *g, struct inf_model *model,
                            const struct test_target *on)
{
    const struct inf_logits_params params = {
        .model = model, .device = on->device, .isa = on->isa, .n_threads = 2};
    struct inf_err err = {0};
    float *logits;

    ASSERT_OK_ERR(inf_logits(&params, g->tokens, g->n_tokens, &logits, &err), err);
    return logits;
}

static double engine_nmse(const float *x, const double *want, size_t n)
{
    double err = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        err += ((double)x[i] - want[i]) * ((double)x[i] - want[i]);
        sum += want[i] * want[i];
    }
    return err / sum;
}

double golden_run(const struct golden *g, struct inf_model *model, const struct test_target *on)
{
    const size_t n = g->n_tokens * g->n_vocab;
    double *want = calloc(n, sizeof(*want)), e;
    float *logits = engine_logits(g, model, on);

    assert_non_null(want);
    for (size_t i = 0; i < n; i++)
        want[i] = (double)g->logits[i];
    e = engine_nmse(logits, want, n);
    free(want);
    free(logits);
    return e;
}

struct golden_rounding golden_run_rounded(const struct golden *g, const struct format *f,
                                          struct inf_model *model, const struct test_target *on)
{
    struct golden_rounding result = {0};
    const size_t n = g->n_vocab;
    struct inf_err err = {0};
    struct graph *graph;
    struct model *m;
    double **values;
    const double *want;
    float *logits = engine_logits(g, model, on);

    ASSERT_OK_ERR(model_open(f, &m, &err), err);
    ASSERT_OK_ERR(model_build(m, &graph, &err), err);
    ASSERT_OK(graph_eval_rounded(graph, g->tokens, g->n_tokens, &values));
    want = values[graph_n_nodes(graph) - 1];
    result.nmse = engine_nmse(logits, want, g->n_tokens * n);
    for (size_t i = 0; i < g->n_tokens; i++)
        result.n_close += engine_nmse(logits + i * n, want + i * n, n) < 1e-9;
    graph_values_free(graph, values);
    graph_free(graph);
    model_close(m);
    free(logits);
    return result;
}
