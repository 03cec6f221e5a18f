/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders chat templates.
 *
 * A request sets template variables in chat_template_kwargs or in separate fields. A separate field
 * is refused if the template does not read it, because it would have no effect.
 */
#include "chat/template.h"

#include <errno.h>
#include <infer/chat.h>
#include <infer/model.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/generation.h"
#include "chat/messages.h"
#include "common/config/config.h"
#include "common/wire/fields.h"
#include "host/model-host.h"

static const char *const reserved[] = {"messages",  "tools",     "documents",
                                       "bos_token", "eos_token", "add_generation_prompt"};

int template_read(struct generation *g, struct problem *problem)
{
    json_t *body = g->body;
    int r;

    g->messages = json_object_get(body, "messages");
    r = messages_normalize(g->messages, problem);
    if (r < 0)
        return r;
    g->documents = field_find(body, "documents");
    if (g->documents && !json_is_array(g->documents))
        return field_wrong_type("documents", "an array", g->documents, problem);
    g->kwargs = field_find(body, "chat_template_kwargs");
    if (!g->kwargs)
        return 0;
    if (!json_is_object(g->kwargs))
        return field_wrong_type("chat_template_kwargs", "an object", g->kwargs, problem);
    for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
        if (json_object_get(g->kwargs, reserved[i]))
            return problem_set(problem, 400, "invalid_value", "chat_template_kwargs",
                               "'chat_template_kwargs' must not set \"%s\".", reserved[i]);
    return 0;
}

/* Returns the variables of the request as JSON text; NULL: none. */
static int template_kwargs(struct generation *g, const char *source, char **ret_text,
                           struct problem *problem)
{
    static const char *const own[] = {"enable_thinking", "reasoning_effort"};
    json_t *kwargs = g->kwargs ? json_copy(g->kwargs) : json_object();
    int r = kwargs ? 0 : -ENOMEM;

    *ret_text = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(own) && r == 0; i++) {
        json_t *value = field_find(g->body, own[i]);

        if (!value)
            continue;
        if (!strstr(source, own[i])) {
            json_decref(kwargs);
            return problem_set(problem, 400, "unsupported_parameter", own[i],
                               "Unsupported parameter: '%s' has no effect on this model.", own[i]);
        }
        r = json_object_set(kwargs, own[i], value) < 0 ? -ENOMEM : 0;
    }
    if (r == 0 && json_object_size(kwargs)) {
        *ret_text = json_dumps(kwargs, JSON_COMPACT);
        r = *ret_text ? 0 : -ENOMEM;
    }
    json_decref(kwargs);
    return r < 0 ? problem_no_memory(problem) : 0;
}

static char *token_text(const struct inf_tokenizer *tok, int32_t id)
{
    size_t len = 0;
    const char *text = id >= 0 ? inf_tokenizer_token_text(tok, id, &len) : NULL;

    return text ? strndup(text, len) : NULL;
}

static int template_run(struct generation *g, const struct inf_chat_template *tmpl,
                        const char *kwargs, char **ret_text, size_t *ret_len,
                        struct problem *problem)
{
    const struct inf_tokenizer *tok = inf_model_tokenizer(g->resident->base.model);
    _cleanup_free_ char *messages = json_dumps(g->messages, JSON_COMPACT);
    _cleanup_free_ char *documents = g->documents ? json_dumps(g->documents, JSON_COMPACT) : NULL;
    _cleanup_free_ char *bos = token_text(tok, inf_tokenizer_bos(tok));
    _cleanup_free_ char *eos = token_text(tok, inf_tokenizer_eos(tok));
    _cleanup_free_ char *pad = token_text(tok, inf_tokenizer_pad(tok));
    struct inf_chat_input input = {
        .messages = messages,
        .documents = documents,
        .kwargs = kwargs,
        .bos_token = bos,
        .eos_token = eos,
        .pad_token = pad,
        .add_generation_prompt = true,
        .limits.max_usec = g->request.host->config->chat.template_timeout_usec,
    };
    struct inf_err err = {};
    int r;

    if (!messages || (g->documents && !documents))
        return problem_no_memory(problem);
    r = field_bool(g->body, "add_generation_prompt", &input.add_generation_prompt, problem);
    if (r < 0)
        return r;
    r = inf_chat_render(tmpl, &input, ret_text, ret_len, &err);
    if (r == -ENOMEM)
        return problem_no_memory(problem);
    if (r < 0)
        return problem_set(
            problem, 400, r == -E2BIG || r == -ETIME ? "template_limit" : "template_error",
            "messages", "The model's chat template refused the messages: %s.", err.text);
    return 0;
}

int template_render(struct generation *g, char **ret_text, size_t *ret_len, struct problem *problem)
{
    const struct inf_chat_template *tmpl = inf_model_chat_template(g->resident->base.model);
    _cleanup_free_ char *kwargs = NULL;
    const char *source;
    int r;

    if (!tmpl && inf_model_info(g->resident->base.model)->template_error)
        return problem_set(problem, 400, "bad_chat_template", "model",
                           "The chat template of '%s' cannot be used: %s; use /v1/completions.",
                           g->resident->base.name,
                           inf_model_info(g->resident->base.model)->template_error);
    if (!tmpl)
        return problem_set(problem, 400, "no_chat_template", "model",
                           "The model '%s' has no chat template; use /v1/completions.",
                           g->resident->base.name);
    source = inf_chat_template_text(tmpl);
    if (g->documents && !strstr(source, "documents"))
        return problem_set(problem, 400, "unsupported_parameter", "documents",
                           "Unsupported parameter: 'documents' has no effect on this model.");
    r = template_kwargs(g, source, &kwargs, problem);
    return r < 0 ? r : template_run(g, tmpl, kwargs, ret_text, ret_len, problem);
}
