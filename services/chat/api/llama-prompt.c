/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads prompts in llama-server's forms.
 *
 * A prompt is a string, an array of token ids and strings, or an object with "prompt_string". An
 * array without numbers is a list of prompts.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/answer-grammar.h"
#include "chat/api/fim.h"
#include "chat/api/llama.h"
#include "common/wire/fields.h"
#include "core/array.h"

struct ids {
    int32_t *items;
    size_t n, cap;
};

/* Appends the tokens of one part of a prompt. The part is a string or a token id. */
static int ids_add(struct generation *g, struct ids *ids, json_t *part, bool first,
                   struct problem *problem)
{
    const int64_t n_vocab = inf_model_info(g->resident->base.model)->n_vocab;
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    _cleanup_free_ int32_t *more = NULL;
    int32_t id = (int32_t)json_integer_value(part);
    size_t n = 1;
    int r = 0;

    if (json_is_string(part)) {
        r = inf_tokenizer_encode(tok, json_string_value(part), json_string_length(part),
                                 INF_ENCODE_PARSE_SPECIAL | (first ? INF_ENCODE_ADD_SPECIAL : 0u),
                                 inf_engine_n_ctx(g->resident->engine), &more, &n);
    } else if (!json_is_integer(part)) {
        return field_wrong_type("prompt", "token ids and strings", part, problem);
    } else if (json_integer_value(part) < 0 || json_integer_value(part) >= n_vocab) {
        return problem_set(problem, 400, "invalid_value", "prompt",
                           "Invalid value for 'prompt': %lld is not a token id of this model (0 to "
                           "%lld).",
                           (long long)json_integer_value(part), (long long)n_vocab - 1);
    }
    if (r == -E2BIG)
        return generation_context_problem(g, inf_engine_n_ctx(g->resident->engine), true, problem);
    if (r < 0 || ARRAY_GROW(ids->items, ids->cap, ids->n + n) < 0)
        return problem_no_memory(problem);
    if (n)
        memcpy(ids->items + ids->n, more ? more : &id, n * sizeof(*more));
    ids->n += n;
    return 0;
}

static int prompt_add_parts(struct generation *g, json_t *parts, struct problem *problem)
{
    struct ids ids = {0};
    json_t *part;
    size_t i;
    int r = 0;

    json_array_foreach(parts, i, part)
    {
        r = ids_add(g, &ids, part, i == 0, problem);
        if (r < 0)
            break;
    }
    if (r == 0 && !ids.n)
        r = problem_set(problem, 400, "empty_prompt", "prompt", "'prompt' has no tokens.");
    if (r == 0)
        return generation_add_tokens(g, ids.items, ids.n, problem);
    free(ids.items);
    return r;
}

static int prompt_add(struct generation *g, json_t *prompt, struct problem *problem)
{
    static const char *const fields[] = {"prompt_string", "multimodal_data", NULL};

    if (json_is_object(prompt)) {
        if (fields_known(prompt, "prompt.", fields, problem) < 0)
            return -EINVAL;
        if (field_find(prompt, "multimodal_data"))
            return problem_set(problem, 400, "unsupported_value", "prompt.multimodal_data",
                               "Unsupported value: the model takes only text.");
        prompt = json_object_get(prompt, "prompt_string");
        if (!json_is_string(prompt))
            return problem_set(problem, 400, "missing_field", "prompt.prompt_string",
                               "Missing required parameter: 'prompt.prompt_string'.");
    }
    if (json_is_array(prompt))
        return prompt_add_parts(g, prompt, problem);
    if (!json_is_string(prompt))
        return field_wrong_type("prompt", "a string or an array", prompt, problem);
    return generation_add_prompt(g, json_string_value(prompt), json_string_length(prompt),
                                 INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL, problem);
}

static bool prompt_is_list(const json_t *prompt)
{
    json_t *item;
    size_t i;

    if (!json_is_array(prompt))
        return false;
    json_array_foreach(prompt, i, item)
    {
        if (json_is_number(item))
            return false;
    }
    return true;
}

static int prompts_add(struct generation *g, struct problem *problem)
{
    json_t *prompt = field_find(g->body, "prompt");
    const bool is_list = prompt_is_list(prompt);
    struct llama_own *own = g->own;

    own->is_many = is_list || g->params.n > 1;
    return is_list ? generation_add_prompts(g, prompt, "n_cmpl", prompt_add, problem)
                   : prompt_add(g, prompt, problem);
}

/* Keeps the text of each prompt for the answer. */
static int prompts_keep_texts(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);

    for (size_t i = 0; i < g->n_prompts; i++) {
        struct prompt *p = &g->prompts[i];

        if (inf_tokenizer_decode(tok, p->tokens, p->n_tokens, true, &p->text, &p->text_len) < 0)
            return problem_no_memory(problem);
    }
    return 0;
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

/* Turns texts in `logit_bias` into tokens of the loaded model. */
static int bias_resolve(struct generation *g, struct problem *problem)
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

static int llama_prepare(struct generation *g, struct problem *problem)
{
    int r = bias_resolve(g, problem);

    r = r < 0 ? r : answer_grammar_set(g, problem);
    r = r < 0 ? r : prompts_keep_texts(g, problem);
    return r < 0 ? r : llama_settings_make(g, problem);
}

int llama_completion_prepare(struct generation *g, struct problem *problem)
{
    const int r = prompts_add(g, problem);

    return r < 0 ? r : llama_prepare(g, problem);
}

int llama_infill_prepare(struct generation *g, struct problem *problem)
{
    const struct fim_input input = {
        .prefix = field_find(g->body, "input_prefix"),
        .suffix = field_find(g->body, "input_suffix"),
        .middle = field_find(g->body, "prompt"),
        .extra = field_find(g->body, "input_extra"),
        .room = generation_max_tokens(g),
    };
    struct llama_own *own = g->own;
    int r = fim_prepare(g, &input, problem);

    own->is_many = g->params.n > 1;
    return r < 0 ? r : llama_prepare(g, problem);
}
