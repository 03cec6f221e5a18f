/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the splitters that GGUF files name in tokenizer.ggml.pre.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "tokenizer/split.h"

enum pre_flags {
    PRE_IGNORE_MERGES = 1 << 0,
    PRE_ADD_BOS = 1 << 1,
    PRE_NO_BOS = 1 << 2,     /* the default id of BOS is ignored */
    PRE_RAW = 1 << 3,        /* pieces are UTF-8, not characters that represent bytes */
    PRE_ESCAPE = 1 << 4,     /* spaces are stored as U+2581 */
    PRE_NEWLINES = 1 << 5,   /* a run of newlines is a word that may be a piece */
    PRE_MASK_STRIP = 1 << 6, /* the token "<mask>" includes the white space before it */
};

/* Appends the steps of the splitter @name. -ENOTSUP: the name is unknown. */
int pre_find(const char *name, size_t len, struct splitter *s, unsigned *ret_flags,
             struct inf_err *reterr);
