/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Log-probabilities in the shapes of the two generating endpoints. */

#include <infer/engine.h>

#include "core/str.h"

struct inf_tokenizer;
struct choice;

/* {"token","logprob","bytes","top_logprobs"} of one token of a chat answer. */
int logprobs_put_chat(struct str *out, const struct inf_tokenizer *tok,
                      const struct inf_token_logprob *token);
/*
 * Legacy completions keep four arrays side by side: these are the elements so far, separated by
 * commas. Offsets count code points of the choice's text.
 */
struct logprobs_legacy {
    struct str *tokens, *token_logprobs, *top_logprobs, *text_offset;
    int32_t *offset; /* negative: a space that the text does not begin with */
    bool show_special;
};
int logprobs_add_legacy(struct logprobs_legacy *l, const struct inf_tokenizer *tok,
                        const struct inf_token_logprob *token);
/* The object made of them. */
int logprobs_put_legacy(struct str *out, const struct logprobs_legacy *l);
