/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the input of `sconce embed`: lines of text, or lines of JSON. */

#include <infer/types.h>
#include <stdio.h>

#include "core/str.h"

struct embed_line {
    uint64_t number; /* from 1 */
    char *text, *id; /* text and id are owned. text NULL: the line cannot be used. id: the id in the
                        line's object, as JSON; NULL: none */
    char error[INF_ERR_BYTES]; /* the reason, if text is NULL */
};

struct embed_lines {
    FILE *file;
    const char *name; /* for messages; borrowed */
    bool json, own_file;
    const char *field;     /* member of JSON objects that holds the text; borrowed */
    uint64_t number;       /* lines read so far */
    uint64_t n_read, size; /* number of bytes that were read so far, and of bytes in the file; 0:
                              not known */
    char *buffer;
    size_t cap;
};

/* Opens a file, or standard input if @name is "-". */
int embed_lines_open(struct embed_lines *lines, const char *name, bool json, const char *field,
                     struct inf_err *reterr);
void embed_lines_done(struct embed_lines *lines);
/* Reads a line; returns 1, 0 at the end of the input, -EIO or -ENOMEM. */
int embed_lines_next(struct embed_lines *lines, struct embed_line *ret_line);
/* Skips lines that already have vectors in the output. */
int embed_lines_skip(struct embed_lines *lines, uint64_t n);
void embed_line_done(struct embed_line *line);
