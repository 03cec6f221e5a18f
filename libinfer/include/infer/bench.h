/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_BENCH_H
#define INFER_BENCH_H

/*
 * Speed of a model on this machine, and raw logits for tests
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_bench_params {
    struct inf_model *model;
    const char *isa;     /* as in inf_engine_params */
    uint32_t n_threads;  /* 0: all */
    uint32_t n_prompt;   /* tokens of one prefill; 0: skip */
    uint32_t n_generate; /* tokens of one decoding; 0: skip */
    uint32_t n_repeat;   /* 0: 5; after one warm-up that is not counted */
    uint32_t n_batch;    /* rows of one step; 0: 512 */
    inf_progress_fn progress;
    void *progress_data;
};

struct inf_bench_result {
    double pp_tok_s, pp_stddev; /* tokens per second; 0 when skipped */
    double tg_tok_s, tg_stddev;
    uint32_t n_threads;
    const char *isa; /* static */
};

INF_PUBLIC int inf_bench(const struct inf_bench_params *params, struct inf_bench_result *ret_result,
                         struct inf_err *reterr);

/*
 * Logits of one forward pass over @n_tokens tokens of one sequence: *ret_logits is an array
 * [n_tokens, n_vocab], freed by the caller. For tests and perplexity.
 */
INF_PUBLIC int inf_logits(struct inf_model *model, const char *isa, uint32_t n_threads,
                          const int32_t *tokens, size_t n_tokens, float **ret_logits,
                          struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
