/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the table of sampling parameters, and combines their sources (see sampling.h). */
#include "common/models/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct inf_sampling, member)

const struct inf_sampling sampling_openai = {
    .temperature = 1,
    .top_p = 1,
    .repetition_penalty = 1,
    SAMPLING_SHARED,
};

static const uint8_t llama_order[] = {
    INF_STAGE_TOP_N_SIGMA, INF_STAGE_TOP_K, INF_STAGE_TYPICAL_P,   INF_STAGE_TOP_P,
    INF_STAGE_MIN_P,       INF_STAGE_XTC,   INF_STAGE_TEMPERATURE,
};

const struct inf_sampling sampling_llama = {
    .temperature = 0.8f,
    .top_k = 40,
    .top_p = 0.95f,
    .min_p = 0.05f,
    .repetition_penalty = 1,
    .order = llama_order,
    .n_order = ARRAY_SIZE(llama_order),
    SAMPLING_SHARED,
};

const struct sampling_row sampling_rows[N_SAMPLING_KEYS] = {
    [SAMPLING_TEMPERATURE] = {"temperature", 0, 100, false, AT(temperature)},
    [SAMPLING_TOP_K] = {"top_k", -1, INT32_MAX, true, AT(top_k)},
    [SAMPLING_TOP_P] = {"top_p", 0, 1, false, AT(top_p)},
    [SAMPLING_MIN_P] = {"min_p", 0, 1, false, AT(min_p)},
    [SAMPLING_TYPICAL_P] = {"typical_p", 0, 1, false, AT(typical_p)},
    [SAMPLING_REPETITION_PENALTY] = {"repetition_penalty", 0.01, 100, false,
                                     AT(repetition_penalty)},
    [SAMPLING_REPEAT_LAST_N] = {"repeat_last_n", -1, INT32_MAX, true, AT(penalty_last_n)},
    [SAMPLING_PRESENCE_PENALTY] = {"presence_penalty", -100, 100, false, AT(presence_penalty)},
    [SAMPLING_FREQUENCY_PENALTY] = {"frequency_penalty", -100, 100, false, AT(frequency_penalty)},
    [SAMPLING_DYNATEMP_RANGE] = {"dynatemp_range", 0, 100, false, AT(dynatemp_range)},
    [SAMPLING_DYNATEMP_EXPONENT] = {"dynatemp_exponent", 0, 100, false, AT(dynatemp_exponent)},
    [SAMPLING_TOP_N_SIGMA] = {"top_n_sigma", -1, 1000, false, AT(top_n_sigma)},
    [SAMPLING_XTC_PROBABILITY] = {"xtc_probability", 0, 1, false, AT(xtc_probability)},
    [SAMPLING_XTC_THRESHOLD] = {"xtc_threshold", 0, 1, false, AT(xtc_threshold)},
    [SAMPLING_MIROSTAT] = {"mirostat", 0, 2, true, AT(mirostat)},
    [SAMPLING_MIROSTAT_TAU] = {"mirostat_tau", 0, 100, false, AT(mirostat_tau)},
    [SAMPLING_MIROSTAT_ETA] = {"mirostat_eta", 0, 1, false, AT(mirostat_eta)},
    [SAMPLING_DRY_MULTIPLIER] = {"dry_multiplier", 0, 100, false, AT(dry_multiplier)},
    [SAMPLING_DRY_BASE] = {"dry_base", 0, 100, false, AT(dry_base)},
    [SAMPLING_DRY_ALLOWED_LENGTH] = {"dry_allowed_length", 0, INT32_MAX, true,
                                     AT(dry_allowed_length)},
    [SAMPLING_DRY_PENALTY_LAST_N] = {"dry_penalty_last_n", -1, INT32_MAX, true, AT(dry_last_n)},
};

static float *sampling_float(const struct inf_sampling *s, enum sampling_key key)
{
    return (float *)((char *)s + sampling_rows[key].offset);
}

static uint32_t *sampling_whole(const struct inf_sampling *s, enum sampling_key key)
{
    return (uint32_t *)((char *)s + sampling_rows[key].offset);
}

const char *sampling_source_name(enum sampling_source source)
{
    static const char *const names[N_SAMPLING_SOURCES] = {"request", "manifest", "model",
                                                          "configuration", "default"};

    return names[source];
}

int sampling_find(const char *name)
{
    for (int i = 0; i < N_SAMPLING_KEYS; i++)
        if (strcmp(sampling_rows[i].name, name) == 0)
            return i;
    return -1;
}

void sampling_clear(struct inf_sampling *s)
{
    *s = (struct inf_sampling){0};
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        if (sampling_rows[i].is_whole)
            *sampling_whole(s, i) = UINT32_MAX;
        else
            *sampling_float(s, i) = NAN;
}

bool sampling_is_set(const struct inf_sampling *s, enum sampling_key key)
{
    return sampling_rows[key].is_whole ? *sampling_whole(s, key) != UINT32_MAX
                                       : !isnan(*sampling_float(s, key));
}

double sampling_value(const struct inf_sampling *s, enum sampling_key key)
{
    if (!sampling_is_set(s, key))
        return 0;
    return sampling_rows[key].is_whole ? *sampling_whole(s, key) : (double)*sampling_float(s, key);
}

bool sampling_set(struct inf_sampling *s, enum sampling_key key, double value)
{
    const struct sampling_row *row = &sampling_rows[key];

    if (!(value >= row->min && value <= row->max) || (row->is_whole && value != floor(value)))
        return false;
    /* In the engine, 0 switches these filters off, so 0 becomes a number slightly above 0. */
    if ((key == SAMPLING_TOP_P || key == SAMPLING_TYPICAL_P) && value == 0)
        value = 1e-9;
    if (key == SAMPLING_REPEAT_LAST_N && value < 0)
        value = INT32_MAX;
    /* In the engine, 0 stands for all tokens, so 0 becomes 1: a single token has no repetition. */
    if (key == SAMPLING_DRY_PENALTY_LAST_N)
        value = value < 0 ? 0 : MAX(value, 1.0);
    if (key == SAMPLING_TOP_N_SIGMA)
        value = MAX(value, 0.0);
    if (row->is_whole)
        *sampling_whole(s, key) = value > 0 ? (uint32_t)value : 0;
    else
        *sampling_float(s, key) = (float)value;
    return true;
}

bool sampling_set_text(struct inf_sampling *s, enum sampling_key key, const char *text)
{
    char *end;
    const double value = strtod(text, &end);

    return *text && !*end && sampling_set(s, key, value);
}

void sampling_fill(struct inf_sampling *s, const struct inf_sampling *from,
                   enum sampling_source source, enum sampling_source sources[N_SAMPLING_KEYS])
{
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++) {
        if (sampling_is_set(s, i) || !sampling_is_set(from, i))
            continue;
        if (sampling_rows[i].is_whole)
            *sampling_whole(s, i) = *sampling_whole(from, i);
        else
            *sampling_float(s, i) = *sampling_float(from, i);
        if (sources)
            sources[i] = source;
    }
}
