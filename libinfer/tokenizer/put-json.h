/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a tokenizer of a GGUF file as tokenizer.json. */

#include <infer/types.h>

struct inf_tokenizer;

/* Makes the texts of tokenizer.json and tokenizer_config.json, which the caller frees. @template:
 * the chat template, of @template_len bytes, or NULL. The tokens of sample texts are compared with
 * those of @tok. -EOPNOTSUPP: tokenizer.json cannot hold this tokenizer. */
int tokenizer_put_json(const struct inf_tokenizer *tok, const char *template, size_t template_len,
                       char **ret_json, char **ret_config, struct inf_err *reterr);
