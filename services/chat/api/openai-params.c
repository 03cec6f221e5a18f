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
#include "common/wire/json.h"

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
    "dynatemp_range",
    "dynatemp_exponent",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
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
    "prompt_cache_retention",
    "verbosity",
    "priority",
    "request_id",
    "id_slot",
    "timings_per_token",
    "return_progress",
    "verbose",
    "min_tokens",
    "stop_token_ids",
    "include_stop_str_in_output",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "n_keep",
    NULL,
};

/* Reads a sampling parameter under the name @name. Uses OpenAI's narrower ranges, except with
 * @wide. */
static int sampling_read(struct params *p, json_t *body, const char *name, enum sampling_key key,
                         bool wide, struct problem *problem)
{
    static const struct {
        double min, max;
    } narrow[N_SAMPLING_KEYS] = {
        [SAMPLING_TEMPERATURE] = {0, 2},
        [SAMPLING_REPETITION_PENALTY] = {0.01, 10},
        [SAMPLING_PRESENCE_PENALTY] = {-2, 2},
        [SAMPLING_FREQUENCY_PENALTY] = {-2, 2},
    };
    struct sampling_row row = sampling_rows[key];
    double value;
    int r;

    if (!wide && narrow[key].max > 0) {
        row.min = narrow[key].min;
        row.max = narrow[key].max;
    }
    r = params_number(body, name, &row, &value, problem);
    if (r > 0)
        sampling_set(&p->sampling, key, value);
    return r;
}

/* Reads the breakers of the sampler DRY: a repetition never includes one of these texts. */
static int breakers_read(struct params *p, json_t *body, struct problem *problem)
{
    json_t *list = field_find(body, "dry_sequence_breakers"), *text;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list))
        return field_wrong_type("dry_sequence_breakers", "an array of strings", list, problem);
    if (json_array_size(list) > PARAMS_MAX_STOPS)
        return problem_set(problem, 400, "invalid_value", "dry_sequence_breakers",
                           "'dry_sequence_breakers' has %zu strings; at most %d are possible.",
                           json_array_size(list), PARAMS_MAX_STOPS);
    json_array_foreach(list, i, text)
    {
        if (!json_string_length(text))
            return field_wrong_type("dry_sequence_breakers", "strings that are not empty", text,
                                    problem);
    }
    p->breaker_texts = json_incref(list);
    return 0;
}

static int openai_read_sampling(struct params *p, json_t *body, bool wide, struct problem *problem)
{
    int r;

    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        if ((r = sampling_read(p, body, sampling_rows[i].name, i, wide, problem)) < 0)
            return r;
    r = sampling_read(p, body, "repeat_penalty", SAMPLING_REPETITION_PENALTY, wide, problem);
    return r < 0 ? r : breakers_read(p, body, problem);
}

static int openai_read_ints(struct params *p, json_t *body, struct problem *problem)
{
    int64_t n = 1, seed = 0;
    int r;

    if ((r = field_int(body, "n", 1, PARAMS_MAX_CHOICES, &n, problem)) < 0 ||
        (r = field_int(body, "seed", INT64_MIN, INT64_MAX, &seed, problem)) < 0)
        return r;
    p->sampling.has_seed = r > 0 && seed != -1;
    p->sampling.seed = (uint64_t)seed;
    p->n = (uint32_t)n;
    return 0;
}

/* Reads a pair of a token and its bias. @key is a token id. If @wide is set, @key may also be a
 * text, all of whose tokens get the bias, and @value may be `false`, which excludes the token. */
static int bias_read(struct params *p, const json_t *key, const json_t *value, bool wide,
                     struct problem *problem)
{
    const char *text = json_string_value(key);
    struct inf_logit_bias *b = &p->bias[p->sampling.n_logit_bias];
    char *end = NULL;
    const long long id = json_is_integer(key) ? json_integer_value(key)
                         : text && *text      ? strtoll(text, &end, 10)
                                              : -1;
    const double bias = wide && json_is_false(value) ? -100 : json_number_value(value);

    if (!json_is_number(value) && !(wide && json_is_false(value)))
        return field_wrong_type("logit_bias", "numbers", value, problem);
    if (!wide && !(fabs(bias) <= 100))
        return problem_set(problem, 400, "invalid_value", "logit_bias",
                           "Invalid value in 'logit_bias': %g is not between -100 and 100.", bias);
    if (wide && text && (!end || *end)) {
        if (!p->bias_texts)
            p->bias_texts = json_array();
        return json_array_append_new(p->bias_texts, json_pack("[O, f]", key, bias)) < 0
                   ? problem_no_memory(problem)
                   : 0;
    }
    if ((end && *end) || id < 0 || id > INT32_MAX)
        return problem_set(problem, 400, "invalid_value", "logit_bias",
                           "Invalid key in 'logit_bias': \"%.40s\" is not a token id.",
                           text ? text : "?");
    *b = (struct inf_logit_bias){(int32_t)id, (float)MAX(MIN(bias, 1e9), -1e9)};
    p->sampling.n_logit_bias++;
    return 0;
}

