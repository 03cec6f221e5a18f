/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the fields of llama-server's POST /completion and POST /infill.
 *
 * Ranges are wider than OpenAI's. A field without effect here is accepted if it also has none, or
 * only one on speed, in llama-server with the value that was sent; docs/http-api.md lists them.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/api/openai-body.h"
#include "common/wire/fields.h"

/* The engine reports at most this many likely tokens. */
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
    NULL,
};

int llama_fields_known(const struct generation *g, const char *const *more, struct problem *problem)
{
    const char *names[64];
    size_t n = 0;

    for (const char *const *name = llama_fields; *name; name++)
        names[n++] = *name;
    for (const char *const *name = more; name && *name; name++)
        names[n++] = *name;
    assert(n < ARRAY_SIZE(names));
    names[n] = NULL;
    return openai_fields_known(g->body, names, problem);
}

/* Reads lengths. -1 stands for "no limit". */
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

/* Reads fields of sampling, and those of which only the values without effect are possible. */
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

    /* llama.cpp's own clients send an empty grammar for none. */
    if (field_is(grammar, ""))
        json_object_del(g->body, "grammar");
    r = openai_constraint_read(g->body, &g->params.constraint, problem);
    own->grammar = r < 0 ? NULL : json_incref(g->params.constraint.value);
    return r;
}

/* Reads a sampler's name. Sets *ret_stage, or switches on a bit of *penalties, because penalties
 * come before all stages. */
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

int llama_params_read(struct generation *g, struct problem *problem)
{
    struct llama_own *own = g->own;
    int r;

    r = openai_params_read_wide(&g->params, g->body, problem);
    if (r < 0 || (r = llama_read_lengths(g, problem)) < 0 ||
        (r = llama_read_rest(g, problem)) < 0 || (r = llama_read_answer(g, problem)) < 0 ||
        (r = llama_samplers_read(g->body, &g->params, problem)) < 0 ||
        (r = llama_read_constraint(g, problem)) < 0)
        return r;
    own->id_slot = -1;
    r = field_int(g->body, "id_slot", -1, INT32_MAX, &own->id_slot, problem);
    own->stop = json_incref(field_find(g->body, "stop"));
    return MIN(r, 0);
}

static int bias_add(struct generation *g, int32_t token, float bias, struct problem *problem)
{
    struct params *p = &g->params;
    struct inf_logit_bias *all;

    if (p->sampling.n_logit_bias == PARAMS_MAX_BIAS)
        return problem_set(problem, 400, "invalid_value", "logit_bias",
                           "'logit_bias' has more than %d tokens.", PARAMS_MAX_BIAS);
    all = realloc(p->bias, (p->sampling.n_logit_bias + 1) * sizeof(*all));
    if (!all)
        return problem_no_memory(problem);
    p->bias = all;
    p->bias[p->sampling.n_logit_bias++] = (struct inf_logit_bias){token, bias};
    p->sampling.logit_bias = p->bias;
    return 0;
}

int llama_bias_resolve(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    json_t *pair;
    size_t i;

    json_array_foreach(g->params.bias_texts, i, pair)
    {
        const json_t *text = json_array_get(pair, 0);
        const float bias = (float)json_real_value(json_array_get(pair, 1));
        _cleanup_free_ int32_t *ids = NULL;
        size_t n = 0;
        int r = inf_tokenizer_encode(tok, json_string_value(text), json_string_length(text), 0,
                                     PARAMS_MAX_BIAS, &ids, &n);

        if (r == -ENOMEM)
            return problem_no_memory(problem);
        if (r < 0)
            return problem_set(problem, 400, "invalid_value", "logit_bias",
                               "'logit_bias' has more than %d tokens.", PARAMS_MAX_BIAS);
        for (size_t k = 0; k < n; k++)
            if ((r = bias_add(g, ids[k], bias, problem)) < 0)
                return r;
    }
    return 0;
}
