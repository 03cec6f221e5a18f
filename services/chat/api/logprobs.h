/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes log-probabilities in the formats of /v1/chat/completions and /v1/completions. */

#include <infer/engine.h>

#include "core/str.h"

struct inf_tokenizer;

/* Writes the object {"token","logprob","bytes","top_logprobs"} of one token of a chat answer. */
int logprobs_put_chat(struct str *out, const struct inf_tokenizer *tok,
                      const struct inf_token_logprob *token);
/* Like logprobs_put_chat(), and each token also has its id, as llama-server writes it. */
int logprobs_put_llama(struct str *out, const struct inf_tokenizer *tok,
                       const struct inf_token_logprob *token);
/*
 * An answer of /v1/completions has four parallel arrays. The first four fields hold the elements of
 * these arrays so far, separated by commas. Offsets count code points of the choice's text.
 */
struct logprobs_legacy {
    struct str *tokens, *token_logprobs, *top_logprobs, *text_offset;
    int32_t *offset; /* of the next token; -1: this token begins with a space before the text */
    bool show_special;
};
/* Appends one token to the arrays. */
int logprobs_add_legacy(struct logprobs_legacy *l, const struct inf_tokenizer *tok,
                        const struct inf_token_logprob *token);
/* Writes the object with the four arrays. */
int logprobs_put_legacy(struct str *out, const struct logprobs_legacy *l);
