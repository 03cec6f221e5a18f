/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes the output of `sconce embed`: lines of JSON, or a NumPy array (format 1.0).
 *
 * The output has one entry for each line of the input, in the same order. For a line that cannot be
 * used, the entry is an object with "error", or a row of NaN. While an output is not complete, the
 * file OUTPUT.part beside it records the input and options. If a later command has the same input
 * and options, it continues after the last complete entry.
 */

#include <infer/types.h>
#include <stdio.h>

#include "core/str.h"

struct embed_line;

struct embed_store {
    FILE *file;
    char *part; /* the path of OUTPUT.part; NULL: standard output */
    bool npy;
    uint32_t width;     /* numbers in a row; 0: not known yet */
    uint64_t n_rows;    /* rows written */
    uint64_t n_unsized; /* rows of NaN that cannot be written until the width is known */
};

/* Opens an output; @path: NULL for standard output. @work: one line that describes the input and
 * options. -EEXIST: the output exists and is complete, or its OUTPUT.part has another description.
 * With @anew, an existing output is replaced. */
int embed_store_open(struct embed_store *store, const char *path, const char *work, bool anew,
                     struct inf_err *reterr);
/* Struct embed_found is the result of one line. */
struct embed_found {
    const float *vectors; /* [n, width]; NULL: line->error has the reason */
    size_t n;             /* 1, unless they are token vectors */
    uint32_t width;
    bool of_tokens; /* token vectors; only lines of JSON can hold them */
};

/* Writes the result of a line. -EMSGSIZE: earlier rows had another width. */
int embed_store_put(struct embed_store *store, const struct embed_line *line,
                    const struct embed_found *found);
/* Appends the vectors as JSON: [0.1,0.2], or for token vectors [[0.1,0.2],[0.3,0.4]]. -ENOMEM. */
int embed_found_put(struct str *out, const struct embed_found *found);
/* Completes the output after all lines were written. */
int embed_store_finish(struct embed_store *store);
void embed_store_done(struct embed_store *store);
