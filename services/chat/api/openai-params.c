/* SPDX-License-Identifier: Apache-2.0 */
/* Reads OpenAI's parameters with OpenAI's ranges, and the further parameters of sampling that
 * servers of open models have. */
#include "chat/api/openai-body.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/config/kv-type.h"
#include "common/wire/fields.h"

const char *const openai_params_names[] = {
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stop",
    "n",
    "stream",
    "stream_options",
    "ignore_eos",
    "skip_special_tokens",
    "cache_prompt",
    "cache_salt",
    "kv_type",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    NULL,
};

static int openai_read_floats(struct params *p, json_t *body, struct problem *problem)
{
    const struct {
        const char *name;
        double min, max;
        float *value;
    } rows[] = {
        {"temperature", 0, 2, &p->sampling.temperature},
        {"top_p", 0, 1, &p->sampling.top_p},
        {"min_p", 0, 1, &p->sampling.min_p},
        {"typical_p", 0, 1, &p->sampling.typical_p},
        {"repetition_penalty", 0.01, 10, &p->sampling.repetition_penalty},
        {"repeat_penalty", 0.01, 10, &p->sampling.repetition_penalty},
        {"presence_penalty", -2, 2, &p->sampling.presence_penalty},
        {"frequency_penalty", -2, 2, &p->sampling.frequency_penalty},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double v = (double)*rows[i].value;
        const int r = field_double(body, rows[i].name, rows[i].min, rows[i].max, &v, problem);

        if (r < 0)
            return r;
        /* In the engine, 0 switches the filter off; in the API, 0 keeps only the most likely
         * token. */
        if (r > 0 && v == 0 &&
            (rows[i].value == &p->sampling.top_p || rows[i].value == &p->sampling.typical_p))
            v = 1e-9;
        *rows[i].value = (float)v;
    }
    return 0;
}

static int openai_read_ints(struct params *p, json_t *body, struct problem *problem)
{
    int64_t top_k = 0, n = 1, seed = 0, window = 0;
    int r;

    if ((r = field_int(body, "top_k", -1, INT32_MAX, &top_k, problem)) < 0 ||
        (r = field_int(body, "n", 1, PARAMS_MAX_CHOICES, &n, problem)) < 0 ||
        (r = field_int(body, "repeat_last_n", 0, INT32_MAX, &window, problem)) < 0 ||
        (r = field_int(body, "seed", INT64_MIN, INT64_MAX, &seed, problem)) < 0)
        return r;
    p->sampling.has_seed = r > 0;
    p->sampling.seed = (uint64_t)seed;
    p->sampling.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    p->sampling.penalty_last_n = (uint32_t)window;
    p->n = (uint32_t)n;
    return 0;
}

static int openai_read_bias(struct params *p, json_t *body, struct problem *problem)
{
    json_t *object = field_find(body, "logit_bias"), *value;
    const char *key;

    if (!object)
        return 0;
    if (!json_is_object(object))
        return field_wrong_type("logit_bias", "an object", object, problem);
    if (json_object_size(object) > PARAMS_MAX_BIAS)
        return problem_set(problem, 400, "invalid_value", "logit_bias",
                           "'logit_bias' has more than %d entries.", PARAMS_MAX_BIAS);
    p->bias = NEW(struct inf_logit_bias, json_object_size(object));
    if (!p->bias)
        return problem_no_memory(problem);
    json_object_foreach(object, key, value)
    {
        struct inf_logit_bias *b = &p->bias[p->sampling.n_logit_bias];
        char *end;
        const long long id = strtoll(key, &end, 10);

        if (!*key || *end || id < 0 || id > INT32_MAX)
            return problem_set(problem, 400, "invalid_value", "logit_bias",
                               "Invalid key in 'logit_bias': \"%.40s\" is not a token id.", key);
        if (!json_is_number(value))
            return field_wrong_type("logit_bias", "numbers", value, problem);
        if (!(fabs(json_number_value(value)) <= 100))
            return problem_set(problem, 400, "invalid_value", "logit_bias",
                               "Invalid value in 'logit_bias': %g is not between -100 and 100.",
                               json_number_value(value));
        b->token = (int32_t)id;
        b->bias = (float)json_number_value(value);
        p->sampling.n_logit_bias++;
    }
    p->sampling.logit_bias = p->bias;
    return 0;
}

static int openai_add_stop(struct params *p, json_t *text, struct problem *problem)
{
    if (!json_is_string(text))
        return field_wrong_type("stop", "a string or an array of strings", text, problem);
    if (!json_string_length(text))
        return problem_set(problem, 400, "invalid_value", "stop",
                           "Invalid value for 'stop': an empty string.");
    params_add_stop(p, text);
    return 0;
}

