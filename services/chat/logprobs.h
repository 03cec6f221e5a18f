/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Log-probabilities in the formats of the two generating endpoints */

#include <infer/engine.h>

#include "core/str.h"

struct inf_tokenizer;
struct choice;

/* Writes {"token","logprob","bytes","top_logprobs"} of one token of a chat answer. */
int logprobs_put_chat(struct str *out, const struct inf_tokenizer *tok,
                      const struct inf_token_logprob *token);
/*
 * Legacy completions have four parallel arrays. These are their elements so far, separated by
 * commas. Offsets count code points of the choice's text.
 */
struct logprobs_legacy {
    struct str *tokens, *token_logprobs, *top_logprobs, *text_offset;
    int32_t *offset; /* negative after a leading space that is not part of the text */
    bool show_special;
};
int logprobs_add_legacy(struct logprobs_legacy *l, const struct inf_tokenizer *tok,
                        const struct inf_token_logprob *token);
/* Writes the object with the four arrays. */
int logprobs_put_legacy(struct str *out, const struct logprobs_legacy *l);
