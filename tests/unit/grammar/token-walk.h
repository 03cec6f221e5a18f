/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes random texts of a grammar, token by token, for tests. */

#include <infer/grammar.h>

#include "core/str.h"

/* Appends a random text: at most @n_tokens random tokens that the masks permit, and then the
 * shortest end, byte by byte, which the masks must permit too. Returns false if there is no end, or
 * if a mask permits a token that the matcher does not accept. */
bool token_walk(struct inf_grammar *grammar, uint64_t seed, size_t n_tokens, struct str *ret);
