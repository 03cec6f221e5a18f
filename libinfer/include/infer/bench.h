/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_BENCH_H
#define INFER_BENCH_H

/*
 * Benchmark of a model, measured bounds of the machine, perplexity, and raw logits for tests
 *
 * Decoding reads all weights once per token, so memory bandwidth bounds the speed of decoding.
 * Prefill multiplies matrices, so for quantized weights the CPU's int8 dot product instruction
 * bounds the speed of prefill. Both bounds can be measured alone or together with a model. With a
 * model the bounds are measured between the runs of the model, because the bandwidth changes within
 * seconds on shared machines.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_bench_params {
    struct inf_model *model; /* NULL: measure only the bounds */
    const char *device;      /* as in inf_engine_params; the bounds are always those of the CPU */
    const char *cache_dir;   /* as in inf_engine_params */
    const char *isa;         /* as in inf_engine_params */
    const char *kv_type;     /* as in inf_engine_params */
    uint32_t n_threads;      /* 0: all; the bounds are measured with as many threads */
    uint32_t n_prompt;       /* tokens of one prefill run; 0: skip */
    uint32_t n_generate;     /* tokens of one decode run; 0: skip */
    uint32_t n_draft;        /* also measure decoding with this many drafted tokens in each step; at
                                most INF_DRAFT_MAX; 0: skip */
    double accept;      /* probability that a drafted token is accepted if all drafted tokens before
                           it were accepted */
    uint32_t n_streams; /* sequences that decode n_generate tokens at the same time; 0: 1 */
    uint32_t n_depth;   /* tokens that are in the context before prefill and decode start */
    uint32_t n_repeat;  /* measured runs; 0: 5; one warm-up run before them is not counted */
    uint32_t n_batch;   /* rows of one step; 0: 512 */
    bool membw;         /* measure the read bandwidth of memory; needs 512 MiB, or less if
                           less is available */
    bool peak;          /* measure the int8 dot instruction */
    inf_progress_fn progress;
    void *progress_data;
};

/* Members are 0 if their measurement was not requested. */
struct inf_bench_result {
    double pp_tok_s, pp_stddev;       /* prefill: tokens per second, mean and standard deviation */
    double tg_tok_s, tg_stddev;       /* decoding: as above, all streams together */
    double draft_tok_s, draft_stddev; /* decoding with drafts: as above */
    double fill_tok_s; /* speed of computing the n_depth tokens, which happens once */

    double read_bytes_s;  /* bytes per second that all threads together read sequentially from
                             memory, with the load instructions of `isa`: the result of the fastest
                             of several methods and repetitions */
    double int8_ops_s;    /* operations per second of the int8 dot instruction on all threads,
                             where a multiply-add counts as two; 0: the instruction set has no
                             such instruction */
    const char *read_how; /* name of the fastest method, for people; static */
    const char *int8_how; /* name of the instruction; static; NULL: none */

    /* Fractions of the bounds that the model reaches: medians over the runs. Decoding:
     * n_bytes_token × steps/s ÷ bytes/s, where bytes/s is the mean of the measurements right before
     * and right after the run. Prefill: 2 × multiply-adds ÷ time ÷ int8_ops_s. */
    double tg_of_bound, pp_of_peak;

    uint32_t n_threads;
    const char *isa; /* static */
};

INF_PUBLIC int inf_bench(const struct inf_bench_params *params, struct inf_bench_result *ret_result,
                         struct inf_err *reterr);

/* A number that is estimated from a sample, and its standard error. */
struct inf_estimate {
    double value, error;
};

/* The percentiles that struct inf_divergence has. Percentiles 0 and 100 are the minimum and the
 * maximum. A percentile between two values of the sample is interpolated. */
#define INF_QUANTILES                                                                              \
    {                                                                                              \
        0, 0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100                                        \
    }
#define INF_N_QUANTILES 13

/*
 * Compares the predictions of a model with those of a base model, over the predicted tokens. P is
 * the probability that the model gives to a token, and B is the probability that the base model
 * gives to it. The divergence of a token (Kullback and Leibler 1951) is the sum of B × ln(B ÷ P)
 * over the vocabulary; it is 0 if both models predict the same, and never negative except for
 * rounding.
 */
