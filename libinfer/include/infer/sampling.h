/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_SAMPLING_H
#define INFER_SAMPLING_H

/*
 * Options of sampling: how the next token is chosen
 *
 * First the logits of single tokens change: by logit_bias, by repetition_penalty, by the presence
 * and frequency penalties, and by DRY. Then the stages of enum inf_stage are applied. One token is
 * drawn from those that remain.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_logit_bias {
    int32_t token;
    float bias; /* added to the logit; -100 or less excludes the token */
};

/* A text at which the search for repetitions stops, see dry_breakers. */
struct inf_breaker {
    const char *text;
    size_t len;
};

/* The stages that leave tokens out. Temperature is one of them because it changes what the stages
 * after it leave out. */
enum inf_stage {
    INF_STAGE_TEMPERATURE,
    INF_STAGE_TOP_N_SIGMA,
    INF_STAGE_TOP_K,
    INF_STAGE_TYPICAL_P,
    INF_STAGE_TOP_P,
    INF_STAGE_MIN_P,
    INF_STAGE_XTC,
    INF_STAGE_INFILL, /* the sampler `infill` of llama.cpp: text in the middle of other text ends
                         early rather than too late */
    INF_N_STAGES,
};

/* All zero means greedy sampling without penalties. The comment of each member gives the values
 * that disable the member. */
struct inf_sampling {
    float temperature;        /* 0: greedy */
    float top_p;              /* 0 or 1: off */
    float min_p;              /* 0: off */
    float typical_p;          /* 0 or 1: off */
    uint32_t top_k;           /* 0: off */
    float repetition_penalty; /* 0 or 1: off; positive logits of the last penalty_last_n tokens are
                                 divided by it, and their negative logits are multiplied by it */
    float presence_penalty;   /* as OpenAI defines it, over generated tokens */
    float frequency_penalty;  /* as OpenAI defines it, over generated tokens */
    uint32_t penalty_last_n;  /* how many of the last tokens, including those of the prompt, get the
                                 repetition_penalty; 0: none */
    bool has_seed;
    uint64_t seed; /* choice i of a request uses seed + i */
    const struct inf_logit_bias *logit_bias;
    size_t n_logit_bias;

    /* The members below mean the same as the options of llama.cpp with these names. */
    float dynatemp_range;    /* 0: off; else the temperature is between temperature - dynatemp_range
                                and temperature + dynatemp_range, by the entropy of the row */
    float dynatemp_exponent; /* how the entropy is mapped to this range; 0: 1 */
    float top_n_sigma;       /* 0: off; leaves out tokens whose logit is more than top_n_sigma
                                standard deviations below the largest logit */
    float xtc_probability;   /* 0: off; probability with which XTC is applied: it leaves out the
                                tokens that have at least the probability xtc_threshold, except the
                                least likely of them */
    float xtc_threshold;     /* above 0.5: off */
    uint32_t mirostat;       /* 0: off; 1 and 2: the two versions of Mirostat, which take the place
                                of all stages except temperature */
    float mirostat_tau;      /* the surprise per token, in bits, that Mirostat aims at */
    float mirostat_eta;      /* how fast Mirostat corrects itself */
    float dry_multiplier;    /* 0: off; penalty for a token that would continue a repetition */
    float dry_base;          /* below 1: off; factor of the penalty per repeated token */
    uint32_t dry_allowed_length; /* tokens that may be repeated without a penalty */
    uint32_t dry_last_n;         /* how many of the last tokens, those of the prompt included, are
                                    searched for repetitions; 0: all */
    const struct inf_breaker *dry_breakers; /* a repetition never includes one of these texts */
    size_t n_dry_breakers;
    uint32_t min_keep;    /* least number of tokens that each of the stages top-p, typical-p, min-p
                             and XTC leaves; 0: 1 */
    const uint8_t *order; /* the stages (enum inf_stage) in their order; a missing stage is not
                             applied; NULL: all but INF_STAGE_INFILL, in the order of the enum */
    size_t n_order;
};

#ifdef __cplusplus
}
#endif
#endif
