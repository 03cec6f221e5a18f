/* SPDX-License-Identifier: Apache-2.0 */
/* Adds prompts to a generation, and refuses prompts that do not fit into the context. */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/generation.h"

int generation_context_problem(const struct generation *g, size_t n_tokens, bool more,
                               struct problem *problem)
{
    const uint32_t n_ctx = inf_engine_n_ctx(g->resident->engine);

    problem_set(problem, 400, "context_length_exceeded", g->api->prompt_field,
                "This model's maximum context length is %u tokens. However, your prompt has %s%zu "
                "tokens, which exceeds the available context size. Please reduce its length.",
                n_ctx, more ? "more than " : "", n_tokens);
    problem->n_prompt_tokens = n_tokens;
    problem->n_ctx = n_ctx;
    return -EINVAL;
}

size_t generation_max_prompt(const struct generation *g)
{
    const size_t n_ctx = inf_engine_n_ctx(g->resident->engine);

    return g->api->computes_only ? MAX(n_ctx, GENERATION_MAX_COUNTED) : n_ctx - 1;
}

int generation_add_tokens(struct generation *g, int32_t *tokens, size_t n_tokens,
                          struct problem *problem)
{
    struct prompt *prompts = realloc(g->prompts, (g->n_prompts + 1) * sizeof(*prompts));

    const size_t most = g->params.truncate_prompt;

    if (!prompts) {
        free(tokens);
        return problem_no_memory(problem);
    }
    if (most && n_tokens > most) {
        memmove(tokens, tokens + (n_tokens - most), most * sizeof(*tokens));
        n_tokens = most;
    }
    g->prompts = prompts;
    g->prompts[g->n_prompts] = (struct prompt){.tokens = tokens, .n_tokens = n_tokens};
    g->n_prompts++;
    if (n_tokens >= inf_engine_n_ctx(g->resident->engine) && !g->api->computes_only)
        return generation_context_problem(g, n_tokens, false, problem);
    return 0;
}

int generation_add_prompt(struct generation *g, const char *text, size_t len, unsigned flags,
                          struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const size_t max = generation_max_prompt(g);
    struct inf_encoding e = {0};
    const int r = inf_tokenizer_encode_texts(tok, &(struct inf_encode_text){text, len}, NULL, flags,
                                             INF_CUT_NONE, max, &e);

    if (r == -E2BIG)
        return generation_context_problem(g, max, true, problem);
    if (r < 0)
        return problem_no_memory(problem);
    if (!e.n) {
        free(e.ids);
        return problem_set(problem, 400, "empty_prompt", g->api->prompt_field,
                           "'%s' is empty: it has no tokens.", g->api->prompt_field);
    }
    return generation_add_tokens(g, e.ids, e.n, problem);
}

int generation_add_prompts(struct generation *g, json_t *prompts, const char *n_field,
                           int (*add)(struct generation *g, json_t *prompt,
                                      struct problem *problem),
                           struct problem *problem)
{
    const size_t n = json_array_size(prompts) * g->params.n;
    json_t *prompt;
    size_t i;
    int r = 0;

    if (!json_array_size(prompts))
        return problem_set(problem, 400, "empty_prompt", "prompt", "'prompt' is an empty array.");
    if (n > PARAMS_MAX_CHOICES)
        return problem_set(problem, 400, "invalid_value", "prompt",
                           "'prompt' and '%s' ask for %zu answers; at most %d are possible.",
                           n_field, n, PARAMS_MAX_CHOICES);
    json_array_foreach(prompts, i, prompt)
    {
        r = add(g, prompt, problem);
        if (r < 0)
            break;
    }
    return r;
}
