/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of source.h. */

#include "convert/source.h"
#include "core/arena.h"
#include "format/gguf/gguf.h"

struct model;

struct source {
    struct gguf *gguf; /* the file, or only the metadata */
    /* A directory; else NULL. */
    struct format *format;
    struct model *model;
    struct arena arena; /* names and vectors */
    char *meta;         /* [meta_size]: the memory of gguf */
    size_t meta_size;
    char arch[64];
    struct source_tensor *tensors; /* [n] */
    size_t n;
};

/* Returns the place, before the conversion, of row @i of a head of @head rows: rows 2k and 2k + 1
 * come from row k of the first and of the second half. The places of other heads follow in the same
 * way. */
static inline uint32_t source_paired(uint32_t i, uint32_t head)
{
    const uint32_t at = i % head;

    return i - at + at % 2 * (head / 2) + at / 2;
}

/* Open a model of each kind. @s is zeroed. If a function fails, the caller frees @s. */
int source_open_gguf(struct source *s, const char *path, struct inf_err *reterr);
int source_open_model(struct source *s, const char *path, struct inf_err *reterr);
