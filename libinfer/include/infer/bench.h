/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_BENCH_H
#define INFER_BENCH_H

/*
 * Speed of a model on this machine beside what the machine gives at most, and raw logits for tests
 *
 * Decoding reads all weights once per token, so the bandwidth of memory bounds it; prefill
 * multiplies, so the int8 dot instruction bounds it for quantised weights. Both bounds can be
 * measured alone, or along with a model: then right before and after each run, because on shared
 * machines they change within seconds.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_bench_params {
    struct inf_model *model; /* NULL: the bounds alone */
    const char *device;      /* as in inf_engine_params; bounds are those of the CPU */
    const char *cache_dir;   /* as in inf_engine_params */
    const char *isa;         /* as in inf_engine_params */
    const char *kv_type;     /* as in inf_engine_params */
    uint32_t n_threads;      /* 0: all; the bounds are measured by as many */
    uint32_t n_prompt;       /* tokens of one prefill; 0: skip */
    uint32_t n_generate;     /* tokens of one decoding; 0: skip */
    uint32_t n_streams;      /* sequences that decode these at the same time; 0: 1 */
    uint32_t n_depth;        /* tokens that lie in the context before those */
    uint32_t n_repeat;       /* 0: 5; after one warm-up that is not counted */
    uint32_t n_batch;        /* rows of one step; 0: 512 */
    bool membw;              /* measure how fast memory is read; needs 512 MiB, or less where
                                memory is short */
    bool peak;               /* measure the int8 dot instruction */
    inf_progress_fn progress;
    void *progress_data;
};

/* What was skipped is 0. */
struct inf_bench_result {
    double pp_tok_s, pp_stddev; /* tokens per second */
    double tg_tok_s, tg_stddev; /* of all streams together */
    double fill_tok_s;          /* of reading the n_depth tokens, once */

    double read_bytes_s; /* bytes per second that all threads read from memory in order, with loads
                            of the rung: the fastest of several ways and repeats */
    double int8_ops_s;   /* operations per second of the rung's int8 dot instruction, all threads; a
                            multiplication and an addition are two. 0: the rung has none */
    const char *read_how; /* the fastest way, for people; static */
    const char *int8_how; /* the instruction; static, NULL: none */

    /* Medians over the runs: n_bytes_token × tokens/s ÷ bytes/s, each divided by the mean of the
     * bandwidth right before and after it; 2 × multiply-adds ÷ time ÷ int8_ops_s. */
    double tg_of_bound, pp_of_peak;

    uint32_t n_threads;
    const char *isa; /* static */
};

INF_PUBLIC int inf_bench(const struct inf_bench_params *params, struct inf_bench_result *ret_result,
                         struct inf_err *reterr);

struct inf_logits_params {
    struct inf_model *model;
    const char *device, *cache_dir, *isa, *kv_type; /* as in inf_engine_params */
    uint32_t n_threads;                             /* 0: all */
};

/*
 * Logits of one forward pass over @n_tokens tokens of one sequence: *ret_logits is an array
 * [n_tokens, n_vocab], freed by the caller. For tests and perplexity.
 */
INF_PUBLIC int inf_logits(const struct inf_logits_params *params, const int32_t *tokens,
                          size_t n_tokens, float **ret_logits, struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
