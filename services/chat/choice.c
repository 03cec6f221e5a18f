/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the text of one answer into pieces, collects the pieces if the answer is not streamed, and
 * counts tokens. */
#include "chat/choice.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"

static int choice_add_call(struct choice *c, const struct piece *piece)
{
    struct made_call *call;

    if (ARRAY_GROW_ZEROED(c->calls, c->calls_cap, c->n_calls + 1) < 0)
        return -ENOMEM;
    call = &c->calls[c->n_calls++];
    call->is_custom = piece->is_custom;
    call->id = strdup(piece->id);
    return call->id ? str_append(&call->name, piece->text, piece->len) : -ENOMEM;
}

/* Collects a piece of an answer that is not streamed. */
static int choice_add(struct choice *c, const struct piece *piece)
{
    switch (piece->kind) {
    case PIECE_CALL:
        return choice_add_call(c, piece);
    case PIECE_ARGUMENTS:
    case PIECE_INPUT:
        return str_append(&c->calls[c->n_calls - 1].arguments, piece->text, piece->len);
    case PIECE_REASONING:
        return str_append(&c->reasoning, piece->text, piece->len);
    case PIECE_TEXT:
        break;
    }
    return str_append(&c->text, piece->text, piece->len);
}

static int choice_take_piece(void *data, const struct piece *piece)
{
    struct choice *c = data;
    struct generation *g = c->generation;

    return g->request.streaming || g->api->takes_pieces ? g->api->piece(g, c, piece)
                                                        : choice_add(c, piece);
}

int choice_init(struct choice *c, struct generation *g, uint32_t index, struct prompt *prompt)
{
    *c = (struct choice){.generation = g, .index = index, .prompt = prompt};
    reply_parser_init(&c->parser, &g->reply, (struct piece_sink){choice_take_piece, c});
    c->own = calloc(1, MAX(g->api->choice_size, (size_t)1));
    return c->own ? 0 : -ENOMEM;
}

/* Follows the lines of the text. Returns how many of the @len bytes come before the first line
 * whose indentation is smaller than the request permits. */
static size_t choice_follow(struct choice *c, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n') {
            c->has_new_line = true;
            c->in_line = false;
            c->n_line_spaces = 0;
        } else if (!c->in_line && (text[i] == ' ' || text[i] == '\t')) {
            c->n_line_spaces++;
        } else if (!c->in_line) {
            c->in_line = true;
            if (c->has_new_line && c->n_line_spaces < c->generation->params.n_indent)
                return i;
        }
    }
    return len;
}

static bool choice_is_late(const struct choice *c)
{
    const uint64_t most = c->generation->params.max_predict_usec;

    return most && c->has_new_line && c->prompt->computed_usec &&
           c->last_usec - c->prompt->computed_usec > most;
}

/* Ends the text of a choice, and the texts of the other choices of the same prompt. */
static void choice_cut(struct choice *c)
{
    c->is_cut = c->prompt->is_cut = true;
    inf_engine_cancel(c->generation->resident->engine, c->prompt->engine_id);
}

int choice_take(struct choice *c, const struct inf_event *event)
{
    const struct piece whole = {.kind = PIECE_TEXT,
                                .text = event->text,
                                .len = choice_follow(c, event->text, event->text_len)};
    const bool was_thinking = reply_parser_is_thinking(&c->parser);
    int r;

    if (whole.len < event->text_len || choice_is_late(c))
        choice_cut(c);
    if (reply_is_plain(&c->generation->reply))
        return whole.len ? choice_take_piece(c, &whole) : 0;
    r = whole.len ? reply_parser_feed(&c->parser, whole.text, whole.len) : 0;
    if (was_thinking || reply_parser_is_thinking(&c->parser))
        c->n_reasoning += (uint32_t)event->n_tokens;
    return r;
}

void choice_note_time(struct choice *c, const struct inf_event *event)
{
    const uint64_t now = clock_usec();
    struct prompt *prompt = c->prompt;

    if (!prompt->computed_usec) {
        prompt->computed_usec = prompt->progress_usec = now;
        prompt->n_processed = prompt->n_tokens - prompt->n_cached;
        c->generation->chat->stats.prompt_seconds += (double)(now - prompt->start_usec) / 1e6;
    }
    if (event->kind == INF_EVENT_TOKENS) {
        c->last_usec = now;
        c->n_generated = event->n_generated;
        c->n_accepted = event->n_draft_accepted;
        c->n_rejected = event->n_draft_rejected;
    }
}

int choice_end(struct choice *c)
{
    const bool is_cut = c->finish == FINISH_LENGTH;
    const struct piece stop = {
        .kind = PIECE_TEXT, .text = c->stop_text, .len = c->stop_text ? strlen(c->stop_text) : 0};
    int r = 0;

    if (!reply_is_plain(&c->generation->reply))
        r = reply_parser_finish(&c->parser, is_cut);
    if (r == 0 && stop.len && c->generation->params.shows_stop)
        r = choice_take_piece(c, &stop);
    if (!is_cut && reply_parser_has_calls(&c->parser))
        c->finish = FINISH_CALLS;
    return r;
}

void choice_done(struct choice *c)
{
    if (c->own && c->generation->api->choice_done)
        c->generation->api->choice_done(c);
    for (size_t i = 0; i < c->n_calls; i++) {
        free(c->calls[i].id);
        str_done(&c->calls[i].name);
        str_done(&c->calls[i].arguments);
    }
    free(c->calls);
    free(c->own);
    str_done(&c->text);
    str_done(&c->reasoning);
    reply_parser_done(&c->parser);
}

static void choice_add_usage(struct usage *usage, const struct choice *c)
{
    usage->n_generated += c->n_generated;
    usage->n_reasoning += c->n_reasoning;
    usage->n_accepted += c->n_accepted;
    usage->n_rejected += c->n_rejected;
}

struct usage generation_usage(const struct generation *g)
{
    struct usage usage = {};

    for (size_t i = 0; i < g->n_prompts; i++) {
        usage.n_prompt += g->prompts[i].n_tokens;
        usage.n_cached += g->prompts[i].n_cached;
    }
    for (size_t i = 0; i < g->n_choices; i++)
        choice_add_usage(&usage, &g->choices[i]);
    return usage;
}

void generation_numbers(const struct model_request *request, uint64_t numbers[HISTORY_NUMBERS])
{
    const struct generation *g = CONTAINER_OF(request, struct generation, request);
    const struct usage usage = generation_usage(g);

    numbers[HISTORY_PROMPT] = usage.n_prompt;
    numbers[HISTORY_CACHED] = usage.n_cached;
    numbers[HISTORY_GENERATED] = usage.n_generated;
    if (!g->first_usec)
        return;
    numbers[HISTORY_FIRSTS] = 1;
    numbers[HISTORY_FIRST_USEC] = numbers[HISTORY_FIRST_MAX] = g->first_usec - request->start_usec;
    numbers[HISTORY_NEXT] = usage.n_generated > g->n_choices ? usage.n_generated - g->n_choices : 0;
    numbers[HISTORY_GENERATE_USEC] = clock_usec() - g->first_usec;
}