static int bias_read_object(struct params *p, json_t *object, bool wide, struct problem *problem)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        _cleanup_json_ json_t *name = json_string(key);

        if (!name)
            return problem_no_memory(problem);
        if (bias_read(p, name, value, wide, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static int bias_read_pairs(struct params *p, json_t *list, struct problem *problem)
{
    json_t *pair;
    size_t i;

    json_array_foreach(list, i, pair)
    {
        const json_t *key = json_array_get(pair, 0);

        if (json_array_size(pair) != 2 || (!json_is_integer(key) && !json_is_string(key)))
            return field_wrong_type("logit_bias", "pairs of a token and a bias", pair, problem);
        if (bias_read(p, key, json_array_get(pair, 1), true, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static int openai_read_bias(struct params *p, json_t *body, bool wide, struct problem *problem)
{
    json_t *bias = field_find(body, "logit_bias");
    const size_t n = json_object_size(bias) + json_array_size(bias);
    int r;

    if (!bias)
        return 0;
    if (!json_is_object(bias) && !(wide && json_is_array(bias)))
        return field_wrong_type("logit_bias", "an object", bias, problem);
    if (n > PARAMS_MAX_BIAS)
        return problem_set(problem, 400, "invalid_value", "logit_bias",
                           "'logit_bias' has more than %d entries.", PARAMS_MAX_BIAS);
    p->bias = NEW(struct inf_logit_bias, MAX(n, (size_t)1));
    if (!p->bias)
        return problem_no_memory(problem);
    r = json_is_object(bias) ? bias_read_object(p, bias, wide, problem)
                             : bias_read_pairs(p, bias, problem);
    p->sampling.logit_bias = p->bias;
    return r;
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
    static const char *const strings[] = {"user",      "safety_identifier",      "prompt_cache_key",
                                          "verbosity", "prompt_cache_retention", "request_id"};
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

static int openai_read_stop_tokens(struct params *p, json_t *body, struct problem *problem)
{
    json_t *list = field_find(body, "stop_token_ids"), *id;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list))
        return field_wrong_type("stop_token_ids", "an array of token ids", list, problem);
    if (json_array_size(list) > PARAMS_MAX_STOPS)
        return problem_set(problem, 400, "invalid_value", "stop_token_ids",
                           "'stop_token_ids' has %zu tokens; at most %d are possible.",
                           json_array_size(list), PARAMS_MAX_STOPS);
    json_array_foreach(list, i, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > INT32_MAX)
            return field_wrong_type("stop_token_ids", "token ids", id, problem);
        p->stop_tokens[p->n_stop_tokens++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

/* Reads the fields that vLLM and llama-server add to OpenAI's API. */
static int openai_read_extras(struct params *p, json_t *body, struct problem *problem)
{
    int64_t least = 0, slot = -1, priority = 0, keep = 0, most = 0;
    bool spaces = true;
    int r;

    if ((r = field_int(body, "min_tokens", 0, INT32_MAX, &least, problem)) < 0 ||
        (r = field_int(body, "truncate_prompt_tokens", 1, INT32_MAX, &most, problem)) < 0 ||
        (r = field_int(body, "id_slot", -1, INT32_MAX, &slot, problem)) < 0 ||
        (r = field_int(body, "priority", INT32_MIN, INT32_MAX, &priority, problem)) < 0 ||
        (r = field_int(body, "n_keep", -1, INT32_MAX, &keep, problem)) < 0 ||
        (r = field_bool(body, "include_stop_str_in_output", &p->shows_stop, problem)) < 0 ||
        (r = field_bool(body, "spaces_between_special_tokens", &spaces, problem)) < 0 ||
        (r = field_bool(body, "timings_per_token", &p->with_timings, problem)) < 0 ||
        (r = field_bool(body, "return_progress", &p->with_progress, problem)) < 0 ||
        (r = field_bool(body, "verbose", &p->with_prompt, problem)) < 0)
        return r;
    p->min_tokens = (uint32_t)least;
    p->truncate_prompt = (uint32_t)most;
    return openai_read_stop_tokens(p, body, problem);
}

static int params_read(struct params *p, json_t *body, bool wide, struct problem *problem)
{
    bool skip_special = true;
    int r;

    params_init(p);
    if ((r = field_text(body, "model", &p->model, problem)) < 0 ||
        (r = openai_read_sampling(p, body, wide, problem)) < 0 ||
        (r = openai_read_ints(p, body, problem)) < 0 ||
        (r = openai_read_bias(p, body, wide, problem)) < 0 ||
        (r = openai_read_stops(p, body, problem)) < 0 ||
        (r = openai_read_stream(p, body, problem)) < 0 ||
        (r = openai_read_cache(p, body, problem)) < 0 ||
        (r = openai_read_extras(p, body, problem)) < 0 ||
        (r = field_bool(body, "ignore_eos", &p->ignore_eos, problem)) < 0 ||
        (r = field_bool(body, "skip_special_tokens", &skip_special, problem)) < 0)
        return r;
    p->show_special = !skip_special;
    return openai_read_ignored(body, problem);
}

int openai_read_length(struct params *p, json_t *body, struct problem *problem)
{
    static const char *const names[] = {"n_predict", "max_tokens", "max_completion_tokens"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        int64_t n = -1;
        const int r = field_int(body, names[i], -1, INT32_MAX, &n, problem);

        if (r < 0)
            return r;
        /* If `n_predict` is 0, only the prompt is computed, so that later requests find it in the
         * cache. llama-server does the same. */
        if (r > 0)
            p->score_only = i == 0 && n == 0;
        if (n == 0 && !p->score_only)
            return problem_set(problem, 400, "invalid_value", names[i],
                               "Invalid value for '%s': 0 is not possible; -1 stands for no limit.",
                               names[i]);
        if (r > 0)
            p->max_tokens = n > 0 ? (uint32_t)n : 0;
    }
    return 0;
}

int openai_params_read(struct params *p, json_t *body, struct problem *problem)
{
    return params_read(p, body, false, problem);
}

int openai_params_read_wide(struct params *p, json_t *body, struct problem *problem)
{
    return params_read(p, body, true, problem);
}

int openai_fields_known(json_t *body, const char *const *more, struct problem *problem)
{
    const char *const *const lists[] = {openai_params_names, openai_constraint_names, more, NULL};

    return fields_known_in(body, "", lists, problem);
}