static int openai_read_stops(struct params *p, json_t *body, struct problem *problem)
{
    json_t *stop = field_find(body, "stop"), *item;
    size_t i;
    int r;

    if (!stop)
        return 0;
    if (!json_is_array(stop))
        return openai_add_stop(p, stop, problem);
    if (json_array_size(stop) > PARAMS_MAX_STOPS)
        return problem_set(problem, 400, "invalid_value", "stop",
                           "'stop' has %zu strings; at most %d are possible.",
                           json_array_size(stop), PARAMS_MAX_STOPS);
    json_array_foreach(stop, i, item)
    {
        r = openai_add_stop(p, item, problem);
        if (r < 0)
            return r;
    }
    return 0;
}

static int openai_read_stream(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const names[] = {"include_usage", "include_obfuscation", NULL};
    json_t *options = field_find(body, "stream_options");
    bool obfuscation = false;
    int r;

    r = field_bool(body, "stream", &p->stream, problem);
    if (r < 0 || !options)
        return r;
    if (!json_is_object(options))
        return field_wrong_type("stream_options", "an object", options, problem);
    if (!p->stream)
        return problem_set(problem, 400, "invalid_value", "stream_options",
                           "'stream_options' is only possible with 'stream': true.");
    if ((r = fields_known(options, "stream_options.", names, problem)) < 0 ||
        (r = field_bool(options, "include_usage", &p->include_usage, problem)) < 0)
        return r;
    return field_bool(options, "include_obfuscation", &obfuscation, problem);
}

static int openai_read_cache(struct params *p, json_t *body, struct problem *problem)
{
    bool cache_prompt = true;
    const char *salt;
    size_t salt_len;
    int r;

    r = field_bool(body, "cache_prompt", &cache_prompt, problem);
    if (r < 0)
        return r;
    p->no_cache = !cache_prompt;
    r = field_string(body, "cache_salt", &salt, &salt_len, problem);
    if (r > 0 && salt_len == 0)
        return problem_set(problem, 400, "invalid_value", "cache_salt",
                           "Invalid value for 'cache_salt': an empty string.");
    if (r < 0)
        return r;
    p->cache_salt = json_incref(field_find(body, "cache_salt"));
    r = field_text(body, "kv_type", &p->kv_type, problem);
    if (r > 0 && !kv_type_valid(p->kv_type))
        return problem_set(problem, 400, "invalid_value", "kv_type",
                           "Invalid value for 'kv_type': it must be " KV_TYPE_RULE ".");
    return r;
}

/* Checks the fields that are accepted but have no effect. */
static int openai_read_ignored(json_t *body, struct problem *problem)
{
    static const char *const strings[] = {"user", "safety_identifier", "prompt_cache_key"};
    json_t *metadata = field_find(body, "metadata");
    const char *text = NULL;
    bool store = false;
    size_t len;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
        if ((r = field_string(body, strings[i], &text, &len, problem)) < 0)
            return r;
    if (metadata && !json_is_object(metadata))
        return field_wrong_type("metadata", "an object", metadata, problem);
    if ((r = field_bool(body, "store", &store, problem)) < 0)
        return r;
    if (store)
        return problem_set(problem, 400, "unsupported_value", "store",
                           "Answers are not stored here: 'store' must be false.");
    text = NULL;
    if ((r = field_text(body, "service_tier", &text, problem)) < 0)
        return r;
    if (text && strcmp(text, "auto") != 0 && strcmp(text, "default") != 0)
        return problem_set(problem, 400, "unsupported_value", "service_tier",
                           "'service_tier' must be \"auto\" or \"default\".");
    return 0;
}

int openai_params_read(struct params *p, json_t *body, struct problem *problem)
{
    bool skip_special = true;
    int r;

    params_init(p);
    if ((r = field_text(body, "model", &p->model, problem)) < 0 ||
        (r = openai_read_floats(p, body, problem)) < 0 ||
        (r = openai_read_ints(p, body, problem)) < 0 ||
        (r = openai_read_bias(p, body, problem)) < 0 ||
        (r = openai_read_stops(p, body, problem)) < 0 ||
        (r = openai_read_stream(p, body, problem)) < 0 ||
        (r = openai_read_cache(p, body, problem)) < 0 ||
        (r = field_bool(body, "ignore_eos", &p->ignore_eos, problem)) < 0 ||
        (r = field_bool(body, "skip_special_tokens", &skip_special, problem)) < 0)
        return r;
    p->show_special = !skip_special;
    return openai_read_ignored(body, problem);
}

int openai_fields_known(json_t *body, const char *const *more, struct problem *problem)
{
    const char *const *lists[] = {openai_params_names, openai_constraint_names, more};
    const char *names[192];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
        for (const char *const *name = lists[i]; *name; name++)
            names[n++] = *name;
    assert(n < ARRAY_SIZE(names));
    names[n] = NULL;
    return fields_known(body, "", names, problem);
}
