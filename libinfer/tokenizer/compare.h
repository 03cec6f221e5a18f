/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Compares two tokenizers, of which one was made from the other. */

#include <infer/tokenizer.h>

/* Encodes sample texts with both. Returns 0 if the tokens are equal, and -EOPNOTSUPP if they
 * differ; or an error of encoding. */
int tokenizer_compare(const struct inf_tokenizer *a, const struct inf_tokenizer *b);
