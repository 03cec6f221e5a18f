/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libinfer/grammar until that folder has a matcher: there are no grammars yet. */
#include <errno.h>

#include "grammar/matcher.h"

#pragma weak inf_grammar_ref
#pragma weak inf_grammar_unref
#pragma weak grammar_matcher_new
#pragma weak grammar_matcher_free
#pragma weak grammar_matcher_mask
#pragma weak grammar_matcher_accept
#pragma weak grammar_matcher_must_end

struct inf_grammar *inf_grammar_ref(struct inf_grammar *grammar)
{
    return grammar;
}

struct inf_grammar *inf_grammar_unref(struct inf_grammar *grammar UNUSED)
{
    return NULL;
}

int grammar_matcher_new(struct inf_grammar *grammar UNUSED,
                        struct grammar_matcher **ret_matcher UNUSED)
{
    return -ENOMEM;
}

struct grammar_matcher *grammar_matcher_free(struct grammar_matcher *m UNUSED)
{
    return NULL;
}

int grammar_matcher_mask(struct grammar_matcher *m UNUSED, uint32_t *ret_mask UNUSED)
{
    return -ENOMEM;
}

int grammar_matcher_accept(struct grammar_matcher *m UNUSED, int32_t token UNUSED)
{
    return -ENOMEM;
}

bool grammar_matcher_must_end(struct grammar_matcher *m UNUSED)
{
    return false;
}
