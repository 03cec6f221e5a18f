/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the defaults of a request, and checks token ids against the loaded model. */
#include "chat/params.h"

#include <stdlib.h>

#include "common/config/config.h"
#include "common/wire/fields.h"

void params_init(struct params *p)
{
    *p = (struct params){.n = 1, .n_logprobs = -1, .reasoning = {.enabled = -1, .budget = -1}};
    sampling_clear(&p->sampling);
}

int params_number(json_t *object, const char *name, const struct sampling_row *row,
                  double *ret_value, struct problem *problem)
{
    int64_t whole = 0;
    int r;

    if (!row->is_whole)
        return field_double(object, name, row->min, row->max, ret_value, problem);
    r = field_int(object, name, (int64_t)row->min, (int64_t)row->max, &whole, problem);
    if (r > 0)
        *ret_value = (double)whole;
    return r;
}

/* Sets the breakers of the sampler DRY: texts that a repetition never includes. The defaults are
 * llama.cpp's. */
static void params_set_breakers(struct params *p)
{
    static const struct inf_breaker defaults[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    json_t *text;
    size_t i;

    json_array_foreach(p->breaker_texts, i, text)
    {
        p->breakers[i] = (struct inf_breaker){json_string_value(text), json_string_length(text)};
    }
    p->sampling.dry_breakers = p->breaker_texts ? p->breakers : defaults;
    p->sampling.n_dry_breakers =
        p->breaker_texts ? json_array_size(p->breaker_texts) : ARRAY_SIZE(defaults);
}

/* Sets the order of the stages of sampling. */
static void params_set_order(struct params *p, unsigned last, const struct inf_sampling *api)
{
    const struct inf_sampling *from = last == CONFIG_LAST_AUTO   ? api
                                      : last == CONFIG_LAST_TRUE ? &sampling_llama
                                                                 : &sampling_openai;

    p->sampling.order = p->has_order ? p->order : from->order;
    p->sampling.n_order = p->has_order ? p->sampling.n_order : from->n_order;
}

void params_resolve(struct params *p, const struct inf_sampling *manifest,
                    const struct inf_sampling *model, const struct config *config,
                    const struct inf_sampling *api)
{
    struct inf_sampling *s = &p->sampling;

    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        p->sources[i] = SAMPLING_OF_REQUEST;
    if (!s->has_seed && config->seed != UINT32_MAX) {
        s->has_seed = true;
        s->seed = config->seed;
    }
    api = api ? api : &sampling_openai;
    params_set_order(p, config->temperature_last, api);
    params_set_breakers(p);
    sampling_fill(s, manifest, SAMPLING_OF_MANIFEST, p->sources);
    sampling_fill(s, model, SAMPLING_OF_MODEL, p->sources);
    sampling_fill(s, &config->sampling, SAMPLING_OF_CONFIG, p->sources);
    sampling_fill(s, api, SAMPLING_OF_API, p->sources);
}

bool params_add_stop(struct params *p, json_t *text)
{
    if (p->n_stops == PARAMS_MAX_STOPS || json_string_length(text) == 0)
        return false;
    p->stop_texts[p->n_stops] = json_incref(text);
    p->stops[p->n_stops++] = (struct inf_stop){json_string_value(text), json_string_length(text)};
    return true;
}

void params_add_own_stops(struct params *p, const char *const *stops)
{
    p->n_given_stops = p->n_stops;
    for (; stops && *stops; stops++) {
        json_t *text = json_string(*stops);

        params_add_stop(p, text);
        json_decref(text);
    }
}

int params_check_vocab(const struct params *p, uint32_t n_vocab, struct problem *problem)
{
    for (size_t i = 0; i < p->n_stop_tokens; i++)
        if ((uint32_t)p->stop_tokens[i] >= n_vocab)
            return problem_set(problem, 400, "invalid_value", "stop_token_ids",
                               "Invalid value in 'stop_token_ids': %d is not a token id of this "
                               "model (0 to %u).",
                               p->stop_tokens[i], n_vocab - 1);
    for (size_t i = 0; i < p->sampling.n_logit_bias; i++)
        if ((uint32_t)p->bias[i].token >= n_vocab)
            return problem_set(problem, 400, "invalid_value", "logit_bias",
                               "Invalid key in 'logit_bias': %d is not a token id of this model "
                               "(0 to %u).",
                               p->bias[i].token, n_vocab - 1);
    return 0;
}

void params_done(struct params *p)
{
    for (size_t i = 0; i < p->n_stops; i++)
        json_decref(p->stop_texts[i]);
    json_decref(p->cache_salt);
    json_decref(p->tools.name);
    json_decref(p->tools.allowed);
    json_decref(p->constraint.value);
    json_decref(p->reasoning.effort);
    json_decref(p->bias_texts);
    json_decref(p->breaker_texts);
    free(p->bias);
    p->tools = (struct tool_rules){0};
    p->constraint = (struct constraint){0};
    p->reasoning = (struct reasoning_rules){0};
    p->n_stops = 0;
    p->cache_salt = p->bias_texts = p->breaker_texts = NULL;
    p->bias = NULL;
}
