/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the parameters of a generation under llama-server's names (generation_settings). */
#include <infer/tokenizer.h>

#include "chat/api/llama.h"
#include "common/wire/json.h"

/* The value that llama-server uses for a random seed. */
#define LLAMA_RANDOM_SEED UINT32_MAX

/* Lists the samplers in the order in which the engine applies them. The penalties come first. */
static json_t *settings_samplers(const struct inf_sampling *s)
{
    static const char *const names[INF_N_STAGES] = {
        [INF_STAGE_TEMPERATURE] = "temperature",
        [INF_STAGE_TOP_N_SIGMA] = "top_n_sigma",
        [INF_STAGE_TOP_K] = "top_k",
        [INF_STAGE_TYPICAL_P] = "typ_p",
        [INF_STAGE_TOP_P] = "top_p",
        [INF_STAGE_MIN_P] = "min_p",
        [INF_STAGE_XTC] = "xtc",
        [INF_STAGE_INFILL] = "infill",
    };
    json_t *list = json_pack("[s, s]", "penalties", "dry");

    for (size_t i = 0; i < (s->order ? s->n_order : INF_STAGE_INFILL); i++)
        json_array_append_new(list, json_string(names[s->order ? s->order[i] : i]));
    return list;
}

static json_t *settings_breakers(const struct inf_sampling *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n_dry_breakers; i++)
        json_array_append_new(list, json_stringn(s->dry_breakers[i].text, s->dry_breakers[i].len));
    return list;
}

static void settings_put_sampling(json_t *out, const struct inf_sampling *s)
{
    static const char *const names[N_SAMPLING_KEYS] = {[SAMPLING_REPETITION_PENALTY] =
                                                           "repeat_penalty"};

    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++) {
        const char *name = names[i] ? names[i] : sampling_rows[i].name;
        const double value = sampling_value(s, i);

        json_object_set_new(out, name,
                            sampling_rows[i].is_whole ? json_integer((json_int_t)value)
                                                      : json_real(value));
    }
    json_object_set_new(out, "seed",
                        json_integer(s->has_seed ? (json_int_t)s->seed : LLAMA_RANDOM_SEED));
}

json_t *llama_settings(const struct params *p, uint32_t n_predict)
{
    const json_int_t n = n_predict ? (json_int_t)n_predict : p->score_only ? 0 : -1;
    json_t *out = json_pack(
        "{s:I, s:I, s:b, s:b, s:i, s:i, s:b, s:b, s:i, s:o, s:[], s:[], s:s, s:[]}", "n_predict", n,
        "max_tokens", n, "ignore_eos", (int)p->ignore_eos, "stream", (int)p->stream, "n_probs",
        MAX(p->n_logprobs, 0), "min_keep", (int)p->sampling.min_keep, "timings_per_token",
        (int)p->with_timings, "post_sampling_probs", (int)p->post_logprobs, "n_keep", 0, "samplers",
        settings_samplers(&p->sampling), "stop", "logit_bias", "grammar", "", "lora");

    if (out) {
        settings_put_sampling(out, &p->sampling);
        json_object_set_new(out, "adaptive_target", json_real(-1));
        json_object_set_new(out, "adaptive_decay", json_real(0.9));
        json_object_set_new(out, "dry_sequence_breakers", settings_breakers(&p->sampling));
    }
    return out;
}

/* Lists the biases. A token that is excluded has the bias null, as in llama-server. */
static json_t *settings_bias(const struct params *p, const struct inf_tokenizer *tok)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < p->sampling.n_logit_bias; i++) {
        const struct inf_logit_bias *b = &p->bias[i];

        json_array_append_new(
            list, json_pack("{s:i, s:o}", "token", b->token, "bias",
                            b->bias <= -100 ? json_null() : json_real((double)b->bias)));
    }
    for (int32_t id = 0; list && p->ignore_eos && id < (int32_t)inf_tokenizer_n_vocab(tok); id++)
        if (inf_tokenizer_token_flags(tok, id) & INF_TOKEN_EOG)
            json_array_append_new(list, json_pack("{s:i, s:n}", "token", id, "bias"));
    return list;
}

int llama_settings_make(struct generation *g, struct problem *problem)
{
    struct llama_own *own = g->own;
    json_t *settings = llama_settings(&g->params, generation_max_tokens(g));
    _cleanup_free_ char *text = NULL;

    if (!settings)
        return problem_no_memory(problem);
    json_object_set_new(settings, "n_ctx", json_integer(inf_engine_n_ctx(g->resident->engine)));
    json_object_set_new(settings, "model", json_string(g->resident->base.name));
    json_object_set_new(settings, "logit_bias",
                        settings_bias(&g->params, inf_model_tokenizer(g->resident->base.model)));
    if (json_is_array(own->stop))
        json_object_set(settings, "stop", own->stop);
    else if (own->stop)
        json_array_append(json_object_get(settings, "stop"), own->stop);
    if (json_is_string(own->grammar))
        json_object_set(settings, "grammar", own->grammar);
    else if (own->grammar)
        json_object_set(settings, "json_schema", own->grammar);
    text = json_dumps(settings, JSON_COMPACT);
    json_decref(settings);
    return !text || str_puts(&own->settings, text) < 0 ? problem_no_memory(problem) : 0;
}
