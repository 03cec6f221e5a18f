/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Follows the part of a text in which the model reasons (struct inf_channel), and ends this part
 * when its budget is used up.
 *
 * The place of a text tells where the text ends: before the part, until the tokens that begin the
 * part are complete; inside of the part, until the tokens that end it are complete; or after the
 * part. All decisions depend only on the tokens of the text.
 */

#include <infer/engine.h>

#include "core/macros.h"

#define CHANNEL_MAX_MARK   256u  /* limit of the tokens that precede, begin or end the part */
#define CHANNEL_MAX_FORCED 4096u /* limit of the tokens that the engine writes */

/* A copy of struct inf_channel. */
struct channel {
    int32_t *open, *close, *forced, *lead; /* one allocation, which begins at open; NULL: no part */
    uint32_t n_open, n_close, n_forced, n_lead;
    uint32_t *failure; /* [n_close], Knuth-Morris-Pratt failure function of close */
    uint32_t budget;
    bool is_open, beside_length;
};

enum channel_place {
    CHANNEL_BEHIND,
    CHANNEL_BEFORE,
    CHANNEL_INSIDE,
};

/* The place of one text. */
struct channel_state {
    enum channel_place place;
    uint32_t n_matched; /* how many of the first tokens of `open` (before) or `close` (inside) end
                           the text now */
    uint32_t n_inside;  /* tokens that count against the budget */
    uint32_t n_written; /* number of tokens of forced that the text already has */
    uint32_t n_tokens;  /* all tokens of the part so far */
};

/* Copies @in, which must be valid (asserted). -ENOMEM. */
int channel_init(struct channel *c, const struct inf_channel *in);
void channel_done(struct channel *c);

void channel_start(const struct channel *c, struct channel_state *ret_state);
/* Returns the token that must come next; -1: any token may. */
int32_t channel_forced(const struct channel *c, const struct channel_state *state);

/* The part of the text that a token belongs to. */
enum channel_token {
    CHANNEL_TEXT,    /* the token is outside of the part */
    CHANNEL_THOUGHT, /* the token is inside of the part */
    CHANNEL_MARK,    /* the token is one of those that begin or end the part */
};

/* Appends a token to the text. */
enum channel_token channel_take(const struct channel *c, struct channel_state *state,
                                int32_t token);
