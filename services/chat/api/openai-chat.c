/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/chat/completions, and other endpoints whose answers have the same form.
 *
 * A stream begins with one chunk per choice, which has the role. Chunks with content follow. Each
 * choice ends with a chunk that has the finish reason. If the client requests the usage, one more
 * chunk at the end of the stream has it.
 */
#include <errno.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/api/logprobs.h"
#include "chat/api/mistral-fim.h"
#include "chat/api/openai-answer.h"
#include "chat/api/openai-body.h"
#include "chat/template.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

static const char *const chat_fields[] = {
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "n_predict",
    "samplers",
    "response_fields",
    "logprobs",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "modalities",
    "audio",
    "prediction",
    "web_search_options",
    "documents",
    "chat_template_kwargs",
    "enable_thinking",
    "reasoning_effort",
    "thinking_budget",
    "reasoning_budget",
    "thinking_budget_tokens",
    "add_generation_prompt",
    "continue_final_message",
    NULL,
};

/* Refuses parameters of unsupported features. The error names the parameter. */
static int chat_read_unsupported(struct generation *g, struct problem *problem)
{
    static const char *const refused[] = {"audio", "prediction", "web_search_options"};
    json_t *value;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (field_find(g->body, refused[i]))
            return problem_set(problem, 400, "unsupported_parameter", refused[i],
                               "Unsupported parameter: '%s' is not supported here.", refused[i]);
    /* llama-server reads this field only on its own routes. On the routes of OpenAI's API the field
     * has no effect, but it must be an array. */
    value = field_find(g->body, "response_fields");
    if (value && !json_is_array(value))
        return field_wrong_type("response_fields", "an array of strings", value, problem);
    value = field_find(g->body, "modalities");
    if (value && !(json_array_size(value) == 1 && field_is(json_array_get(value, 0), "text")))
        return problem_set(problem, 400, "unsupported_parameter", "modalities",
                           "Unsupported value: 'modalities' must be [\"text\"].");
    return 0;
}

static int chat_read(struct generation *g, struct problem *problem)
{
    int64_t top = 0;
    bool logprobs = false;
    int r;

    if ((r = openai_fields_known(g->body, chat_fields, problem)) < 0 ||
        (r = openai_params_read(&g->params, g->body, problem)) < 0 ||
        (r = openai_read_length(&g->params, g->body, problem)) < 0 ||
        (r = field_bool(g->body, "logprobs", &logprobs, problem)) < 0)
        return r;
    r = field_int(g->body, "top_logprobs", 0, 20, &top, problem);
    if (r < 0)
        return r;
    if (r > 0 && top && !logprobs)
        return problem_set(problem, 400, "invalid_value", "top_logprobs",
                           "'top_logprobs' is only possible with 'logprobs': true.");
    g->params.n_logprobs = logprobs ? (int)top : -1;
    if ((r = chat_read_unsupported(g, problem)) < 0 ||
        (r = llama_samplers_read(g->body, &g->params, problem)) < 0 ||
        (r = openai_tools_read(g->body, &g->params.tools, &g->conversation, problem)) < 0 ||
        (r = openai_constraint_read(g->body, &g->params.constraint, problem)) < 0 ||
        (r = openai_reasoning_read(g->body, &g->params.reasoning, problem)) < 0)
        return r;
    return openai_conversation_read(g->body, &g->conversation, problem);
}

/* In requests to these endpoints, c->own points to this structure. `logprobs` has the probabilities
 * of tokens that were not sent yet, as elements of a JSON array. */
struct chat_choice {
    struct str logprobs;
    uint32_t n_calls; /* calls of tools in the stream so far */
};

static struct str *chat_logprobs(const struct choice *c)
{
    return &((struct chat_choice *)c->own)->logprobs;
}

static void chat_choice_done(struct choice *c)
{
    str_done(chat_logprobs(c));
}

