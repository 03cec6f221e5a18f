/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes prompts for filling in the text between a prefix and a suffix ("fill in the middle", FIM),
 * with the special tokens that the model was trained with. */

#include <infer/tokenizer.h>
#include <jansson.h>

#include "core/macros.h"

struct fim {
    int32_t prefix, suffix, middle; /* tokens before these parts; middle -1: the model has none */
    bool suffix_first;
};

/* Finds the tokens in the vocabulary. False: it has none, so the model cannot fill in. */
bool fim_find(const struct inf_tokenizer *tok, struct fim *ret_fim);
/* Makes the prompt. @prefix and @suffix are JSON strings; NULL: empty. Names of special tokens in
 * them are plain text. The caller frees *ret_tokens. -ENOMEM. */
int fim_encode(const struct inf_tokenizer *tok, const struct fim *fim, const json_t *prefix,
               const json_t *suffix, int32_t **ret_tokens, size_t *ret_n);
