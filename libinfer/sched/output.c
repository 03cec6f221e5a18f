/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the output text of a choice.
 *
 * A choice is one answer to a request. Positions count bytes from the beginning of the choice's
 * whole text, no matter how much of it has already been sent. So tokens, held text and stop strings
 * use the same positions.
 */
#include "sched/output.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"

/* Bytes of text for which memory is reserved at the start. */
#define USUAL_BYTES 255

static int reserve_token(struct output *o)
{
    const int r = ARRAY_GROW(o->tokens, o->tokens_cap, o->n_tokens + 1u);

    return r < 0 ? r : ARRAY_GROW(o->top, o->top_cap, (size_t)o->tokens_cap * o->top_stride);
}

int output_init(struct output *o, const struct output_params *params)
{
    const struct stop_set *stops = params->stops;
    int r;

    *o = (struct output){.stops = stops, .top_stride = params->n_top};
    o->stop_state = NEW(uint32_t, stops->n);
    if (!o->stop_state)
        return -ENOMEM;
    if (str_reserve(&o->held, USUAL_BYTES) < 0 || reserve_token(o) < 0)
        return -ENOMEM;
    r = inf_detok_new(params->tok, params->show_special, &o->detok);
    if (r == 0 && params->n_shown > 0)
        r = inf_detok_show(o->detok, params->shown, params->n_shown);
    return r < 0 ? r : inf_detok_prime(o->detok, params->prompt, params->n_prompt);
}

void output_done(struct output *o)
{
    o->detok = inf_detok_free(o->detok);
    free(o->stop_state);
    str_done(&o->held);
    free(o->tokens);
    free(o->top);
    *o = (struct output){0};
}

/* Removes all text after the position @end, and the tokens of this text, from the output. */
static void cut_text(struct output *o, uint64_t end)
{
    o->held.len = (size_t)(end - o->base);
    while (o->n_tokens > 0 && o->tokens[o->n_tokens - 1].begin >= end)
        o->n_tokens--;
    for (uint32_t i = 0; i < o->n_tokens; i++)
        o->tokens[i].end = MIN(o->tokens[i].end, end);
}

/* Appends text from the detokenizer. Returns 0, OUTPUT_STOPPED or -ENOMEM. */
static int add_text(struct output *o, const char *text, size_t len, uint32_t *ret_stop)
{
    const uint64_t begin = o->base + o->held.len;
    struct stop_match match;

    if (str_append(&o->held, text, len) < 0)
        return -ENOMEM;
    if (!o->searches) {
        o->final = o->base + o->held.len;
        return 0;
    }
    if (stop_set_scan(o->stops, o->stop_state, text, len, &match)) {
        cut_text(o, begin + match.end - match.len);
        o->final = o->base + o->held.len;
        o->ended = true;
        *ret_stop = match.i_stop;
        return OUTPUT_STOPPED;
    }
    o->final = o->base + o->held.len - stop_set_held(o->stops, o->stop_state);
    return 0;
}

int output_push(struct output *o, const struct output_token *token,
                const struct inf_top_logprob *top, bool search, uint32_t *ret_stop)
{
    const uint64_t begin = o->base + o->held.len;
    const char *text;
    size_t len;
    int r;

    assert(!o->ended && token->n_top <= o->top_stride);
    o->searches |= search;
    r = reserve_token(o);
    if (r < 0)
        return r;
    r = inf_detok_push(o->detok, token->token, &text, &len);
    if (r < 0)
        return r;
    if (token->n_top > 0)
        memcpy(o->top + (size_t)o->n_tokens * o->top_stride, top, token->n_top * sizeof(*top));
    o->tokens[o->n_tokens] = *token;
    o->tokens[o->n_tokens].begin = begin;
    o->tokens[o->n_tokens++].end = begin + len;
    return add_text(o, text, len, ret_stop);
}

int output_end(struct output *o, uint32_t *ret_stop)
{
    const char *text;
    size_t len;
    int r;

    if (o->ended)
        return 0;
    r = inf_detok_flush(o->detok, &text, &len);
    if (r < 0)
        return r;
    r = add_text(o, text, len, ret_stop);
    if (r != 0)
        return r;
    o->final = o->base + o->held.len;
    o->ended = true;
    return 0;
}

bool output_ready(const struct output *o, struct output_part *ret_part)
{
    struct output_part part = {
        .text = o->held.data ? o->held.data : "",
        .len = (size_t)(o->final - o->base),
        .tokens = o->tokens,
        .top = o->top,
    };

    while (part.n_tokens < o->n_tokens && (o->ended || o->tokens[part.n_tokens].end <= o->final))
        part.n_tokens++;
    if (part.len == 0 && (!o->ended || part.n_tokens == 0))
        return false;
    *ret_part = part;
    return true;
}

void output_drop(struct output *o, const struct output_part *part)
{
    const uint32_t left = o->n_tokens - part->n_tokens;

    if (part->len > 0)
        memmove(o->held.data, o->held.data + part->len, o->held.len - part->len);
    o->held.len -= part->len;
    o->base += part->len;
    if (left > 0)
        memmove(o->tokens, o->tokens + part->n_tokens, left * sizeof(*o->tokens));
    if (left > 0 && o->top_stride > 0)
        memmove(o->top, o->top + (size_t)part->n_tokens * o->top_stride,
                (size_t)left * o->top_stride * sizeof(*o->top));
    o->n_tokens = left;
}
