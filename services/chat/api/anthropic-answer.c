/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/messages and /v1/messages/count_tokens.
 *
 * A stream is made of named events. message_start has the numbers of tokens of the prompt. These
 * are known when the first token comes, so message_start is written then. The events of a block are
 * content_block_start, one content_block_delta for each piece, and content_block_stop. A block of
 * thinking also has a signature before its end. message_delta has the stop reason and the usage.
 * message_stop is the last event.
 */
#include <errno.h>
#include <infer/chat.h>
#include <infer/model.h>
#include <string.h>

#include "chat/api/anthropic-body.h"
#include "chat/generation.h"
#include "chat/late-system.h"
#include "chat/template.h"
#include "common/config/config.h"
#include "common/http/sse.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"

/* In requests to this API, g->own points to this structure. */
struct anthropic_own {
    struct anthropic_wishes wishes;
    bool started; /* message_start was written */
};

enum block_kind { BLOCK_NONE, BLOCK_TEXT, BLOCK_THINKING, BLOCK_CALL };

/* In requests to this API, c->own points to this structure: the block of a stream that is being
 * written. */
struct anthropic_block {
    enum block_kind kind;
    uint32_t index, n; /* n: number of blocks so far */
};

static int anthropic_read_body(struct generation *g, bool counts, struct problem *problem)
{
    struct anthropic_own *own = g->own;
    const struct anthropic_rules rules = {
        .counts = counts,
        .drops_countdown =
            g->request.host->config->chat.canonical_prompts == CONFIG_CANONICAL_CLAUDE_CODE,
    };

    return anthropic_body_read(g->body, &rules, &g->params, &g->conversation, &own->wishes,
                               problem);
}

static int messages_read(struct generation *g, struct problem *problem)
{
    return anthropic_read_body(g, false, problem);
}

static int count_read(struct generation *g, struct problem *problem)
{
    return anthropic_read_body(g, true, problem);
}

/* Refuses a prompt that is too long. The words of the error are Anthropic's, because agents look
 * for them, and then shorten the conversation. */
static int anthropic_too_long(const struct generation *g, struct problem *problem)
{
    const size_t max = generation_max_prompt(g);

    return problem_set(problem, 400, "context_length_exceeded", "messages",
                       "prompt is too long: at least %zu tokens > %zu maximum", max + 1, max);
}

static int messages_prepare(struct generation *g, struct problem *problem)
{
    const struct inf_chat_template *tmpl = inf_model_chat_template(g->resident->base.model);
    int r;

    if (tmpl && late_system_exists(&g->conversation) && !late_system_is_native(tmpl) &&
        late_system_merge(&g->conversation) < 0)
        return problem_no_memory(problem);
    r = conversation_prepare(g, problem);
    return r < 0 && strcmp(problem->code, "context_length_exceeded") == 0
               ? anthropic_too_long(g, problem)
               : r;
}

static int count_prepare(struct generation *g, struct problem *problem)
{
    const int r = messages_prepare(g, problem);

    if (r < 0)
        return r;
    return str_printf(&g->out, "{\"input_tokens\":%zu}", g->prompts[0].n_tokens) < 0
               ? problem_no_memory(problem)
               : 0;
}

