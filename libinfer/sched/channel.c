/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches the tokens that begin and end a channel: the part of a text in which the model reasons
 * (struct inf_channel).
 *
 * Only the tokens of the list `lead` may stand before the tokens that begin the part. So after one
 * mismatch the text has no such part. The tokens that end the part can come anywhere, and are
 * matched with the Knuth-Morris-Pratt algorithm.
 */
#include "sched/channel.h"

#include <errno.h>
#include <string.h>

static uint32_t advance_close(const struct channel *c, uint32_t k, int32_t token)
{
    while (k > 0 && (k == c->n_close || c->close[k] != token))
        k = c->failure[k - 1];
    return k + (c->close[k] == token);
}

static void copy_tokens(int32_t **at, int32_t **ret_copy, const int32_t *tokens, size_t n)
{
    *ret_copy = *at;
    if (n > 0)
        memcpy(*at, tokens, n * sizeof(*tokens));
    *at += n;
}

int channel_init(struct channel *c, const struct inf_channel *in)
{
    const bool own = in->n_forced > 0; /* the engine writes these tokens instead of `close` */
    const int32_t *forced = own ? in->forced : in->close;
    const size_t n_forced = own ? in->n_forced : in->n_close;
    int32_t *at;

    *c = (struct channel){0};
    if (in->n_close == 0)
        return 0;
    assert(in->n_open <= CHANNEL_MAX_MARK && in->n_close <= CHANNEL_MAX_MARK);
    assert(n_forced <= CHANNEL_MAX_FORCED && in->n_lead <= CHANNEL_MAX_MARK);
    at = NEW(int32_t, in->n_open + in->n_close + n_forced + in->n_lead);
    c->failure = NEW(uint32_t, in->n_close);
    if (!at || !c->failure) {
        free(at);
        free(STEAL(c->failure));
        return -ENOMEM;
    }
    copy_tokens(&at, &c->open, in->open, in->n_open);
    copy_tokens(&at, &c->close, in->close, in->n_close);
    copy_tokens(&at, &c->forced, forced, n_forced);
    copy_tokens(&at, &c->lead, in->lead, in->n_lead);
    c->n_open = (uint32_t)in->n_open;
    c->n_close = (uint32_t)in->n_close;
    c->n_forced = (uint32_t)n_forced;
    c->n_lead = (uint32_t)in->n_lead;
    c->budget = in->budget;
    c->is_open = in->is_open;
    c->beside_length = in->beside_length;
    for (uint32_t i = 1; i < c->n_close; i++)
        c->failure[i] = advance_close(c, c->failure[i - 1], c->close[i]);
    return 0;
}

void channel_done(struct channel *c)
{
    free(c->open);
    free(c->failure);
    *c = (struct channel){0};
}

void channel_start(const struct channel *c, struct channel_state *ret_state)
{
    *ret_state = (struct channel_state){.place = CHANNEL_BEHIND};
    if (c->open)
        ret_state->place = c->is_open      ? CHANNEL_INSIDE
                           : c->n_open > 0 ? CHANNEL_BEFORE
                                           : CHANNEL_BEHIND;
}

int32_t channel_forced(const struct channel *c, const struct channel_state *state)
{
    if (state->place != CHANNEL_INSIDE)
        return -1;
    if (state->n_written > 0)
        return c->forced[state->n_written];
    if (state->n_inside < c->budget)
        return -1;
    /* If the model has begun to write the end, the engine only completes it. */
    return state->n_matched > 0 ? c->close[state->n_matched] : c->forced[0];
}

static bool is_lead(const struct channel *c, int32_t token)
{
    for (uint32_t i = 0; i < c->n_lead; i++)
        if (c->lead[i] == token)
            return true;
    return false;
}

/* Takes a token that may be one of the tokens that begin the part. */
static enum channel_token take_open(const struct channel *c, struct channel_state *state,
                                    int32_t token)
{
    if (token != c->open[state->n_matched]) {
        if (state->n_matched == 0 && is_lead(c, token))
            return CHANNEL_TEXT;
        *state = (struct channel_state){.place = CHANNEL_BEHIND};
        return CHANNEL_TEXT;
    }
    state->n_tokens = ++state->n_matched;
    if (state->n_matched == c->n_open) {
        state->place = CHANNEL_INSIDE;
        state->n_matched = 0;
    }
    return CHANNEL_MARK;
}

enum channel_token channel_take(const struct channel *c, struct channel_state *state, int32_t token)
{
    const bool is_full = state->n_inside >= c->budget;

    if (state->place == CHANNEL_BEHIND)
        return CHANNEL_TEXT;
    if (state->place == CHANNEL_BEFORE)
        return take_open(c, state, token);
    state->n_tokens++;
    if (is_full && (state->n_written > 0 || state->n_matched == 0)) {
        if (++state->n_written == c->n_forced)
            state->place = CHANNEL_BEHIND;
        return CHANNEL_MARK;
    }
    state->n_inside += !is_full;
    state->n_matched = advance_close(c, state->n_matched, token);
    if (state->n_matched == c->n_close)
        state->place = CHANNEL_BEHIND;
    return state->n_matched > 0 ? CHANNEL_MARK : CHANNEL_THOUGHT;
}