/* Writes the start of a chunk of one choice, up to "delta":. */
static int chunk_open(struct generation *g, uint32_t index)
{
    int r = sse_open(&g->out);

    r = r < 0 ? r : openai_put_head(g, "chat.completion.chunk");
    r = r < 0 ? r : str_puts(&g->out, "{\"index\":");
    r = r < 0 ? r : json_put_uint(&g->out, index);
    return r < 0 ? r : str_puts(&g->out, ",\"delta\":");
}

/* Writes the end of a chunk, after the delta. @logprobs and @finish, the finish reason, may be
 * NULL. */
static int chunk_close(struct generation *g, const struct str *logprobs, const char *finish)
{
    int r = str_puts(&g->out, ",\"logprobs\":");

    if (r == 0 && logprobs && logprobs->len)
        r = str_printf(&g->out, "{\"content\":[%s],\"refusal\":null}", logprobs->data);
    else if (r == 0)
        r = str_puts(&g->out, "null");
    r = r < 0 ? r : str_puts(&g->out, ",\"finish_reason\":");
    r = r < 0 ? r : json_put_text(&g->out, finish);
    r = r < 0 ? r : str_puts(&g->out, g->params.include_usage ? "}],\"usage\":null}" : "}]}");
    return r < 0 ? r : sse_close(&g->out);
}

static int chat_begin(struct generation *g)
{
    int r = 0;

    for (size_t i = 0; i < g->n_choices && r == 0; i++) {
        r = chunk_open(g, (uint32_t)i);
        r = r < 0 ? r
                  : str_puts(&g->out, "{\"role\":\"assistant\",\"content\":null,\"refusal\":null}");
        r = r < 0 ? r : chunk_close(g, NULL, NULL);
    }
    return r;
}

static int chat_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    return logprobs_add_event(g, event, chat_logprobs(c));
}

/* Writes the delta for a piece of a call of a tool. */
static int chat_put_call_delta(struct generation *g, struct choice *c, const struct piece *piece)
{
    struct chat_choice *own = c->own;
    const bool custom = piece->kind == PIECE_INPUT || piece->is_custom;
    const char *kind = custom ? "custom" : "function", *text = custom ? "input" : "arguments";
    struct str *out = &g->out;
    int r;

    own->n_calls += piece->kind == PIECE_CALL;
    r = str_printf(out, "{\"tool_calls\":[{\"index\":%u", own->n_calls - 1);
    if (piece->kind != PIECE_CALL) {
        r = r < 0 ? r : str_printf(out, ",\"%s\":{\"%s\":", kind, text);
        r = r < 0 ? r : json_put_string(out, piece->text, piece->len);
        return r < 0 ? r : str_puts(out, "}}]}");
    }
    r = r < 0 ? r : str_puts(out, ",\"id\":");
    r = r < 0 ? r : json_put_text(out, piece->id);
    r = r < 0 ? r : str_printf(out, ",\"type\":\"%s\",\"%s\":{\"name\":", kind, kind);
    r = r < 0 ? r : json_put_string(out, piece->text, piece->len);
    return r < 0 ? r : str_printf(out, ",\"%s\":\"\"}}]}", text);
}

static int chat_put_delta(struct generation *g, struct choice *c, const struct piece *piece)
{
    int r;

    if (piece->kind != PIECE_TEXT && piece->kind != PIECE_REASONING)
        return chat_put_call_delta(g, c, piece);
    r = str_puts(&g->out, piece->kind == PIECE_TEXT ? "{\"content\":" : "{\"reasoning_content\":");
    r = r < 0 ? r : json_put_string(&g->out, piece->text, piece->len);
    return r < 0 ? r : str_putc(&g->out, '}');
}

/* Writes a chunk. The parser may hold text back; the probabilities of a text are sent together with
 * the text. */
