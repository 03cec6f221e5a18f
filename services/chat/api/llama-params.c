/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the fields of llama-server's POST /completion and POST /infill.
 *
 * Values may have wider ranges than in OpenAI's API. Some fields have no effect here. Such a field
 * is accepted if its value has no effect in llama-server either, except on speed. docs/http-api.md
 * lists these fields.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/api/openai-body.h"
#include "common/wire/fields.h"

/* The largest number of likely tokens that the engine reports. */
#define LLAMA_MAX_PROBS 20

static const char *const llama_fields[] = {
    "prompt",
    "n_predict",
    "max_tokens",
    "max_completion_tokens",
    "n_cmpl",
    "n_probs",
    "post_sampling_probs",
    "min_keep",
    "samplers",
    "return_tokens",
    "response_fields",
    "t_max_predict_ms",
    "t_max_prompt_ms",
    "n_indent",
    "n_keep",
    "n_discard",
    "n_cache_reuse",
    "sse_ping_interval",
    "lora",
    "backend_sampling",
    "penalize_nl",
    "adaptive_target",
    "adaptive_decay",
    "speculative.n_max",
    "speculative.n_min",
    "speculative.p_min",
    NULL,
};

/* Refuses unknown fields. @more is a NULL-terminated list of known fields that only this endpoint
 * has. */
static int llama_fields_known(const struct generation *g, const char *const *more,
                              struct problem *problem)
{
    const char *const *const lists[] = {llama_fields, openai_params_names, openai_constraint_names,
                                        more, NULL};

    return fields_known_in(g->body, "", lists, problem);
}

/* Reads lengths. The value -1 stands for "no limit". */
static int llama_read_lengths(struct generation *g, struct problem *problem)
{
    static const char *const names[] = {"max_tokens", "max_completion_tokens", "n_predict"};
    int64_t n = -1, limit = 0, indent = 0, none = 0;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if ((r = field_int(g->body, names[i], -2, INT32_MAX, &n, problem)) < 0)
            return r;
    g->params.max_tokens = n > 0 ? (uint32_t)n : 0;
    g->params.score_only = n == 0;
    if ((r = field_int(g->body, "t_max_predict_ms", -1, INT32_MAX, &limit, problem)) < 0 ||
        (r = field_int(g->body, "n_indent", 0, 1024, &indent, problem)) < 0 ||
        (r = field_int(g->body, "t_max_prompt_ms", -1, INT32_MAX, &none, problem)) < 0 ||
        (r = field_int(g->body, "n_keep", -1, INT32_MAX, &none, problem)) < 0 ||
        (r = field_int(g->body, "n_discard", 0, INT32_MAX, &none, problem)) < 0 ||
        (r = field_int(g->body, "n_cache_reuse", 0, INT32_MAX, &none, problem)) < 0 ||
        (r = field_int(g->body, "sse_ping_interval", -1, INT32_MAX, &none, problem)) < 0)
        return r;
    g->params.max_predict_usec = limit > 0 ? (uint64_t)limit * 1000 : 0;
    g->params.n_indent = (uint32_t)indent;
    return 0;
}

/* Reads the limits of drafts. The configuration decides whether and how the engine drafts. */
static int llama_read_drafts(struct generation *g, struct problem *problem)
{
    struct params *p = &g->params;
    int64_t most = -1, least = 0;
    int r;

    if ((r = field_int(g->body, "speculative.n_max", 0, INT32_MAX, &most, problem)) < 0 ||
        (r = field_int(g->body, "speculative.n_min", 0, INT32_MAX, &least, problem)) < 0 ||
        (r = field_double(g->body, "speculative.p_min", 0, 1, &p->draft_p_min, problem)) < 0)
        return r;
    if (most >= 0 && least > most)
        return problem_set(problem, 400, "invalid_value", "speculative.n_min",
                           "Invalid value for 'speculative.n_min': %lld is more than "
                           "'speculative.n_max', which is %lld.",
                           (long long)least, (long long)most);
    if (most >= 0)
        p->n_draft = most == 0 ? INF_NO_DRAFT : (uint32_t)most;
    p->min_draft = (uint32_t)least;
    return 0;
}

