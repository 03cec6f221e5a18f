/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the sampling parameters that a request, a model or the configuration may set.
 *
 * Several sources may set the same parameter: the request, the model's manifest (manifest.h), the
 * model's own files, the configuration, and the API. The first source in this order that sets the
 * parameter decides its value. Each source fills a struct inf_sampling, whose members are "not set"
 * at first: NAN, or UINT32_MAX for whole numbers.
 */

#include <infer/engine.h>

#include "core/macros.h"

struct inf_model;

enum sampling_source {
    SAMPLING_OF_REQUEST,
    SAMPLING_OF_MANIFEST,
    SAMPLING_OF_MODEL, /* generation_config.json, or general.sampling.* in a GGUF file */
    SAMPLING_OF_CONFIG,
    SAMPLING_OF_API,
    N_SAMPLING_SOURCES,
};

enum sampling_key {
    SAMPLING_TEMPERATURE,
    SAMPLING_TOP_K,
    SAMPLING_TOP_P,
    SAMPLING_MIN_P,
    SAMPLING_TYPICAL_P,
    SAMPLING_REPETITION_PENALTY,
    SAMPLING_REPEAT_LAST_N,
    SAMPLING_PRESENCE_PENALTY,
    SAMPLING_FREQUENCY_PENALTY,
    SAMPLING_DYNATEMP_RANGE,
    SAMPLING_DYNATEMP_EXPONENT,
    SAMPLING_TOP_N_SIGMA,
    SAMPLING_XTC_PROBABILITY,
    SAMPLING_XTC_THRESHOLD,
    SAMPLING_MIROSTAT,
    SAMPLING_MIROSTAT_TAU,
    SAMPLING_MIROSTAT_ETA,
    SAMPLING_DRY_MULTIPLIER,
    SAMPLING_DRY_BASE,
    SAMPLING_DRY_ALLOWED_LENGTH,
    SAMPLING_DRY_PENALTY_LAST_N,
    N_SAMPLING_KEYS,
};

struct sampling_row {
    const char *name;
    double min, max;
    bool is_whole; /* the member is a uint32_t; otherwise a float */
    size_t offset; /* in struct inf_sampling */
};

/* These members have the same default in all APIs. */
#define SAMPLING_SHARED                                                                            \
    .typical_p = 1, .penalty_last_n = 64, .dynatemp_exponent = 1, .xtc_threshold = 0.1f,           \
    .mirostat_tau = 5, .mirostat_eta = 0.1f, .dry_base = 1.75f, .dry_allowed_length = 2

extern const struct sampling_row sampling_rows[N_SAMPLING_KEYS];
/* The defaults of two APIs, with a value for each parameter. In sampling_openai, `order` is NULL,
 * which stands for the usual order of the stages. sampling_llama has the order of llama.cpp, in
 * which the temperature comes last. */
extern const struct inf_sampling sampling_openai, sampling_llama;

/* Returns the name of a source, for people. */
const char *sampling_source_name(enum sampling_source source);
/* Finds a row by its name; -1: there is none. */
int sampling_find(const char *name);
/* Makes all parameters of the table "not set", and all other members 0. */
void sampling_clear(struct inf_sampling *s);
bool sampling_is_set(const struct inf_sampling *s, enum sampling_key key);
/* Returns the value; 0 if it is not set. */
double sampling_value(const struct inf_sampling *s, enum sampling_key key);
/* Sets a parameter to a value with the meaning that it has in the APIs: 0 for top_p or typical_p
 * keeps only the most likely token, a value below 1 switches top_k off, and for repeat_last_n or
 * dry_penalty_last_n, 0 stands for no token, and -1 for the whole text. False: the value is out of
 * range. */
bool sampling_set(struct inf_sampling *s, enum sampling_key key, double value);
/* Works like sampling_set(), for a number as text. */
bool sampling_set_text(struct inf_sampling *s, enum sampling_key key, const char *text);
/* Copies the parameters that @s lacks and @from has. If @sources is not NULL, sets the source of
 * each copied parameter to @source. */
void sampling_fill(struct inf_sampling *s, const struct inf_sampling *from,
                   enum sampling_source source, enum sampling_source sources[N_SAMPLING_KEYS]);
/* Reads what the model's files recommend. Values out of range are ignored. */
void sampling_of_model(const struct inf_model *model, struct inf_sampling *ret);
