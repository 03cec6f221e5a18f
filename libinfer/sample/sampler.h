/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses a token from a row of logits.
 *
 * A choice passes these stages, in this order:
 *   1. tokens that the mask or the list of forbidden tokens excludes get no chance
 *   2. logit_bias is added; a bias of -100 or less forbids the token
 *   3. repetition penalty, once per token in the window (the last tokens, prompt included)
 *   4. presence and frequency penalty, over generated tokens
 *   5. DRY, see dry.h
 *   6. temperature; 0 takes the most likely token, and the stages below are skipped
 *   7. top-n-sigma, over the logits of the tokens that are still possible
 *   8. top-k
 *   9. typical-p (Meister et al. 2022)
 *  10. top-p (Holtzman et al. 2019)
 *  11. min-p (Nguyen et al. 2024), relative to the most likely remaining token
 *  12. XTC
 *  13. one draw from the remaining tokens, renormalized
 * With a mask, a token is first chosen as if there were none. Only if the mask excludes this token,
 * all stages are repeated with the tokens that the mask permits. Before each of the stages 8 to 12,
 * the probabilities of the tokens that are still possible are divided by their sum. OpenAI's API
 * also applies top-p after temperature. Top-k comes before stages 9 to 12 because it limits their
 * work. Ties always go to the lower id. Log-probabilities are those of raw logits: before masks,
 * bias, penalties and temperature.
 *
 * A request may give another order of the stages 6 to 12, as llama.cpp's `samplers` does, and may
 * add a stage for text in the middle of other text (infill.h). Mirostat 1 and 2 take the place of
 * the stages 7 to 12. With a dynamic temperature, stage 6 takes the temperature
 *     low + (high - low) × (entropy / log(number of tokens)) ^ exponent
 * between temperature - range (at least 0) and temperature + range.
 *
 * A choice depends only on the row, the parameters, the sequence's tokens and its generators of
 * random numbers. A sampler is working memory for one thread; picking allocates nothing.
 *
 * Random numbers are those of llama.cpp for the same seed, and choose from the tokens in the same
 * order: by token, or, after a stage for which llama.cpp sorts, by decreasing logit. One number
 * chooses one token, unless there is only one. So the same logits give the same token.
 *
 * If a few of the largest logits determine the choice, a list of them (core/top.h) gives exactly
 * the same token as the row, with the same random numbers.
 */

#include <infer/engine.h>

#include "core/macros.h"
#include "core/top.h"
#include "core/twister.h"
#include "sample/dry.h"

/* The facts about tokens that the stage infill (infill.h) needs. */
struct sample_vocab {
    const int32_t *ends; /* [n_ends]: the tokens that end a text */
    uint32_t n_ends;
    /* Returns the text of a token, borrowed; *ret_len is 0 for special tokens. */
    const char *(*text)(const void *data, int32_t token, size_t *ret_len);
    const void *data;
};

/* A copy of struct inf_sampling with defaults resolved. */
struct sample_params {
    float temperature, top_p, min_p, typical_p;
    uint32_t top_k;
    float repetition, presence, frequency;
    uint32_t window;
    struct inf_logit_bias *bias; /* owned */
    size_t n_bias;
    float dynatemp_range, dynatemp_exponent;
    float top_n_sigma, xtc_probability, xtc_threshold;
    uint32_t mirostat;
    float mirostat_tau, mirostat_eta;
    struct dry dry; /* its breakers are set by the caller of sample_params_init() */
    uint32_t min_keep;
    uint8_t *order; /* [n_order], owned; NULL: the usual order */
    uint32_t n_order;
    bool post_logprobs;        /* sampler_post_logprob() will be called; set by the caller */
    struct sample_vocab vocab; /* for INF_STAGE_INFILL; set by the caller; without `text`, this
                                  stage leaves out nothing */
};

/* Copies @in, which must be valid (asserted). -ENOMEM. */
int sample_params_init(struct sample_params *p, const struct inf_sampling *in);
void sample_params_done(struct sample_params *p);

/* The state that a sequence keeps from one choice of a token to the next. */
struct sample_state {
    uint32_t seed;
    float mu;             /* the mu of Mirostat: how much surprise the next token may have */
    struct twister *draw; /* for stage 13; NULL: choices are greedy */
    struct twister *xtc;  /* decides whether XTC acts; NULL: XTC is off */
    uint32_t *repeats;    /* scratch memory of DRY; NULL: DRY is off */
};

