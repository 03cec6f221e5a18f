/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The texts of `sconce embed`, line by line: each line is a text, or JSON. */

#include <infer/types.h>
#include <stdio.h>

#include "core/str.h"

struct embed_line {
    uint64_t number; /* from 1 */
    char *text, *id; /* owned; text NULL: it cannot be used; id: of the object, as JSON, or NULL */
    char error[256]; /* why, when text is NULL */
};

struct embed_lines {
    FILE *file;
    const char *name; /* for messages; borrowed */
    bool json, own_file;
    const char *field;             /* of JSON objects that holds the text; borrowed */
    uint64_t number, n_read, size; /* bytes; size 0: unknown */
    char *buffer;
    size_t cap;
};

/* @name: a file, or "-". */
int embed_lines_open(struct embed_lines *lines, const char *name, bool json, const char *field,
                     struct inf_err *reterr);
void embed_lines_done(struct embed_lines *lines);
/* 1 and the line; 0 at the end; -EIO, -ENOMEM. */
int embed_lines_next(struct embed_lines *lines, struct embed_line *ret_line);
/* Passes over lines whose vectors are there already. */
int embed_lines_skip(struct embed_lines *lines, uint64_t n);
void embed_line_done(struct embed_line *line);
