/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /api/chat, as in Ollama's API.
 *
 * A call of a tool is sent as a whole, when its arguments are complete.
 */
#include <errno.h>
#include <string.h>

#include "chat/api/ollama-answer.h"
#include "chat/api/ollama-body.h"
#include "chat/template.h"

/* Makes the answer continue the last message if this message is the assistant's and has no
 * calls. */
static void chat_continue(struct conversation *c)
{
    const struct message *last = c->n_messages ? &c->messages[c->n_messages - 1] : NULL;

    c->continues = last && last->role == ROLE_ASSISTANT && !last->n_calls;
}

static int chat_read(struct generation *g, struct problem *problem)
{
    static const char *const fields[] = {"messages", "tools", NULL};
    int r = ollama_read(g, fields, problem);

    if (r == 0)
        r = ollama_conversation_read(g->body, &g->params.tools, &g->conversation, problem);
    if (r == 0 && !g->conversation.n_messages)
        ollama_only_loads(g);
    if (r == 0)
        chat_continue(&g->conversation);
    return r;
}

static int chat_prepare(struct generation *g, struct problem *problem)
{
    static const char empty[] = "\"message\":{\"role\":\"assistant\",\"content\":\"\"}";
    const struct ollama_own *own = g->own;

    ollama_begin_prepare(g);
    if (own->loads)
        return ollama_put_loaded(g, empty) < 0 ? problem_no_memory(problem) : 0;
    return conversation_prepare(g, problem);
}

/* Writes a line of a stream. */
static int put_line(struct generation *g, struct choice *c, const struct ollama_message *message)
{
    struct ollama_choice *own = c->own;
    int r = ollama_put_head(g);

    r = r < 0 ? r : str_puts(&g->out, ",\"message\":");
    r = r < 0 ? r : ollama_put_message(&g->out, message);
    r = r < 0 ? r : ollama_put_logprobs(g, &own->logprobs);
    return r < 0 ? r : str_puts(&g->out, ",\"done\":false}\n");
}

/* Sends the call whose arguments have been collected. */
static int send_call(struct generation *g, struct choice *c)
{
    struct ollama_choice *own = c->own;
    const struct ollama_message message = {.calls = &own->call, .n_calls = 1};
    int r;

    if (!own->has_call)
        return 0;
    own->has_call = false;
    r = put_line(g, c, &message);
    free(own->call.id);
    own->call.id = NULL;
    str_clear(&own->call.name);
    str_clear(&own->call.arguments);
    return r;
}

static int begin_call(struct generation *g, struct choice *c, const struct piece *piece)
{
    struct ollama_choice *own = c->own;
    int r = send_call(g, c);

    if (r < 0)
        return r;
    own->call.id = strdup(piece->id);
    own->has_call = true;
    return own->call.id ? str_append(&own->call.name, piece->text, piece->len) : -ENOMEM;
}

static int chat_piece(struct generation *g, struct choice *c, const struct piece *piece)
{
    const struct http_text text = {piece->text, piece->len};
    struct ollama_choice *own = c->own;
    struct ollama_message message = {};
    int r;

    switch (piece->kind) {
    case PIECE_CALL:
        return begin_call(g, c, piece);
    case PIECE_ARGUMENTS:
    case PIECE_INPUT:
        return str_append(&own->call.arguments, piece->text, piece->len);
    case PIECE_REASONING:
        message.thinking = text;
        break;
    case PIECE_TEXT:
        message.content = text;
        break;
    }
    r = send_call(g, c);
    return r < 0 ? r : put_line(g, c, &message);
}

static int chat_finish(struct generation *g, struct choice *c)
{
    return g->request.streaming ? send_call(g, c) : 0;
}

static int chat_end(struct generation *g)
{
    struct choice *c = &g->choices[0];
    struct ollama_choice *own = c->own;
    /* In a stream, the texts of the choice are empty. */
    const struct ollama_message message = {
        .content = {c->text.data, c->text.len},
        .thinking = {c->reasoning.data, c->reasoning.len},
        .calls = c->calls,
        .n_calls = c->n_calls,
    };
    int r = ollama_put_head(g);

    r = r < 0 ? r : str_puts(&g->out, ",\"message\":");
    r = r < 0 ? r : ollama_put_message(&g->out, &message);
    r = r < 0 ? r : ollama_put_logprobs(g, &own->logprobs);
    return r < 0 ? r : ollama_put_end(g, NULL);
}

const struct chat_api api_ollama_chat = {
    OLLAMA_SHARED,
    /* These members differ from those of /api/generate. */
    .id_prefix = "chat-",
    .prompt_field = "messages",
    .read = chat_read,
    .prepare = chat_prepare,
    .tokens = ollama_tokens,
    .piece = chat_piece,
    .finish = chat_finish,
    .end = chat_end,
};