/* Initializes @state. The seed is the lower half of @seed, mixed with the upper half. */
void sample_state_init(struct sample_state *state, const struct sample_params *p, uint64_t seed);
/* Allocates the memory that choices need for a text of at most @max_tokens tokens. On failure
 * (-ENOMEM) there is nothing to free. */
int sample_state_start(struct sample_state *state, const struct sample_params *p,
                       uint32_t max_tokens);
/* Frees what sample_state_start() allocated. */
void sample_state_stop(struct sample_state *state);

/* The text for which a token is chosen. */
struct sample_text {
    const int32_t *tokens;
    uint32_t n_tokens, n_prompt; /* the first n_prompt tokens belong to the prompt */
    const uint32_t *mask;     /* one bit per token that may follow (grammar/matcher.h); NULL: all */
    const int32_t *forbidden; /* tokens that must not follow */
    uint32_t n_forbidden;
};

struct sampler;

#define SAMPLE_MAX_TOP TOP_MAX /* limit of @n_top of sampler_logprob() */

/* Conditions that functions return as positive numbers. */
enum {
    SAMPLE_BAD_ROW = 1,   /* a logit is NaN or +infinity, or all are -infinity */
    SAMPLE_NONE_LEFT = 2, /* every token is forbidden */
};

/* A row has @n_vocab values for tokens, and may have further values, which belong to no token; it
 * has at most @n_row values in all. -ENOMEM. */
int sampler_new(uint32_t n_vocab, uint32_t n_row, struct sampler **ret_sampler);
struct sampler *sampler_free(struct sampler *s);
DEFINE_CLEANUP(struct sampler *, sampler_free);
/* Creates @n samplers, which differ only in their memory: (*ret_samplers)[n + 1], NULL at the end.
 * -ENOMEM. */
int samplers_new(uint32_t n, uint32_t n_vocab, uint32_t n_row, struct sampler ***ret_samplers);
/* Frees samplers and their list; NULL is allowed. Returns NULL. */
struct sampler **samplers_free(struct sampler **samplers);

/*
 * Picks the token that follows @text. @logits are modified and restored. Greedy picks do not use
 * the random numbers of @state. Returns 0, SAMPLE_BAD_ROW or SAMPLE_NONE_LEFT.
 */
int sampler_pick(struct sampler *s, const struct sample_params *p, const struct sample_text *text,
                 struct sample_state *state, float *logits, int32_t *ret_token);
/* Like sampler_logprob(), for the token of the latest pick, with the probabilities from which stage
 * 13 drew the token. The parameters of that pick must have had post_logprobs set. */
uint32_t sampler_post_logprob(struct sampler *s, uint32_t n_top, float *ret_logprob,
                              struct inf_top_logprob *ret_top);
/*
 * Computes the log-softmax of @token over a row of @n_row ≥ n_vocab raw logits (if @token is
 * negative, *ret_logprob is NAN), and the @n_top ≤ SAMPLE_MAX_TOP most likely of the first n_vocab
 * tokens, best first. Returns how many tokens are in @ret_top. For an invalid row (SAMPLE_BAD_ROW),
 * *ret_logprob is NAN and the result is 0.
 */
uint32_t sampler_logprob(struct sampler *s, const float *logits, uint32_t n_row, int32_t token,
                         uint32_t n_top, float *ret_logprob, struct inf_top_logprob *ret_top);

/* Returns how many of the largest logits are needed for the pick with @p and for the @n_top most
 * likely tokens; 0: the whole row is needed. */
uint32_t sampler_list_need(const struct sampler *s, const struct sample_params *p, uint32_t n_top);
/* Returns whether @list, which was requested with the number of sampler_list_need(), suffices. A
 * list that contains indices of n_vocab or more, which belong to no token, does not always suffice.
 * An empty list never suffices. */
bool sampler_list_suffices(const struct sampler *s, const struct top_row *list);
/* Like sampler_pick() and sampler_logprob(), but from a list that suffices. @token must be in the
 * list. */
int32_t sampler_pick_from_list(struct sampler *s, const struct sample_params *p,
                               struct sample_state *state, const struct top_row *list);
uint32_t sampler_logprob_from_list(const struct sampler *s, const struct top_row *list,
                                   int32_t token, uint32_t n_top, float *ret_logprob,
                                   struct inf_top_logprob *ret_top);