/* Reads fields of sampling, and fields that are accepted only with values that have no effect. */
static int llama_read_rest(struct generation *g, struct problem *problem)
{
    json_t *lora = field_find(g->body, "lora");
    int64_t min_keep = 0;
    double target = -1, decay = 0;
    bool none = false;
    int r;

    if ((r = field_int(g->body, "min_keep", 0, INT32_MAX, &min_keep, problem)) < 0 ||
        (r = field_bool(g->body, "post_sampling_probs", &g->params.post_logprobs, problem)) < 0 ||
        (r = field_double(g->body, "adaptive_target", -1, 1, &target, problem)) < 0 ||
        (r = field_double(g->body, "adaptive_decay", 0, 1, &decay, problem)) < 0 ||
        (r = field_bool(g->body, "backend_sampling", &none, problem)) < 0 ||
        (r = field_bool(g->body, "penalize_nl", &none, problem)) < 0)
        return r;
    g->params.sampling.min_keep = (uint32_t)min_keep;
    if (target >= 0)
        return problem_set(problem, 400, "unsupported_value", "adaptive_target",
                           "Unsupported value: 'adaptive_target' must be negative, which switches "
                           "it off.");
    if (lora && !json_is_array(lora))
        return field_wrong_type("lora", "an array", lora, problem);
    if (json_array_size(lora))
        return problem_set(problem, 400, "unsupported_value", "lora",
                           "Unsupported value: 'lora' must be an empty array.");
    return 0;
}

static int llama_read_answer(struct generation *g, struct problem *problem)
{
    json_t *fields = field_find(g->body, "response_fields"), *field;
    struct llama_own *own = g->own;
    int64_t probs = 0, n = g->params.n;
    size_t i;
    int r;

    if ((r = field_int(g->body, "n_probs", 0, INT32_MAX, &probs, problem)) < 0 ||
        (r = field_int(g->body, "n_cmpl", 1, PARAMS_MAX_CHOICES, &n, problem)) < 0 ||
        (r = field_bool(g->body, "return_tokens", &own->return_tokens, problem)) < 0)
        return r;
    if (probs > LLAMA_MAX_PROBS)
        return problem_set(problem, 400, "invalid_value", "n_probs",
                           "Invalid value for 'n_probs': at most %d are possible.",
                           LLAMA_MAX_PROBS);
    g->params.n_logprobs = probs > 0 ? (int)probs : -1;
    g->params.n = (uint32_t)n;
    if (!fields)
        return 0;
    if (!json_is_array(fields))
        return field_wrong_type("response_fields", "an array of strings", fields, problem);
    json_array_foreach(fields, i, field)
    {
        if (!json_is_string(field))
            return field_wrong_type("response_fields", "an array of strings", field, problem);
    }
    own->fields = json_array_size(fields) ? json_incref(fields) : NULL;
    return 0;
}

static int llama_read_constraint(struct generation *g, struct problem *problem)
{
    json_t *grammar = field_find(g->body, "grammar");
    struct llama_own *own = g->own;
    int r;

    /* llama.cpp's own clients send an empty grammar if they want none. */
    if (field_is(grammar, ""))
        json_object_del(g->body, "grammar");
    r = openai_constraint_read(g->body, &g->params.constraint, problem);
    own->grammar = r < 0 ? NULL : json_incref(g->params.constraint.value);
    return r;
}

/* Reads a sampler's name, and sets *ret_stage to its stage. Penalties are not stages, because they
 * come before all stages. For a penalty, sets *ret_stage to a negative number, and sets a bit of
 * *penalties. */
static bool sampler_find(const json_t *name, int *ret_stage, unsigned *penalties)
{
    static const struct {
        const char *name;
        int stage;
    } rows[] = {
        {"temperature", INF_STAGE_TEMPERATURE},
        {"top_n_sigma", INF_STAGE_TOP_N_SIGMA},
        {"top_k", INF_STAGE_TOP_K},
        {"typ_p", INF_STAGE_TYPICAL_P},
        {"typical_p", INF_STAGE_TYPICAL_P},
        {"top_p", INF_STAGE_TOP_P},
        {"min_p", INF_STAGE_MIN_P},
        {"xtc", INF_STAGE_XTC},
        {"infill", INF_STAGE_INFILL},
        {"penalties", -1},
        {"dry", -2},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!field_is(name, rows[i].name))
            continue;
        *ret_stage = rows[i].stage;
        if (rows[i].stage < 0)
            *penalties |= 1u << -rows[i].stage;
        return true;
    }
    return false;
}