static int chat_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    struct str *logprobs = chat_logprobs(c);
    int r = chunk_open(g, c->index);

    r = r < 0 ? r : chat_put_delta(g, c, piece);
    r = r < 0 ? r : chunk_close(g, logprobs, NULL);
    str_clear(logprobs);
    return r;
}

static int chat_finish(struct generation *g, struct choice *c)
{
    int r;

    if (!g->request.streaming)
        return 0;
    r = chunk_open(g, c->index);
    r = r < 0 ? r : str_puts(&g->out, "{}");
    return r < 0 ? r : chunk_close(g, chat_logprobs(c), generation_finish_word(g, c));
}

static int chat_put_call(const struct made_call *call, struct str *out)
{
    const char *kind = call->is_custom ? "custom" : "function";
    int r = str_puts(out, "{\"id\":");

    r = r < 0 ? r : json_put_text(out, call->id);
    r = r < 0 ? r : str_printf(out, ",\"type\":\"%s\",\"%s\":{\"name\":", kind, kind);
    r = r < 0 ? r : json_put_string(out, call->name.data, call->name.len);
    r = r < 0 ? r : str_printf(out, ",\"%s\":", call->is_custom ? "input" : "arguments");
    r = r < 0 ? r
              : json_put_string(out, call->arguments.data ? call->arguments.data : "",
                                call->arguments.len);
    return r < 0 ? r : str_puts(out, "}}");
}

static int chat_put_message(const struct choice *c, struct str *out)
{
    int r = str_puts(out, "{\"role\":\"assistant\",\"content\":");

    if (r == 0 && c->n_calls && !c->text.len)
        r = str_puts(out, "null");
    else if (r == 0)
        r = json_put_string(out, c->text.data ? c->text.data : "", c->text.len);
    r = r < 0 ? r : str_puts(out, ",\"refusal\":null");
    if (r == 0 && c->reasoning.len) {
        r = str_puts(out, ",\"reasoning_content\":");
        r = r < 0 ? r : json_put_string(out, c->reasoning.data, c->reasoning.len);
    }
    for (size_t i = 0; i < c->n_calls && r == 0; i++) {
        r = str_puts(out, i ? "," : ",\"tool_calls\":[");
        r = r < 0 ? r : chat_put_call(&c->calls[i], out);
    }
    r = r < 0 || !c->n_calls ? r : str_putc(out, ']');
    return r < 0 ? r : str_putc(out, '}');
}

static int chat_put_choice(struct generation *g, const struct choice *c)
{
    const struct str *logprobs = chat_logprobs(c);
    struct str *out = &g->out;
    int r = str_printf(out, "%s{\"index\":%u,\"message\":", c->index ? "," : "", c->index);

    r = r < 0 ? r : chat_put_message(c, out);
    r = r < 0 ? r : str_puts(out, ",\"logprobs\":");
    if (r == 0 && g->params.n_logprobs >= 0)
        r = str_printf(out, "{\"content\":[%s],\"refusal\":null}",
                       logprobs->data ? logprobs->data : "");
    else if (r == 0)
        r = str_puts(out, "null");
    return r < 0 ? r : str_printf(out, ",\"finish_reason\":\"%s\"}", generation_finish_word(g, c));
}

static int chat_end(struct generation *g)
{
    int r;

    if (g->request.streaming)
        return openai_put_usage_event(g, "chat.completion.chunk");
    r = openai_put_head(g, "chat.completion");
    for (size_t i = 0; i < g->n_choices && r == 0; i++)
        r = chat_put_choice(g, &g->choices[i]);
    r = r < 0 ? r : str_puts(&g->out, "],\"usage\":");
    r = r < 0 ? r : openai_put_usage(g, &g->out);
    r = r < 0 ? r : openai_put_extras(g, &g->out);
    return r < 0 ? r : str_putc(&g->out, '}');
}

static int chat_progress(struct generation *g, struct choice *c)
{
    return openai_put_progress(g, c, "chat.completion.chunk");
}

