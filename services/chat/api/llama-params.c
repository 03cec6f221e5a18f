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
    "grammar",
    "json_schema",
    "penalize_nl",
    NULL,
};

/* llama-server's defaults (common_params_sampling). */
const struct inf_sampling llama_sampling = {
    .temperature = 0.8f,
    .top_k = 40,
    .top_p = 0.95f,
    .min_p = 0.05f,
    .typical_p = 1,
    .repetition_penalty = 1,
    .penalty_last_n = 64,
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

/* Reads the fields of which only the values without effect are possible. */
static int llama_read_refused(struct generation *g, struct problem *problem)
{
    json_t *lora = field_find(g->body, "lora");
    int64_t min_keep = 0;
    bool after = false, none = false;
    int r;

    if ((r = field_int(g->body, "min_keep", 0, INT32_MAX, &min_keep, problem)) < 0 ||
        (r = field_bool(g->body, "post_sampling_probs", &after, problem)) < 0 ||
        (r = field_bool(g->body, "backend_sampling", &none, problem)) < 0 ||
        (r = field_bool(g->body, "penalize_nl", &none, problem)) < 0)
        return r;
    if (min_keep > 1)
        return problem_set(problem, 400, "unsupported_value", "min_keep",
                           "Unsupported value: 'min_keep' must be 0 or 1.");
    if (after)
        return problem_set(problem, 400, "unsupported_value", "post_sampling_probs",
                           "Unsupported value: 'post_sampling_probs' must be false.");
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
    json_t *grammar = field_find(g->body, "grammar"), *schema = field_find(g->body, "json_schema");
    struct llama_own *own = g->own;

    if (grammar && !json_is_string(grammar))
        return field_wrong_type("grammar", "a string", grammar, problem);
    if (grammar && json_string_length(grammar) == 0)
        grammar = NULL;
    if (schema && grammar)
        return problem_set(problem, 400, "invalid_value", "json_schema",
                           "'json_schema' and 'grammar' cannot be combined.");
    if (schema && !json_is_object(schema) && !json_is_boolean(schema))
        return field_wrong_type("json_schema", "an object", schema, problem);
    if (!grammar && !schema)
        return 0;
    g->params.constraint =
        (struct constraint){.kind = grammar ? CONSTRAINT_GBNF : CONSTRAINT_SCHEMA,
                            .value = json_incref(grammar ? grammar : schema),
                            .field = grammar ? "grammar" : "json_schema"};
    own->grammar = json_incref(grammar ? grammar : schema);
    return 0;
}

/* `samplers` lists the filters that are used. Their order is the engine's. */
static int llama_read_samplers(struct generation *g, struct problem *problem)
{
    static const struct {
        const char *name;
        int key; /* which the list must have for the filter to be used; -1: none */
        double off;
    } rows[] = {
        {"penalties", SAMPLING_REPETITION_PENALTY, 1},
        {"top_k", SAMPLING_TOP_K, 0},
        {"typ_p", SAMPLING_TYPICAL_P, 1},
        {"typical_p", -1, 0},
        {"top_p", SAMPLING_TOP_P, 1},
        {"min_p", SAMPLING_MIN_P, 0},
        {"temperature", -1, 0},
        {"dry", -1, 0},
        {"xtc", -1, 0},
        {"top_n_sigma", -1, 0},
        {"infill", -1, 0},
        {"adaptive_p", -1, 0},
    };
    json_t *list = field_find(g->body, "samplers"), *item;
    unsigned seen = 0;
    size_t i, k;

    if (!list)
        return 0;
    if (!json_is_array(list))
        return field_wrong_type("samplers", "an array of strings", list, problem);
    json_array_foreach(list, i, item)
    {
        for (k = 0; k < ARRAY_SIZE(rows) && !field_is(item, rows[k].name); k++)
            ;
        if (k == ARRAY_SIZE(rows))
            return problem_set(problem, 400, "invalid_value", "samplers",
                               "Invalid value in 'samplers': there is no such sampler.");
        seen |= 1u << (strcmp(rows[k].name, "typical_p") == 0 ? 2u : (unsigned)k);
    }
    for (k = 0; k < ARRAY_SIZE(rows); k++)
        if (rows[k].key >= 0 && !(seen & 1u << k))
            sampling_set(&g->params.sampling, rows[k].key, rows[k].off);
    return 0;
}

int llama_params_read(struct generation *g, struct problem *problem)
{
    struct llama_own *own = g->own;
    int r;

    r = openai_params_read_wide(&g->params, g->body, problem);
    if (r < 0 || (r = llama_read_lengths(g, problem)) < 0 ||
        (r = llama_read_refused(g, problem)) < 0 || (r = llama_read_answer(g, problem)) < 0 ||
        (r = llama_read_samplers(g, problem)) < 0 || (r = llama_read_constraint(g, problem)) < 0)
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
