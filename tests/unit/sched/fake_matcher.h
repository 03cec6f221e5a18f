/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Implements grammars for tests of the scheduler: a grammar is a list of texts, and the tokens are
 * those of fake_tokenizer.h. It replaces the library's functions in the program that links it.
 */

#include "grammar/matcher.h"

#define FAKE_MAX_TEXTS 8

struct inf_grammar {
    const char *texts[FAKE_MAX_TEXTS]; /* up to the first NULL */
    int mask_error;                    /* what masks fail with; 0: they do not fail */
    _Atomic int n_refs;                /* references of requests and matchers */
    _Atomic unsigned n_masks;          /* masks that were computed */
    unsigned mask_usec;                /* how long a mask takes */
};
