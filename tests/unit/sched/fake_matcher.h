/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Implements grammars for tests of the scheduler: a grammar is a list of texts, and the tokens are
 * those of fake_tokenizer.h. In a program that links this implementation, its functions replace
 * those of the library.
 */

#include "grammar/matcher.h"

#define FAKE_MAX_TEXTS 8

struct inf_grammar {
    const char *texts[FAKE_MAX_TEXTS]; /* up to the first NULL */
    int mask_error;           /* the error with which computing a mask fails; 0: it does not fail */
    _Atomic int n_refs;       /* references of requests and matchers */
    _Atomic unsigned n_masks; /* masks that were computed */
    unsigned n_forced;        /* forced tokens that were found */
    unsigned mask_usec;       /* microseconds that computing a mask takes */
};