/* If the message that an answer continues has several parts, joins them, as llama-server does. Two
 * line feeds separate the parts. The parts were already checked. */
static int llama_join_parts(json_t *body, struct message *last, struct problem *problem)
{
    const json_t *messages = json_object_get(body, "messages");
    const json_t *content =
        json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content");
    _cleanup_str_ struct str text = {};
    json_t *part;
    size_t i;
    int r = 0;

    if (json_array_size(content) < 2)
        return 0;
    json_array_foreach(content, i, part)
    {
        const json_t *own = json_object_get(
            part, json_is_string(json_object_get(part, "refusal")) ? "refusal" : "text");

        r = i ? str_puts(&text, "\n\n") : 0;
        r = r < 0 ? r : str_append(&text, json_string_value(own), json_string_length(own));
        if (r < 0)
            return problem_no_memory(problem);
    }
    json_decref(last->text);
    last->text = json_stringn(text.data, text.len);
    return last->text ? 0 : problem_no_memory(problem);
}

/* Reads a request as llama-server does: if the last message is the assistant's, the answer
 * continues it. */
static int llama_chat_read(struct generation *g, struct problem *problem)
{
    struct conversation *c = &g->conversation;
    const int r = chat_read(g, problem);
    struct message *last = r == 0 ? &c->messages[c->n_messages - 1] : NULL;

    if (r < 0 || last->role != ROLE_ASSISTANT || last->n_calls ||
        field_find(g->body, "continue_final_message") ||
        field_find(g->body, "add_generation_prompt"))
        return r;
    if (c->n_messages > 1 && last[-1].role == ROLE_ASSISTANT)
        return problem_set(problem, 400, "invalid_value", "messages",
                           "'messages' ends with two messages of the assistant.");
    c->continues = true;
    return llama_join_parts(g->body, last, problem);
}

static int count_prepare(struct generation *g, struct problem *problem)
{
    int r = conversation_prepare(g, problem);

    if (r == 0 && str_printf(&g->out, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}",
                             g->prompts[0].n_tokens) < 0)
        r = problem_no_memory(problem);
    return r;
}

/* These members of struct chat_api are the same for all endpoints. */
#define CHAT_SHARED                                                                                \
    .id_prefix = "chatcmpl-",                                                                      \
    .finishes = {[FINISH_STOP] = "stop",                                                           \
                 [FINISH_STOP_TEXT] = "stop",                                                      \
                 [FINISH_LENGTH] = "length",                                                       \
                 [FINISH_CALLS] = "tool_calls"},                                                   \
    .own_size = sizeof(struct openai_own), .choice_size = sizeof(struct chat_choice),              \
    .stream_type = SSE_TYPE, .stream_pause = SSE_COMMENT, .stream_end = SSE_DONE,                  \
    .begin = chat_begin, .tokens = chat_tokens, .piece = chat_piece, .progress = chat_progress,    \
    .finish = chat_finish, .end = chat_end, .choice_done = chat_choice_done,                       \
    .done = openai_own_done

const struct chat_api api_openai_chat = {
    CHAT_SHARED,
    .prompt_field = "messages",
    .read = chat_read,
    .prepare = conversation_prepare,
};

const struct chat_api api_llama_chat = {
    CHAT_SHARED,
    .prompt_field = "messages",
    .sampling = &sampling_llama,
    .read = llama_chat_read,
    .prepare = conversation_prepare,
};

const struct chat_api api_mistral_fim = {
    CHAT_SHARED,
    .prompt_field = "prompt",
    .read = mistral_fim_read,
    .prepare = mistral_fim_prepare,
};

/* Counts the tokens of the prompt that a chat request would have. */
const struct chat_api api_count_tokens = {
    .id_prefix = "count-",
    .prompt_field = "messages",
    .computes_only = true,
    .own_size = sizeof(struct openai_own),
    .read = chat_read,
    .prepare = count_prepare,
    .done = openai_own_done,
};
