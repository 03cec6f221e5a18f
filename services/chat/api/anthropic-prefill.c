/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether an answer continues the last message of a request to Anthropic's Messages API.
 * A message that the answer continues is called a prefill.
 *
 * The answer continues the last message if its role is "assistant". The error messages are those of
 * Anthropic's API, because clients search for their words.
 */
#include <errno.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "common/wire/fields.h"

struct prefill {
    json_t *messages;
    size_t first, last; /* indexes of the assistant's messages at the end */
    const struct message *message;
    struct problem *problem;
};

static bool prefill_is_assistant(json_t *messages, size_t i)
{
    return field_is(json_object_get(json_array_get(messages, i), "role"), "assistant");
}

static bool prefill_is_thinking(json_t *block)
{
    json_t *type = json_object_get(block, "type");

    return field_is(type, "thinking") || field_is(type, "redacted_thinking");
}

/* Writes the path of a block. */
static void prefill_path(size_t message, size_t block, char path[ANTHROPIC_PATH])
{
    char array[ANTHROPIC_PATH], content[ANTHROPIC_PATH];

    anthropic_item(array, "messages", message);
    anthropic_path(content, array, "content");
    anthropic_item(path, content, block);
}

static json_t *prefill_content(const struct prefill *p, size_t i)
{
    return json_object_get(json_array_get(p->messages, i), "content");
}

/* If thinking is switched off, the message must not contain thinking. */
static int prefill_check_off(const struct prefill *p)
{
    char path[ANTHROPIC_PATH];
    json_t *block;
    size_t k;

    for (size_t i = p->first; i <= p->last; i++)
        json_array_foreach(prefill_content(p, i), k, block)
        {
            if (!prefill_is_thinking(block))
                continue;
            prefill_path(i, k, path);
            return problem_set(p->problem, 400, "invalid_value", path,
                               "%s: When thinking is disabled, an `assistant` message in the final "
                               "position cannot contain `thinking`. To use thinking blocks, enable "
                               "`thinking` in your request.",
                               path);
        }
    return 0;
}

/* If thinking is switched on, the message must begin with thinking. */
static int prefill_check_on(const struct prefill *p)
{
    json_t *block = json_array_get(prefill_content(p, p->first), 0);
    const char *type = json_string_value(json_object_get(block, "type"));
    char path[ANTHROPIC_PATH];

    if (prefill_is_thinking(block) || !json_string_length(p->message->text))
        return 0;
    prefill_path(p->first, 0, path);
    return problem_set(p->problem, 400, "invalid_value", path,
                       "%s.type: Expected `thinking` or `redacted_thinking`, but found `%.40s`. "
                       "When `thinking` is enabled, a final `assistant` message must start with a "
                       "thinking block. To avoid this requirement, disable `thinking`.",
                       path, type ? type : "text");
}

static int prefill_check_end(const struct prefill *p)
{
    json_t *content = prefill_content(p, p->last);
    const size_t n = json_array_size(content), len = json_string_length(p->message->text);
    char path[ANTHROPIC_PATH];

    anthropic_item(path, "messages", p->last);
    if (n && prefill_is_thinking(json_array_get(content, n - 1)))
        return problem_set(p->problem, 400, "invalid_value", path,
                           "%s: The final block in an assistant message cannot be `thinking`.",
                           path);
    if (len && memchr(" \t\n\r", json_string_value(p->message->text)[len - 1], 4))
        return problem_set(p->problem, 400, "invalid_value", path,
                           "messages: final assistant content cannot end with trailing whitespace "
                           "('%s').",
                           path);
    return 0;
}

static int prefill_check(const struct prefill *p, const struct params *params)
{
    const struct message *m = p->message;
    char path[ANTHROPIC_PATH];

    anthropic_item(path, "messages", p->last);
    if (m->n_calls)
        return problem_set(p->problem, 400, "invalid_value", path,
                           "%s: `tool_use` ids were found without `tool_result` blocks immediately "
                           "after: %.100s. Each `tool_use` block must have a corresponding "
                           "`tool_result` block in the next message.",
                           path, json_string_value(m->calls[0].id));
    if (params->constraint.kind != CONSTRAINT_NONE)
        return problem_set(p->problem, 400, "invalid_value", path,
                           "%s: Prefill is not possible together with '%s': the schema describes "
                           "the whole answer, including its beginning.",
                           path, params->constraint.field);
    if ((params->reasoning.enabled == 0 && prefill_check_off(p) < 0) || prefill_check_end(p) < 0)
        return -EINVAL;
    return params->reasoning.enabled > 0 ? prefill_check_on(p) : 0;
}

int anthropic_prefill_read(json_t *body, const struct params *params, struct conversation *c,
                           struct problem *problem)
{
    json_t *messages = field_find(body, "messages");
    struct prefill p = {
        .messages = messages, .last = json_array_size(messages) - 1, .problem = problem};

    if (!prefill_is_assistant(messages, p.last))
        return 0;
    p.first = p.last;
    while (p.first > 0 && prefill_is_assistant(messages, p.first - 1))
        p.first--;
    p.message = &c->messages[c->n_messages - 1];
    c->continues = true;
    return prefill_check(&p, params);
}
