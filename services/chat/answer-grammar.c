/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the grammar that the answers of a request follow. If that fails, finds the tool or the
 * constraint that is wrong. */
#include "chat/answer-grammar.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/reply/grammar.h"
#include "common/wire/fields.h"
#include "core/err.h"

static bool answer_thinking_is_off(const struct reasoning_rules *rules)
{
    return rules->enabled == 0 || (rules->enabled < 0 && field_is(rules->effort, "none"));
}

/* Compiles a grammar without keeping it. */
static int answer_try(struct generation *g, enum inf_grammar_kind kind, const struct str *text,
                      struct inf_err *reterr)
{
    return grammar_cache_try(&g->resident->grammars, inf_model_tokenizer(g->resident->base.model),
                             kind, text->data ? text->data : "", text->len, reterr);
}

static int answer_tool_problem(const struct generation *g, const struct reply_tool *tool,
                               const char *why, struct problem *problem)
{
    const char *schema = g->api->tool_schema ? g->api->tool_schema : "function.parameters";
    char param[128];

    snprintf(param, sizeof(param), "tools[%zu].%s", tool->index,
             tool->is_custom ? "custom.format" : schema);
    return problem_set(problem, 400, "invalid_value", param, "Invalid value for '%s': %.300s.",
                       param, why);
}

/* Compiles each tool and the constraint alone, to find out which of them is wrong. The error of the
 * whole grammar would not help the client, because it gives positions in a text that the client
 * does not have. */
static int answer_find_problem(struct generation *g, const char *why, struct problem *problem)
{
    const struct constraint *c = &g->params.constraint;
    const char *field = c->field ? c->field : "response_format";
    const struct reply none = {0};
    enum inf_grammar_kind kind;
    struct inf_err err = {};

    for (size_t i = 0; i < g->reply.n_tools; i++) {
        const struct reply_tool *tool = &g->reply.tools[i];
        _cleanup_str_ struct str text = {};

        kind = tool->is_strict ? INF_GRAMMAR_JSON_SCHEMA : INF_GRAMMAR_JSON_SCHEMA_LOOSE;
        if (!tool->is_custom && reply_tool_schema(tool, &text) == 0 &&
            answer_try(g, kind, &text, &err) < 0)
            return answer_tool_problem(g, tool, err.text, problem);
    }
    for (size_t i = 0; i < g->reply.n_tools; i++) {
        _cleanup_str_ struct str text = {};
        struct reply one = g->reply;

        one.tools = &g->reply.tools[i];
        one.n_tools = 1;
        one.choice = TOOLS_REQUIRED;
        if (one.tools->is_custom &&
            reply_grammar(&one, &(struct constraint){0}, true, NULL, &kind, &text) > 0 &&
            answer_try(g, kind, &text, &err) < 0)
            return answer_tool_problem(g, one.tools, err.text, problem);
    }
    if (c->kind != CONSTRAINT_NONE) {
        _cleanup_str_ struct str text = {};

        if (reply_grammar(&none, c, true, NULL, &kind, &text) > 0 &&
            answer_try(g, kind, &text, &err) < 0)
            why = err.text;
        return problem_set(problem, 400, "invalid_value", field, "Invalid value for '%s': %.300s.",
                           field, why);
    }
    return problem_set(problem, 400, "invalid_value", "tools",
                       "These tools cannot be compiled to a grammar: %.300s.", why);
}

int answer_grammar_set(struct generation *g, struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    const struct constraint *c = &g->params.constraint;
    const bool is_off = answer_thinking_is_off(&g->params.reasoning);
    const char *field = c->field ? c->field : "response_format";
    _cleanup_str_ struct str text = {};
    enum inf_grammar_kind kind = INF_GRAMMAR_JSON;
    struct inf_err err = {};
    int r = reply_grammar(&g->reply, c, is_off, tok, &kind, &text);

    if (r == -EOPNOTSUPP && !g->reply.n_tools && !g->reply.is_open) {
        /* The grammar cannot be combined with thinking, so the answer must begin without
         * thinking. */
        const struct reply none = {0};

        r = reply_grammar(&none, c, true, tok, &kind, &text);
    }
    if (r == -EOPNOTSUPP)
        return problem_set(problem, 400, "unsupported_parameter", field,
                           "Unsupported parameter: '%s' cannot be combined with %s on this model.",
                           field, g->reply.n_tools ? "tools" : "thinking");
    if (r == 0)
        return 0;
    if (r > 0)
        r = grammar_cache_get(&g->resident->grammars, tok, kind, text.data ? text.data : "",
                              text.len, &g->grammar, &err);
    if (r == -ENOMEM)
        return problem_no_memory(problem);
    if (r < 0 && !err.text[0])
        err_set(&err, E2BIG, "the grammar would be too large");
    return r < 0 ? answer_find_problem(g, err.text, problem) : 0;
}
