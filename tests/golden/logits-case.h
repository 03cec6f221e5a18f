/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares the logits of a model with those of transformers.
 */

#include <infer/model.h>

#include "lib/device.h"
#include "model/model.h"

/* One of the models in tests/golden/models, and what transformers computed with it. */
struct golden {
    char path[4096]; /* the model's directory */
    int32_t *tokens;
    float *logits; /* [n_tokens, n_vocab] */
    size_t n_tokens, n_vocab;
};

void golden_open(struct golden *g, const char *name);
void golden_done(struct golden *g);

/* Computes the graph of @f in double precision, and returns the normalized mean squared error of
 * the logits: 0 means equal, 1 is the error of a row of zeros. */
double golden_eval(const struct golden *g, const struct format *f);
/* Runs the engine on a device, and returns the normalized mean squared error of the logits. */
double golden_run(const struct golden *g, struct inf_model *model, const struct test_target *on);

/* Says how close logits of the engine are to those of graph_eval_rounded(). Both round the inputs
 * of products to integers. The engine computes them in single precision, so it may round an input
 * that lies in the middle between two integers to the other one. This changes the row of logits,
 * and the later rows that attend to it. */
struct golden_rounding {
    double nmse;
    size_t n_close; /* rows whose normalized mean squared error is below 1e-9 */
};
/* Runs the engine on the CPU. The model has the weights of @f. */
struct golden_rounding golden_run_rounded(const struct golden *g, const struct format *f,
                                          struct inf_model *model, const struct test_target *on);
