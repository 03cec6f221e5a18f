/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads requests of POST /v1/fim/completions, as in Mistral's API: the model writes the text
 * between `prompt` and `suffix`.
 */
#include "chat/api/mistral-fim.h"

#include "chat/answer-grammar.h"
#include "chat/api/fim.h"
#include "chat/api/openai-body.h"
#include "common/wire/fields.h"

static const char *const mistral_fim_fields[] = {
    "prompt", "suffix", "max_tokens", "max_completion_tokens", "n_predict", "random_seed", NULL,
};

/* Reads `random_seed`, Mistral's name of the seed. */
static int read_seed(struct generation *g, struct problem *problem)
{
    int64_t seed = 0;
    const int r = field_int(g->body, "random_seed", 0, INT64_MAX, &seed, problem);

    if (r <= 0)
        return r;
    g->params.sampling.has_seed = true;
    g->params.sampling.seed = (uint64_t)seed;
    return 0;
}

int mistral_fim_read(struct generation *g, struct problem *problem)
{
    const json_t *prompt = field_find(g->body, "prompt"), *suffix = field_find(g->body, "suffix");
    int r;

    if ((r = openai_fields_known(g->body, mistral_fim_fields, problem)) < 0 ||
        (r = openai_params_read(&g->params, g->body, problem)) < 0 ||
        (r = openai_read_length(&g->params, g->body, problem)) < 0 ||
        (r = read_seed(g, problem)) < 0 ||
        (r = openai_constraint_read(g->body, &g->params.constraint, problem)) < 0)
        return r;
    if (!prompt)
        return problem_set(problem, 400, "missing_field", "prompt",
                           "Missing required parameter: 'prompt'.");
    if (!json_is_string(prompt))
        return field_wrong_type("prompt", "a string", prompt, problem);
    if (suffix && !json_is_string(suffix))
        return field_wrong_type("suffix", "a string", suffix, problem);
    return 0;
}

int mistral_fim_prepare(struct generation *g, struct problem *problem)
{
    const struct fim_input input = {.prefix = field_find(g->body, "prompt"),
                                    .suffix = field_find(g->body, "suffix"),
                                    .room = generation_max_tokens(g)};
    const int r = fim_prepare(g, &input, problem);

    return r < 0 ? r : answer_grammar_set(g, problem);
}
