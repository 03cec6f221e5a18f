/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The splitters that GGUF files name in tokenizer.ggml.pre.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "tokenizer/split.h"

enum pre_flags {
    PRE_IGNORE_MERGES = 1 << 0,
    PRE_ADD_BOS = 1 << 1,
    PRE_NO_BOS = 1 << 2,     /* ignore the default id of BOS */
    PRE_RAW = 1 << 3,        /* pieces are UTF-8, not characters that represent bytes */
    PRE_ESCAPE = 1 << 4,     /* spaces are U+2581 */
    PRE_NEWLINES = 1 << 5,   /* runs of newlines are words that may be pieces */
    PRE_MASK_STRIP = 1 << 6, /* "<mask>" includes the space before it */
};

/* Appends the steps of splitter @name. -ENOTSUP: unknown name. */
int pre_find(const char *name, size_t len, struct splitter *s, unsigned *ret_flags,
             struct inf_err *reterr);
