/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the vectors of `sconce embed` go: lines of JSON, or an array of NumPy (format 1.0)
 *
 * Each line of the input has its place in the output, also one that could not be used: an object
 * with "error", or a row of NaN. Beside an output that is not complete lies OUTPUT.part, which says
 * what it is of; the same command goes on where it ended.
 */

#include <infer/types.h>
#include <stdio.h>

#include "core/str.h"

struct embed_line;

struct embed_store {
    FILE *file;
    char *part; /* the path of OUTPUT.part; NULL: standard output */
    bool npy;
    uint32_t width;     /* of a row; 0: not known yet */
    uint64_t n_rows;    /* that are there */
    uint64_t n_unsized; /* rows of NaN that wait for the width */
};

/* @path: NULL for standard output. @work: what makes the vectors, one line; an output of other work
 * is not continued: -EEXIST, unless @anew. */
int embed_store_open(struct embed_store *store, const char *path, const char *work, bool anew,
                     struct inf_err *reterr);
/* What came of a line. */
struct embed_found {
    const float *vectors; /* [n, width]; NULL: line->error says why there are none */
    size_t n;             /* 1, unless they are of tokens */
    uint32_t width;
    bool of_tokens; /* lines of JSON alone can hold them */
};

/* -EMSGSIZE: rows had another width before. */
int embed_store_put(struct embed_store *store, const struct embed_line *line,
                    const struct embed_found *found);
/* [0.1,0.2], or of tokens [[0.1,0.2],[0.3,0.4]]. -ENOMEM. */
int embed_found_put(struct str *out, const struct embed_found *found);
/* All lines were put: the output is complete. */
int embed_store_finish(struct embed_store *store);
void embed_store_done(struct embed_store *store);