struct inf_divergence {
    struct inf_estimate base_ppl;   /* perplexity of the base model */
    struct inf_estimate log_ratio;  /* ln(perplexity of the model ÷ that of the base model) */
    struct inf_estimate ratio;      /* perplexity of the model ÷ that of the base model */
    struct inf_estimate difference; /* perplexity of the model - that of the base model */
    double correlation;             /* of ln P and ln B of the text's tokens; 0: not known */
    struct inf_estimate kld;        /* mean divergence, in nats */
    struct inf_estimate p_diff;     /* mean of P - B of the text's tokens */
    struct inf_estimate p_diff_rms; /* root of the mean of (P - B)² of the text's tokens */
    struct inf_estimate same_top;   /* share of positions where both models find the same token
                                       most probable */
    /* Quantiles of the divergence and of P - B; only after the last chunk. */
    double kld_quantiles[INF_N_QUANTILES], p_diff_quantiles[INF_N_QUANTILES];
};

/* Perplexity of the chunks that were computed so far. */
struct inf_perplexity_result {
    double ppl;                       /* exp(nll) */
    double error;                     /* standard error of ppl; 0 if a single token was predicted */
    double nll;                       /* mean of -ln(probability) of the predicted tokens */
    uint64_t n_tokens;                /* tokens that were predicted */
    uint32_t n_chunks_done, n_chunks; /* chunks that were computed, and that will be computed */
    struct inf_divergence divergence; /* only if a base model was given */
};

struct inf_perplexity_params {
    struct inf_model *model;
    const char *device, *cache_dir, *isa, *kv_type; /* as in inf_engine_params */
    uint32_t n_threads;                             /* 0: all */
    uint32_t n_ctx;                                 /* tokens of a chunk, at least 4; 0: 512 */
    uint32_t n_batch;                               /* rows of one step; 0: 512 */
    uint32_t n_chunks;                              /* limit; 0: all whole chunks of the text */
    uint32_t n_predict;       /* number of tokens at the end of a chunk that are predicted; at most
                                 n_ctx - 1; 0: those of the second half */
    struct inf_model *base;   /* the model to compare with, which may be the same one; NULL: none */
    const char *base_kv_type; /* its number format of keys and values */
    /* Called after each chunk, in the caller's thread; NULL: not called. @result is borrowed. */
    void (*chunk)(void *data, const struct inf_perplexity_result *result);
    void *chunk_data;
};

/*
 * Computes how well the model predicts a text of @n_tokens tokens. The text is cut into chunks of
 * n_ctx tokens, which do not see each other; the tokens after the last whole chunk are left out. If
 * the model's tokenizer adds BOS, BOS replaces the first token of each chunk. In each chunk the
 * positions from n_ctx ÷ 2 to n_ctx - 2, or the n_predict positions before the last one, predict
 * their next tokens. A base model computes the same chunks with the same tokens. The function holds
 * the logits of a few rows at a time, and with a base model 8 bytes per predicted token. The caller
 * keeps @tokens. -EINVAL: the text is shorter than one chunk, a token is not in the vocabulary, the
 * base model has another number of tokens in its vocabulary, or a size is out of range;
 * -EOPNOTSUPP: a model does not generate text; other errors are those of inf_engine_new().
 */
INF_PUBLIC int inf_perplexity(const struct inf_perplexity_params *params, const int32_t *tokens,
                              size_t n_tokens, struct inf_perplexity_result *ret_result,
                              struct inf_err *reterr);

struct inf_logits_params {
    struct inf_model *model;
    const char *device, *cache_dir, *isa, *kv_type; /* as in inf_engine_params */
    uint32_t n_threads;                             /* 0: all */
};

/*
 * Computes the logits of one forward pass over @n_tokens tokens of one sequence. *ret_logits is an
 * array [n_tokens, n_vocab] that the caller frees. Tests use this function.
 */
INF_PUBLIC int inf_logits(const struct inf_logits_params *params, const int32_t *tokens,
                          size_t n_tokens, float **ret_logits, struct inf_err *reterr);

#ifdef __cplusplus
}
#endif
#endif
