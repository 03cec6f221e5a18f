/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Binds the weights of Whisper under the names of Hugging Face or those of OpenAI. */

#include "core/arena.h"
#include "model/whisper.h"

#define WHISPER_NORM_EPS 1e-5f

struct whisper_binder {
    struct arena *arena; /* for copies */
    const struct whisper_source *src;
    struct inf_err *err;
};

/* The names of one weight in the two kinds of file. */
struct whisper_names {
    const char *openai, *hugging_face;
};

/* One row of a table of a block's weights. A weight with one row is a vector. */
struct whisper_slot {
    struct whisper_names names;
    size_t offset; /* offset of the struct weight in the block */
    uint32_t rows, cols;
};

static inline const char *whisper_name(const struct whisper_binder *b,
                                       const struct whisper_names *names)
{
    return b->src->hugging_face ? names->hugging_face : names->openai;
}

/* Finds a tensor. -EBADMSG: it is missing; -EOPNOTSUPP: its number format is not supported. */
int whisper_find(struct whisper_binder *b, const char *name, const struct format_tensor **ret);
/* Reports that tensor @name has a wrong shape. Returns -EBADMSG. */
int whisper_misshapen(struct whisper_binder *b, const char *name);
/* Converts the @n values of a tensor to floats in the arena; NULL if memory is short. */
float *whisper_floats(struct whisper_binder *b, const struct format_tensor *t, uint64_t n);
/* Binds a vector of @n values; further dimensions of 1 are ignored. */
int whisper_bind_vector(struct whisper_binder *b, const char *name, uint32_t n, struct weight *ret);
int whisper_bind_matrix(struct whisper_binder *b, const char *name, uint32_t rows, uint32_t cols,
                        struct weight *ret);
/* Binds all of @slots, named PREFIX.@i.NAME, into @block. */
int whisper_bind_slots(struct whisper_binder *b, const struct whisper_names *prefix, uint32_t i,
                       const struct whisper_slot *slots, size_t n, void *block);
