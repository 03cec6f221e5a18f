/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Random texts of a grammar, token by token, for tests. */

#include <infer/grammar.h>

#include "core/str.h"

/* Appends a random text: @n_tokens random tokens of the masks at most, and then the shortest end,
 * byte by byte, which the masks must permit as well. Returns false if there is no end, or if masks
 * and tokens contradict each other. */
bool token_walk(struct inf_grammar *grammar, uint64_t seed, size_t n_tokens, struct str *ret);
