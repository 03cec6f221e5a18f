/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of /api/chat and /api/generate, and their options, which have Ollama's names
 * and defaults. */
#include <errno.h>
#include <string.h>

#include "chat/api/ollama-body.h"
#include "common/models/sampling.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"

/* The path of an option. */
#define OPTION(name) "options." name

static const char *const shared_fields[] = {
    "model",    "stream",       "format",   "options", "keep_alive", "think",
    "logprobs", "top_logprobs", "truncate", "shift",   NULL,
};

/* Ollama's defaults, from docs/modelfile.md in Ollama's repository. */
const struct inf_sampling sampling_ollama = {
    .temperature = 0.8f,
    .top_k = 40,
    .top_p = 0.9f,
    .repetition_penalty = 1.1f,
    SAMPLING_SHARED,
};

static const struct {
    const char *path;
    enum sampling_key key;
} option_keys[] = {
    {OPTION("temperature"), SAMPLING_TEMPERATURE},
    {OPTION("top_k"), SAMPLING_TOP_K},
    {OPTION("top_p"), SAMPLING_TOP_P},
    {OPTION("min_p"), SAMPLING_MIN_P},
    {OPTION("typical_p"), SAMPLING_TYPICAL_P},
    {OPTION("repeat_penalty"), SAMPLING_REPETITION_PENALTY},
    {OPTION("repeat_last_n"), SAMPLING_REPEAT_LAST_N},
    {OPTION("presence_penalty"), SAMPLING_PRESENCE_PENALTY},
    {OPTION("frequency_penalty"), SAMPLING_FREQUENCY_PENALTY},
    {OPTION("mirostat"), SAMPLING_MIROSTAT},
    {OPTION("mirostat_tau"), SAMPLING_MIROSTAT_TAU},
    {OPTION("mirostat_eta"), SAMPLING_MIROSTAT_ETA},
};

static int options_sampling(struct params *p, json_t *options, struct problem *problem)
{
    for (size_t i = 0; i < ARRAY_SIZE(option_keys); i++) {
        const enum sampling_key key = option_keys[i].key;
        double value = 0;
        const int r =
            params_number(options, option_keys[i].path, &sampling_rows[key], &value, problem);

        if (r < 0)
            return r;
        if (r > 0)
            sampling_set(&p->sampling, key, value);
    }
    return 0;
}

static int options_ints(struct params *p, json_t *options, struct problem *problem)
{
    int64_t seed = -1, predict = -1;
    int r;

    if ((r = field_int(options, OPTION("num_predict"), -2, INT32_MAX, &predict, problem)) < 0 ||
        (r = field_int(options, OPTION("seed"), INT64_MIN, INT64_MAX, &seed, problem)) < 0)
        return r;
    p->max_tokens = predict > 0 ? (uint32_t)predict : 0;
    p->sampling.has_seed = seed >= 0;
    p->sampling.seed = (uint64_t)seed;
    return 0;
}

static int options_stop(struct params *p, json_t *text, struct problem *problem)
{
    if (!json_is_string(text))
        return field_wrong_type(OPTION("stop"), "an array of strings", text, problem);
    if (json_string_length(text) && !params_add_stop(p, text))
        return problem_set(problem, 400, "invalid_value", OPTION("stop"),
                           "'options.stop' has more than %d strings.", PARAMS_MAX_STOPS);
    return 0;
}

static int options_stops(struct params *p, json_t *options, struct problem *problem)
{
    json_t *stop = field_find(options, OPTION("stop")), *item;
    size_t i;
    int r = 0;

    if (!json_is_array(stop))
        return stop ? options_stop(p, stop, problem) : 0;
    json_array_foreach(stop, i, item)
    {
        r = options_stop(p, item, problem);
        if (r < 0)
            break;
    }
    return r;
}

static int options_read(struct params *p, json_t *body, struct problem *problem)
{
    _cleanup_json_ json_t *options = NULL;
    int r;

    if ((r = ollama_open_options(body, &options, problem)) < 0 ||
        (r = options_sampling(p, options, problem)) < 0 ||
        (r = options_ints(p, options, problem)) < 0)
        return r;
    return options_stops(p, options, problem);
}

/* Reads the field `format`, which is "json" or a JSON Schema. */
static int format_read(struct params *p, json_t *body, struct problem *problem)
{
    json_t *format = field_find(body, "format");

    if (!format || field_is(format, ""))
        return 0;
    p->constraint.field = "format";
    if (field_is(format, "json")) {
        p->constraint.kind = CONSTRAINT_JSON;
    } else if (json_is_object(format)) {
        p->constraint.kind = CONSTRAINT_SCHEMA;
        p->constraint.value = json_incref(format);
    } else {
        return problem_set(problem, 400, "invalid_value", "format",
                           "Invalid value for 'format': it must be \"json\" or a JSON Schema.");
    }
    return 0;
}

/* Reads the field `think`, which is a boolean or tells how much the model is to think. */
static int think_read(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const levels[] = {"low", "medium", "high", "max"};
    json_t *think = field_find(body, "think");

    if (!think)
        return 0;
    p->reasoning.field = "think";
    if (json_is_boolean(think)) {
        p->reasoning.enabled = json_is_true(think);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(levels); i++)
        if (field_is(think, levels[i])) {
            p->reasoning.enabled = 1;
            p->reasoning.effort = json_incref(think);
            return 0;
        }
    return problem_set(problem, 400, "invalid_value", "think",
                       "Invalid value for 'think': it must be a boolean, \"low\", \"medium\", "
                       "\"high\" or \"max\".");
}

static int logprobs_read(struct params *p, json_t *body, struct problem *problem)
{
    bool wanted = false;
    int64_t top = 0;
    int r;

    if ((r = field_bool(body, "logprobs", &wanted, problem)) < 0 ||
        (r = field_int(body, "top_logprobs", 0, 20, &top, problem)) < 0)
        return r;
    if (top && !wanted)
        return problem_set(problem, 400, "invalid_value", "top_logprobs",
                           "'top_logprobs' is only possible with 'logprobs': true.");
    p->n_logprobs = wanted ? (int)top : -1;
    return 0;
}

int ollama_params_read(struct params *p, json_t *body, const char *const *more,
                       struct problem *problem)
{
    const char *const *const fields[] = {shared_fields, more, NULL};
    bool unused = false;
    int r;

    params_init(p);
    p->stream = true;
    if ((r = fields_known_in(body, "", fields, problem)) < 0 ||
        (r = field_text(body, "model", &p->model, problem)) < 0 ||
        (r = field_bool(body, "stream", &p->stream, problem)) < 0 ||
        (r = field_bool(body, "truncate", &unused, problem)) < 0 ||
        (r = field_bool(body, "shift", &unused, problem)) < 0 ||
        (r = format_read(p, body, problem)) < 0 || (r = think_read(p, body, problem)) < 0 ||
        (r = logprobs_read(p, body, problem)) < 0 || (r = options_read(p, body, problem)) < 0)
        return r;
    r = ollama_read_keep_alive(body, &p->keep_usec, problem);
    p->has_keep = r > 0;
    return MIN(r, 0);
}
