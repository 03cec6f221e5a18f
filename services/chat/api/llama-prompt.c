/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads prompts in llama-server's forms.
 *
 * A prompt is a string, an array of token ids and strings, or an object with "prompt_string". An
 * array with no number in it is a list of prompts.
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

/* Appends the tokens of a part of a prompt, a string or a token id. */
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
    json_t *prompt = field_find(g->body, "prompt"), *item;
    struct llama_own *own = g->own;
    size_t i;
    int r = 0;

    own->is_many = prompt_is_list(prompt) || g->params.n > 1;
    if (!prompt_is_list(prompt))
        return prompt_add(g, prompt, problem);
    if (!json_array_size(prompt))
        return problem_set(problem, 400, "empty_prompt", "prompt", "'prompt' is an empty array.");
    if (json_array_size(prompt) * g->params.n > PARAMS_MAX_CHOICES)
        return problem_set(problem, 400, "invalid_value", "prompt",
                           "'prompt' and 'n_cmpl' ask for %zu answers; at most %d are possible.",
                           json_array_size(prompt) * g->params.n, PARAMS_MAX_CHOICES);
    json_array_foreach(prompt, i, item)
    {
        r = prompt_add(g, item, problem);
        if (r < 0)
            break;
    }
    return r;
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

static int llama_prepare(struct generation *g, struct problem *problem)
{
    int r = llama_bias_resolve(g, problem);

    r = r < 0 ? r : answer_grammar_set(g, problem);
    r = r < 0 ? r : prompts_keep_texts(g, problem);
    return r < 0 ? r : llama_settings_make(g, problem);
}

int llama_completion_prepare(struct generation *g, struct problem *problem)
{
    const int r = prompts_add(g, problem);

    return r < 0 ? r : llama_prepare(g, problem);
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

int llama_infill_read(struct generation *g, struct problem *problem)
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
