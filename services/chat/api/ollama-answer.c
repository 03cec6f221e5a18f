/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the parts that /api/chat and /api/generate share. */
#include "chat/api/ollama-answer.h"

#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/logprobs.h"
#include "chat/api/ollama-body.h"
#include "chat/reply/format.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "core/clock.h"

int ollama_read(struct generation *g, const char *const *more, struct problem *problem)
{
    struct ollama_own *own = g->own;
    const int r = ollama_params_read(&g->params, g->body, more, problem);

    if (r == 0)
        own->model = json_incref(field_find(g->body, "model"));
    return r;
}

void ollama_only_loads(struct generation *g)
{
    struct ollama_own *own = g->own;

    own->loads = true;
    g->params.unloads = g->params.has_keep && g->params.keep_usec == 0;
}

void ollama_begin_prepare(struct generation *g)
{
    struct ollama_own *own = g->own;

    own->ready_usec = clock_usec();
}

bool ollama_template_thinks(const char *source)
{
    return thinking_find(source) || strstr(source, "enable_thinking") ||
           strstr(source, "reasoning_effort");
}

int ollama_put_head(struct generation *g)
{
    const struct ollama_own *own = g->own;
    int r = str_puts(&g->out, "{\"model\":");

    if (r == 0 && own->model)
        r = json_put_string(&g->out, json_string_value(own->model), json_string_length(own->model));
    else if (r == 0)
        r = json_put_text(&g->out, g->resident ? g->resident->base.name : "");
    r = r < 0 ? r : str_puts(&g->out, ",\"created_at\":");
    return r < 0 ? r : ollama_put_now(&g->out);
}

/* Writes a call. In Ollama's API, the arguments are an object. */
static int put_call(struct str *out, const struct made_call *call, size_t i)
{
    int r = str_puts(out, i ? ",{\"id\":" : "{\"id\":");

    r = r < 0 ? r : json_put_text(out, call->id);
    r = r < 0 ? r : str_printf(out, ",\"function\":{\"index\":%zu,\"name\":", i);
    r = r < 0 ? r : json_put_string(out, call->name.data ? call->name.data : "", call->name.len);
    r = r < 0 ? r : str_puts(out, ",\"arguments\":");
    r = r < 0 ? r : str_puts(out, call->arguments.len ? call->arguments.data : "{}");
    return r < 0 ? r : str_puts(out, "}}");
}

int ollama_put_message(struct str *out, const struct ollama_message *m)
{
    int r = str_puts(out, "{\"role\":\"assistant\",\"content\":");

    r = r < 0 ? r : json_put_string(out, m->content.data ? m->content.data : "", m->content.len);
    if (r == 0 && m->thinking.len) {
        r = str_puts(out, ",\"thinking\":");
        r = r < 0 ? r : json_put_string(out, m->thinking.data, m->thinking.len);
    }
    if (r == 0 && m->n_calls)
        r = str_puts(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < m->n_calls && r == 0; i++)
        r = put_call(out, &m->calls[i], i);
    if (r == 0 && m->n_calls)
        r = str_putc(out, ']');
    return r < 0 ? r : str_putc(out, '}');
}

int ollama_put_logprobs(struct generation *g, struct str *logprobs)
{
    int r;

    if (g->params.n_logprobs < 0 || !logprobs->len)
        return 0;
    r = str_printf(&g->out, ",\"logprobs\":[%s]", logprobs->data);
    str_clear(logprobs);
    return r;
}

/* Writes one duration in nanoseconds. The duration is 0 if one of the times is not known. */
static int put_duration(struct str *out, const char *name, uint64_t from_usec, uint64_t to_usec)
{
    if (!from_usec || to_usec < from_usec)
        return str_printf(out, ",\"%s\":0", name);
    return str_printf(out, ",\"%s\":%llu", name, (unsigned long long)(to_usec - from_usec) * 1000u);
}

int ollama_put_end(struct generation *g, const char *more)
{
    const struct ollama_own *own = g->own;
    const uint64_t start = g->request.start_usec, now = clock_usec();
    const uint64_t prompt = own->prompt_usec ? own->prompt_usec : now;
    const struct usage usage = generation_usage(g);
    struct str *out = &g->out;
    int r = str_printf(out, ",\"done\":true,\"done_reason\":\"%s\"",
                       generation_finish_word(g, &g->choices[0]));

    r = r < 0 ? r : str_puts(out, more ? more : "");
    r = r < 0 ? r : put_duration(out, "total_duration", start, now);
    r = r < 0 ? r : put_duration(out, "load_duration", start, own->ready_usec);
    r = r < 0 ? r
              : str_printf(out, ",\"prompt_eval_count\":%llu", (unsigned long long)usage.n_prompt);
    r = r < 0 ? r : put_duration(out, "prompt_eval_duration", own->ready_usec, prompt);
    r = r < 0 ? r : str_printf(out, ",\"eval_count\":%llu", (unsigned long long)usage.n_generated);
    r = r < 0 ? r : put_duration(out, "eval_duration", prompt, now);
    return r < 0 ? r : str_puts(out, g->request.streaming ? "}\n" : "}");
}

int ollama_put_loaded(struct generation *g, const char *answer)
{
    int r = ollama_put_head(g);

    return r < 0 ? r
                 : str_printf(&g->out, ",%s,\"done\":true,\"done_reason\":\"%s\"}", answer,
                              g->params.unloads ? "unload" : "load");
}

int ollama_begin(struct generation *g)
{
    (void)g;
    return 0;
}

int ollama_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    struct ollama_choice *own_choice = c->own;
    struct ollama_own *own = g->own;

    if (!own->prompt_usec)
        own->prompt_usec = clock_usec();
    return logprobs_add_event(g, event, &own_choice->logprobs);
}

void ollama_choice_done(struct choice *c)
{
    struct ollama_choice *own = c->own;

    str_done(&own->logprobs);
    free(own->call.id);
    str_done(&own->call.name);
    str_done(&own->call.arguments);
}

void ollama_own_done(struct generation *g)
{
    struct ollama_own *own = g->own;

    json_decref(own->model);
    str_done(&own->tokens);
}