static int event_open(struct generation *g, const char *name)
{
    return str_printf(&g->out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static int event_close(struct generation *g, int r)
{
    return r < 0 ? r : str_puts(&g->out, "}\n\n");
}

/* Writes the usage. @begins: no token was generated yet. */
static int usage_put(const struct generation *g, bool begins, struct str *out)
{
    struct usage u = generation_usage(g);

    if (begins)
        u.n_generated = u.n_reasoning = 0;
    return str_printf(out,
                      "{\"input_tokens\":%llu,\"cache_creation_input_tokens\":0,"
                      "\"cache_read_input_tokens\":%llu,\"output_tokens\":%llu,"
                      "\"output_tokens_details\":{\"thinking_tokens\":%llu}",
                      (unsigned long long)(u.n_prompt - u.n_cached), (unsigned long long)u.n_cached,
                      (unsigned long long)u.n_generated, (unsigned long long)u.n_reasoning);
}

/* Writes a message up to its content. */
static int message_open(const struct generation *g, struct str *out)
{
    int r = str_printf(
        out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", g->id);

    r = r < 0 ? r : json_put_text(out, g->resident->base.name);
    return r < 0 ? r : str_puts(out, ",\"content\":[");
}

/* Writes the rest of a message. @c is NULL if the answer has not ended. */
static int message_close(const struct generation *g, const struct choice *c, struct str *out)
{
    int r = str_puts(out, "],\"stop_reason\":");

    r = r < 0 ? r : json_put_text(out, c ? generation_finish_word(g, c) : NULL);
    r = r < 0 ? r : str_puts(out, ",\"stop_sequence\":");
    r = r < 0 ? r : json_put_text(out, c && c->finish == FINISH_STOP_TEXT ? c->stop_text : NULL);
    r = r < 0 ? r : str_puts(out, ",\"usage\":");
    r = r < 0 ? r : usage_put(g, !c, out);
    return r < 0 ? r : str_puts(out, ",\"service_tier\":\"standard\"}}");
}

static int stream_start(struct generation *g)
{
    struct anthropic_own *own = g->own;
    int r;

    if (own->started)
        return 0;
    r = event_open(g, "message_start");
    r = r < 0 ? r : str_puts(&g->out, ",\"message\":");
    r = r < 0 ? r : message_open(g, &g->out);
    r = r < 0 ? r : message_close(g, NULL, &g->out);
    own->started = r == 0;
    return event_close(g, r);
}

static int stream_begin_nothing(struct generation *g)
{
    (void)g;
    return 0;
}

static int stream_tokens(struct generation *g, struct choice *c, const struct inf_event *event)
{
    (void)c;
    return g->request.streaming && event->kind == INF_EVENT_TOKENS ? stream_start(g) : 0;
}

/* Opens the event of a delta, up to its text. @field is the name of the field with the text. */
static int delta_open(struct generation *g, const struct anthropic_block *b, const char *type,
                      const char *field)
{
    int r = event_open(g, "content_block_delta");

    return r < 0 ? r
                 : str_printf(&g->out, ",\"index\":%u,\"delta\":{\"type\":\"%s\",\"%s\":", b->index,
                              type, field);
}

static int delta_put(struct generation *g, const struct anthropic_block *b, const char *type,
                     const char *field, const char *text, size_t len)
{
    int r = delta_open(g, b, type, field);

    r = r < 0 ? r : json_put_string(&g->out, text, len);
    r = r < 0 ? r : str_putc(&g->out, '}');
    return event_close(g, r);
}

/* Ends the block of a stream, if there is one. Thinking gets a signature, because clients send
 * thinking back only if it has one. This service does not check signatures. */
static int block_stop(struct generation *g, struct anthropic_block *b)
{
    int r = 0;

    if (b->kind == BLOCK_NONE)
        return 0;
    if (b->kind == BLOCK_THINKING)
        r = delta_put(g, b, "signature_delta", "signature", g->id, strlen(g->id));
    b->kind = BLOCK_NONE;
    r = r < 0 ? r : event_open(g, "content_block_stop");
    r = r < 0 ? r : str_printf(&g->out, ",\"index\":%u", b->index);
    return event_close(g, r);
}

/* Begins a block, unless the current block has the same kind and can be continued. Each call is a
 * block of its own. */
static int block_start(struct generation *g, struct anthropic_block *b, enum block_kind kind,
                       const struct piece *piece)
{
    int r;

    if (b->kind == kind && kind != BLOCK_CALL)
        return 0;
    r = block_stop(g, b);
    b->kind = kind;
    b->index = b->n++;
    r = r < 0 ? r : event_open(g, "content_block_start");
    r = r < 0 ? r : str_printf(&g->out, ",\"index\":%u,\"content_block\":", b->index);
    if (r == 0 && kind == BLOCK_TEXT)
        r = str_puts(&g->out, "{\"type\":\"text\",\"text\":\"\"}");
    else if (r == 0 && kind == BLOCK_THINKING)
        r = str_puts(&g->out, "{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}");
    else if (r == 0) {
        r = str_puts(&g->out, "{\"type\":\"tool_use\",\"id\":");
        r = r < 0 ? r : json_put_text(&g->out, piece->id);
        r = r < 0 ? r : str_puts(&g->out, ",\"name\":");
        r = r < 0 ? r : json_put_string(&g->out, piece->text, piece->len);
        r = r < 0 ? r : str_puts(&g->out, ",\"input\":{}}");
    }
    return event_close(g, r);
}

static int stream_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    const struct anthropic_own *own = g->own;
    struct anthropic_block *b = c->own;
    int r = stream_start(g);

    if (r < 0)
        return r;
    switch (piece->kind) {
    case PIECE_TEXT:
        r = block_start(g, b, BLOCK_TEXT, piece);
        return r < 0 ? r : delta_put(g, b, "text_delta", "text", piece->text, piece->len);
    case PIECE_REASONING:
        r = block_start(g, b, BLOCK_THINKING, piece);
        if (r < 0 || own->wishes.hides_thinking)
            return r;
        return delta_put(g, b, "thinking_delta", "thinking", piece->text, piece->len);
    case PIECE_CALL:
        return block_start(g, b, BLOCK_CALL, piece);
    case PIECE_ARGUMENTS:
    case PIECE_INPUT:
        break;
    }
    return delta_put(g, b, "input_json_delta", "partial_json", piece->text, piece->len);
}

/* Ends the last block. message_delta follows in messages_end(), when the usage is known. */
static int stream_finish(struct generation *g, struct choice *c)
{
    int r;

    if (!g->request.streaming)
        return 0;
    r = stream_start(g);
    return r < 0 ? r : block_stop(g, c->own);
}

static int stream_end(struct generation *g)
{
    const struct choice *c = &g->choices[0];
    int r = event_open(g, "message_delta");

    r = r < 0 ? r : str_puts(&g->out, ",\"delta\":{\"stop_reason\":");
    r = r < 0 ? r : json_put_text(&g->out, generation_finish_word(g, c));
    r = r < 0 ? r : str_puts(&g->out, ",\"stop_sequence\":");
    r = r < 0 ? r : json_put_text(&g->out, c->finish == FINISH_STOP_TEXT ? c->stop_text : NULL);
    r = r < 0 ? r : str_puts(&g->out, "},\"usage\":");
    r = r < 0 ? r : usage_put(g, false, &g->out);
    r = event_close(g, r < 0 ? r : str_putc(&g->out, '}'));
    r = r < 0 ? r : event_open(g, "message_stop");
    return event_close(g, r);
}

/* Writes the input of a call. If the answer was cut within the call, the text of the arguments is
 * not an object, and this function writes {"INVALID_JSON":TEXT}. */
static int call_put_input(const struct made_call *call, struct str *out)
{
    const char *text = call->arguments.len ? call->arguments.data : "{}";
    const size_t len = call->arguments.len ? call->arguments.len : 2;
    _cleanup_json_ json_t *input = NULL;
    struct inf_err err = {};
    int r = json_parse(text, len, &input, &err);

    if (r == -ENOMEM)
        return r;
    if (r == 0 && json_is_object(input))
        return str_append(out, text, len);
    r = str_puts(out, "{\"INVALID_JSON\":");
    r = r < 0 ? r : json_put_string(out, text, len);
    return r < 0 ? r : str_putc(out, '}');
}

static int call_put(const struct made_call *call, struct str *out)
{
    int r = str_puts(out, "{\"type\":\"tool_use\",\"id\":");

    r = r < 0 ? r : json_put_text(out, call->id);
    r = r < 0 ? r : str_puts(out, ",\"name\":");
    r = r < 0 ? r : json_put_string(out, call->name.data ? call->name.data : "", call->name.len);
    r = r < 0 ? r : str_puts(out, ",\"input\":");
    r = r < 0 ? r : call_put_input(call, out);
    return r < 0 ? r : str_putc(out, '}');
}

static int thinking_put(const struct generation *g, const struct choice *c, struct str *out)
{
    const struct anthropic_own *own = g->own;
    const bool hidden = own->wishes.hides_thinking;
    int r = str_puts(out, "{\"type\":\"thinking\",\"thinking\":");

    r = r < 0
            ? r
            : json_put_string(out, hidden ? "" : c->reasoning.data, hidden ? 0 : c->reasoning.len);
    return r < 0 ? r : str_printf(out, ",\"signature\":\"%s\"}", g->id);
}

static int blocks_put(const struct generation *g, const struct choice *c, struct str *out)
{
    bool comma = false;
    int r = 0;

    if (c->reasoning.len) {
        r = thinking_put(g, c, out);
        comma = true;
    }
    if (r == 0 && c->text.len) {
        r = str_puts(out, comma ? ",{\"type\":\"text\",\"text\":" : "{\"type\":\"text\",\"text\":");
        r = r < 0 ? r : json_put_string(out, c->text.data, c->text.len);
        r = r < 0 ? r : str_putc(out, '}');
        comma = true;
    }
    for (size_t i = 0; i < c->n_calls && r == 0; i++) {
        r = comma ? str_putc(out, ',') : 0;
        r = r < 0 ? r : call_put(&c->calls[i], out);
        comma = true;
    }
    return r;
}

static int messages_end(struct generation *g)
{
    int r;

    if (g->request.streaming)
        return stream_end(g);
    r = message_open(g, &g->out);
    r = r < 0 ? r : blocks_put(g, &g->choices[0], &g->out);
    return r < 0 ? r : message_close(g, &g->choices[0], &g->out);
}

const struct chat_api api_anthropic_messages = {
    .id_prefix = "msg_",
    .prompt_field = "messages",
    .tool_schema = "input_schema",
    .finishes = {[FINISH_STOP] = "end_turn",
                 [FINISH_STOP_TEXT] = "stop_sequence",
                 [FINISH_LENGTH] = "max_tokens",
                 [FINISH_CALLS] = "tool_use"},
    .own_size = sizeof(struct anthropic_own),
    .choice_size = sizeof(struct anthropic_block),
    .read = messages_read,
    .prepare = messages_prepare,
    .stream_type = SSE_TYPE,
    .stream_pause = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    .begin = stream_begin_nothing,
    .tokens = stream_tokens,
    .piece = stream_piece,
    .finish = stream_finish,
    .end = messages_end,
};

const struct chat_api api_anthropic_count = {
    .id_prefix = "count_",
    .prompt_field = "messages",
    .tool_schema = "input_schema",
    .own_size = sizeof(struct anthropic_own),
    .computes_only = true,
    .read = count_read,
    .prepare = count_prepare,
};
