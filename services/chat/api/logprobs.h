/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes log-probabilities in the formats of /v1/chat/completions, /v1/completions and
 * llama-server. */

#include "chat/generation.h"

enum logprobs_form {
    LOGPROBS_CHAT,       /* {"token","logprob","bytes","top_logprobs"} */
    LOGPROBS_LLAMA,      /* the same with the id of the token */
    LOGPROBS_LLAMA_POST, /* {"id","token","prob","bytes","top_probs"}, with probabilities */
};

/* Writes the object of one token. */
int logprobs_put_token(struct str *out, const struct inf_tokenizer *tok,
                       const struct inf_token_logprob *token, enum logprobs_form form);
/* Appends one object to @out for each token of an event. The objects have the form LOGPROBS_CHAT
 * and are separated by commas. Does nothing if the request does not ask for probabilities. */
int logprobs_add_event(const struct generation *g, const struct inf_event *event, struct str *out);
/*
 * An answer of /v1/completions has four parallel arrays. The first four fields hold the elements of
 * these arrays so far, separated by commas. Offsets count code points of the choice's text.
 */
struct logprobs_legacy {
    struct str *tokens, *token_logprobs, *top_logprobs, *text_offset;
    int32_t *offset; /* offset of the next token; -1: this token begins with a space that the text
                        lacks */
    bool show_special;
};
/* Appends one token to the arrays. */
int logprobs_add_legacy(struct logprobs_legacy *l, const struct inf_tokenizer *tok,
                        const struct inf_token_logprob *token);
/* Writes the object with the four arrays. */
int logprobs_put_legacy(struct str *out, const struct logprobs_legacy *l);
