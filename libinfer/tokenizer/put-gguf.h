/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a tokenizer as the keys of a GGUF file. */

#include <infer/tokenizer.h>

#include "format/gguf/out.h"

/* Adds the keys tokenizer.ggml.* of a tokenizer, for a model with @n_vocab rows in its embedding;
 * rows without a token get tokens that are not used. The keys are read again, and the tokenizer
 * that they describe must give the same tokens for sample texts. -EOPNOTSUPP: no keys describe such
 * a tokenizer. */
int tokenizer_put_gguf(const struct inf_tokenizer *tok, uint32_t n_vocab, struct gguf_out *w,
                       struct inf_err *reterr);
