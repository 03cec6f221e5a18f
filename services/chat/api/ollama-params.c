/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the parameters of /api/chat and /api/generate, and their options, which have Ollama's names
 * and defaults. */
#include <errno.h>
#include <string.h>

#include "chat/api/ollama-body.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"

/* The path of an option. */
#define OPTION(name) "options." name

static const char *const shared_fields[] = {
    "model",    "stream",       "format",   "options", "keep_alive", "think",
    "logprobs", "top_logprobs", "truncate", "shift",   NULL,
};

/* Ollama's defaults (docs/modelfile.md). */
static void params_defaults(struct params *p)
{
    params_init(p);
    p->stream = true;
    p->sampling.temperature = 0.8f;
    p->sampling.top_k = 40;
    p->sampling.top_p = 0.9f;
    p->sampling.repetition_penalty = 1.1f;
}

static int options_floats(struct params *p, json_t *options, struct problem *problem)
{
    const struct {
        const char *name;
        double min, max;
        float *value;
    } rows[] = {
        {OPTION("temperature"), 0, 100, &p->sampling.temperature},
        {OPTION("top_p"), 0, 1, &p->sampling.top_p},
        {OPTION("min_p"), 0, 1, &p->sampling.min_p},
        {OPTION("typical_p"), 0, 1, &p->sampling.typical_p},
        {OPTION("repeat_penalty"), 0.01, 10, &p->sampling.repetition_penalty},
        {OPTION("presence_penalty"), -10, 10, &p->sampling.presence_penalty},
        {OPTION("frequency_penalty"), -10, 10, &p->sampling.frequency_penalty},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double v = (double)*rows[i].value;
        const int r = field_double(options, rows[i].name, rows[i].min, rows[i].max, &v, problem);

        if (r < 0)
            return r;
        /* In the engine, 0 switches the filter off; in the API, 0 keeps only the most likely
         * token. */
        if (r > 0 && v == 0 && rows[i].value == &p->sampling.top_p)
            v = 1e-9;
        *rows[i].value = (float)v;
    }
    return 0;
}

/* "repeat_last_n": 0 switches the penalty off, and -1 stands for the whole context. */
static int options_window(struct params *p, json_t *options, struct problem *problem)
{
    int64_t window = 64;
    const int r = field_int(options, OPTION("repeat_last_n"), -1, INT32_MAX, &window, problem);

    if (window == 0)
        p->sampling.repetition_penalty = 1;
    p->sampling.penalty_last_n = window < 0 ? INT32_MAX : (uint32_t)window;
    return r;
}

static int options_mirostat(struct params *p, json_t *options, struct problem *problem)
{
    int64_t mirostat = 0;
    double tau = 5, eta = 0.1;
    int r;

    if ((r = field_int(options, OPTION("mirostat"), 0, 2, &mirostat, problem)) < 0 ||
        (r = field_double(options, OPTION("mirostat_tau"), 0, 100, &tau, problem)) < 0 ||
        (r = field_double(options, OPTION("mirostat_eta"), 0, 1, &eta, problem)) < 0)
        return r;
    p->sampling.mirostat = (uint32_t)mirostat;
    p->sampling.mirostat_tau = (float)tau;
    p->sampling.mirostat_eta = (float)eta;
    return 0;
}

static int options_ints(struct params *p, json_t *options, struct problem *problem)
{
    int64_t top_k = p->sampling.top_k, seed = -1, predict = -1;
    int r;

    if ((r = field_int(options, OPTION("top_k"), -1, INT32_MAX, &top_k, problem)) < 0 ||
        (r = field_int(options, OPTION("num_predict"), -2, INT32_MAX, &predict, problem)) < 0 ||
        (r = field_int(options, OPTION("seed"), INT64_MIN, INT64_MAX, &seed, problem)) < 0)
        return r;
    p->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    p->max_tokens = predict > 0 ? (uint32_t)predict : 0;
    p->sampling.has_seed = seed >= 0;
    p->sampling.seed = (uint64_t)seed;
    return options_window(p, options, problem);
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
        (r = options_floats(p, options, problem)) < 0 ||
        (r = options_ints(p, options, problem)) < 0 ||
        (r = options_mirostat(p, options, problem)) < 0)
        return r;
    return options_stops(p, options, problem);
}

/* "format": "json", or a JSON Schema. */
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

/* "think": a boolean, or how much. */
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

static int known(json_t *body, const char *const *more, struct problem *problem)
{
    const char *const *lists[] = {shared_fields, more};
    const char *names[32];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (const char *const *name = lists[i]; *name; name++)
            names[n++] = *name;
    assert(n < ARRAY_SIZE(names));
    names[n] = NULL;
    return fields_known(body, "", names, problem);
}

int ollama_params_read(struct params *p, json_t *body, const char *const *more,
                       struct problem *problem)
{
    bool unused = false;
    int r;

    params_defaults(p);
    if ((r = known(body, more, problem)) < 0 ||
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
