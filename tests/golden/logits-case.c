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

double golden_run(const struct golden *g, struct inf_model *model, const struct test_target *on)
{
    const struct inf_logits_params params = {
        .model = model, .device = on->device, .isa = on->isa, .n_threads = 2};
    const size_t n = g->n_tokens * g->n_vocab;
    double *wide = calloc(n, sizeof(*wide)), e;
    struct inf_err err = {0};
    float *logits;

    assert_non_null(wide);
    ASSERT_OK_ERR(inf_logits(&params, g->tokens, g->n_tokens, &logits, &err), err);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)logits[i];
    e = nmse(wide, g->logits, n);
    free(wide);
    free(logits);
    return e;
}
