/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the bodies of POST /tokenize, /detokenize and /apply-template. */
#include <errno.h>

#include "chat/api/openai-body.h"
#include "chat/api/tokenize.h"
#include "common/wire/fields.h"

static const char *const tokenize_fields[] = {
    "model", "content", "prompt", "add_special", "parse_special", "with_pieces", NULL,
};
static const char *const detokenize_fields[] = {"model", "tokens", NULL};
static const char *const apply_template_fields[] = {
    "model",
    "messages",
    "documents",
    "chat_template_kwargs",
    "enable_thinking",
    "reasoning_effort",
    "add_generation_prompt",
    "continue_final_message",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    NULL,
};

/* Maximum size of a text in bytes. The memory for processing a text is about a hundred times as
 * large as the text. */
#define TOKENIZE_MAX_BYTES ((size_t)4 << 20)

json_t *tokenize_text(const struct generation *g)
{
    json_t *text = field_find(g->body, "content");

    return text ? text : field_find(g->body, "prompt");
}

/* Refuses unknown fields, and reads the name of the model. */
static int tokenize_read_model(struct generation *g, const char *const *fields,
                               struct problem *problem)
{
    const int r = fields_known(g->body, "", fields, problem);

    return r < 0 ? r : MIN(field_text(g->body, "model", &g->params.model, problem), 0);
}

int tokenize_read(struct generation *g, struct problem *problem)
{
    json_t *text = tokenize_text(g);

    if (tokenize_read_model(g, tokenize_fields, problem) < 0)
        return -EINVAL;
    if (!text)
        return problem_set(problem, 400, "missing_field", "content",
                           "Missing required parameter: 'content'.");
    if (!json_is_string(text))
        return field_wrong_type("content", "a string", text, problem);
    if (json_string_length(text) > TOKENIZE_MAX_BYTES)
        return problem_set(problem, 400, "value_too_long", "content",
                           "Invalid value for 'content': it is longer than %zu bytes.",
                           TOKENIZE_MAX_BYTES);
    return 0;
}

int detokenize_read(struct generation *g, struct problem *problem)
{
    json_t *tokens = field_find(g->body, "tokens");

    if (tokenize_read_model(g, detokenize_fields, problem) < 0)
        return -EINVAL;
    if (!tokens)
        return problem_set(problem, 400, "missing_field", "tokens",
                           "Missing required parameter: 'tokens'.");
    return json_is_array(tokens) ? 0 : field_wrong_type("tokens", "an array", tokens, problem);
}

int apply_template_read(struct generation *g, struct problem *problem)
{
    int r = tokenize_read_model(g, apply_template_fields, problem);

    if (r < 0 ||
        (r = openai_tools_read(g->body, &g->params.tools, &g->conversation, problem)) < 0 ||
        (r = openai_reasoning_read(g->body, &g->params.reasoning, problem)) < 0)
        return r;
    return openai_conversation_read(g->body, &g->conversation, problem);
}