int llama_samplers_read(json_t *body, struct params *p, struct problem *problem)
{
    json_t *list = field_find(body, "samplers"), *item;
    unsigned penalties = 0, seen = 0;
    size_t i;

    if (!list)
        return 0;
    if (!json_is_array(list))
        return field_wrong_type("samplers", "an array of strings", list, problem);
    p->has_order = true;
    json_array_foreach(list, i, item)
    {
        int stage;

        if (!sampler_find(item, &stage, &penalties))
            return problem_set(problem, 400, "invalid_value", "samplers",
                               "Invalid value in 'samplers': there is no sampler '%.40s'.",
                               json_is_string(item) ? json_string_value(item) : "?");
        if (stage < 0)
            continue;
        if (seen & 1u << stage)
            return problem_set(problem, 400, "invalid_value", "samplers",
                               "Invalid value in 'samplers': '%s' is listed twice.",
                               json_string_value(item));
        seen |= 1u << stage;
        p->order[p->sampling.n_order++] = (uint8_t)stage;
    }
    if (!(penalties & 1u << 1)) {
        sampling_set(&p->sampling, SAMPLING_REPETITION_PENALTY, 1);
        sampling_set(&p->sampling, SAMPLING_PRESENCE_PENALTY, 0);
        sampling_set(&p->sampling, SAMPLING_FREQUENCY_PENALTY, 0);
    }
    if (!(penalties & 1u << 2))
        sampling_set(&p->sampling, SAMPLING_DRY_MULTIPLIER, 0);
    return 0;
}

static int llama_params_read(struct generation *g, struct problem *problem)
{
    struct llama_own *own = g->own;
    int r;

    r = openai_params_read_wide(&g->params, g->body, problem);
    if (r < 0 || (r = llama_read_lengths(g, problem)) < 0 ||
        (r = llama_read_drafts(g, problem)) < 0 || (r = llama_read_rest(g, problem)) < 0 ||
        (r = llama_read_answer(g, problem)) < 0 ||
        (r = llama_samplers_read(g->body, &g->params, problem)) < 0 ||
        (r = llama_read_constraint(g, problem)) < 0)
        return r;
    own->id_slot = -1;
    r = field_int(g->body, "id_slot", -1, INT32_MAX, &own->id_slot, problem);
    own->stop = json_incref(field_find(g->body, "stop"));
    return MIN(r, 0);
}

int llama_completion_read(struct generation *g, struct problem *problem)
{
    int r = llama_fields_known(g, NULL, problem);

    r = r < 0 ? r : llama_params_read(g, problem);
    if (r == 0 && !field_find(g->body, "prompt"))
        return problem_set(problem, 400, "missing_field", "prompt",
                           "Missing required parameter: 'prompt'.");
    return r;
}

static int infill_read_extra(json_t *extra, struct problem *problem)
{
    static const char *const fields[] = {"filename", "text", "time", NULL};
    json_t *chunk;
    char param[64];
    size_t i;

    if (extra && !json_is_array(extra))
        return field_wrong_type("input_extra", "an array of objects", extra, problem);
    json_array_foreach(extra, i, chunk)
    {
        json_t *name = field_find(chunk, "filename");

        snprintf(param, sizeof(param), "input_extra[%zu]", i);
        if (!json_is_object(chunk) || !json_is_string(field_find(chunk, "text")) ||
            (name && !json_is_string(name)))
            return problem_set(problem, 400, "invalid_value", param,
                               "'%s' must be an object with the strings \"filename\" and "
                               "\"text\".",
                               param);
        if (fields_known(chunk, "input_extra.", fields, problem) < 0)
            return -EINVAL;
    }
    return 0;
}

static int infill_read_texts(struct generation *g, struct problem *problem)
{
    static const char *const texts[] = {"input_prefix", "input_suffix"};
    json_t *prompt = field_find(g->body, "prompt");

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        json_t *text = field_find(g->body, texts[i]);

        if (!text)
            return problem_set(problem, 400, "missing_field", texts[i],
                               "Missing required parameter: '%s'.", texts[i]);
        if (!json_is_string(text))
            return field_wrong_type(texts[i], "a string", text, problem);
    }
    if (prompt && !json_is_string(prompt))
        return field_wrong_type("prompt", "a string", prompt, problem);
    return infill_read_extra(field_find(g->body, "input_extra"), problem);
}

int llama_infill_read(struct generation *g, struct problem *problem)
{
    static const char *const more[] = {"input_prefix", "input_suffix", "input_extra", NULL};
    int r = llama_fields_known(g, more, problem);

    r = r < 0 ? r : llama_params_read(g, problem);
    return r < 0 ? r : infill_read_texts(g, problem);
}
