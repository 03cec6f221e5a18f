/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parameters that both generating endpoints share: lengths, sampling, stops, streaming
 *
 * Every field is obeyed or refused by name. docs/http-api.md lists fields that are accepted
 * without effect.
 */

#include <infer/engine.h>
#include <jansson.h>

#include "common/http/problem.h"

#define PARAMS_MAX_STOPS   16
#define PARAMS_MAX_CHOICES 128
#define PARAMS_MAX_BIAS    1024

struct params {
    const char *model;            /* borrowed from the body; NULL: the default */
    struct inf_sampling sampling; /* logit_bias points to bias */
    struct inf_logit_bias *bias;
    struct inf_stop stops[PARAMS_MAX_STOPS]; /* borrowed from the body */
    size_t n_stops;
    uint32_t n;
    bool stream, include_usage, ignore_eos, show_special, no_cache;
    const char *cache_salt; /* borrowed from the body; NULL: none */
    size_t cache_salt_len;
    const char *kv_type; /* like chat.kv_type; borrowed from the body; NULL: chat.kv_type */
};

/* Names of the fields that params_read() knows, NULL-terminated. */
extern const char *const params_names[];

int params_read(struct params *params, json_t *body, struct problem *problem);
/* Checks what depends on the model: ids must be within its vocabulary. */
int params_check_vocab(const struct params *params, uint32_t n_vocab, struct problem *problem);
void params_done(struct params *params);
