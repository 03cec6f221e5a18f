/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes a directory in Hugging Face layout with the matrices in a format of MLX, or with the
 * integers of a quantized model in the layout of GPTQ or AWQ.
 *
 * The new directory is written as OUT.part and gets its name when it is complete. Each shard in it
 * is written as a part (part.h). The steps: dir-list.c lists the tensors of the model, or
 * dir-gguf.c those of a GGUF file, dir-choose.c chooses the format of each, dir-plan.c divides them
 * among shards, dir-files.c makes config.json and the other small files, and dir.c writes all of
 * it.
 */

#include <infer/convert.h>
#include <jansson.h>

#include "convert/encode.h"
#include "convert/mix.h"
#include "convert/part.h"
#include "convert/repack.h"
#include "core/arena.h"
#include "core/sha256.h"
#include "model/model.h"

/* ---- formats (dir-choose.c) ---- */

enum dir_layout { DIR_MLX, DIR_GPTQ, DIR_AWQ };

/* The format of a matrix. */
struct dir_form {
    enum inf_dtype dtype; /* a format of MLX; INF_DTYPE_INVALID: the matrix stays as it is */
    uint32_t group;
};

/* The type of a directory that the user chose. */
struct dir_type {
    enum dir_layout layout;
    struct dir_form form;
    struct dir_form high; /* of the tensors that matter more, in mixed recipes */
    bool mixed;
};

/* Finds a type by its name, in upper or lower case: "MLX" (matrices stay as they are), "GPTQ",
 * "AWQ", "MLX4" and others with 2 to 6 or 8 bits, "MLX4_G32" with groups of 32, "MLX_MXFP4",
 * "MLX_MIXED_2_6". Returns false if there is none. */
bool dir_type_find(const char *name, struct dir_type *ret);
/* Returns the name of type @i, without a group; NULL: there are no more. */
const char *dir_type_name(size_t i);

/* ---- tensors (dir-list.c) ---- */

struct dir_part {
    const char *name; /* of the tensor */
    const char *type; /* in the words of safetensors */
    uint64_t shape[FORMAT_MAX_DIMS];
    uint32_t n_dims;
    uint64_t size;
    uint64_t offset; /* in its shard, from the beginning of the file */
};

#define DIR_PARTS 4

/* A matrix, with its planes, or any other tensor. */
struct dir_entry {
    const char *name; /* of a matrix without ".weight" ("model.layers.0.mlp.up_proj"); otherwise of
                         the tensor */
    const struct format_tensor *raw; /* the tensor that can be copied; NULL: there is none */
    struct weight w;                 /* a matrix; otherwise data is NULL */
    bool quantized;                  /* the matrix is stored as codes */
    bool add_one;                    /* 1 is added to the numbers of the tensor */
    bool taps_last;                  /* a convolution, whose two last dimensions change places */
    bool small;                      /* a matrix that is not quantized, whatever the type says */
    bool vector;                     /* w is a vector */
    bool bare;                       /* the name of the tensor does not end with ".weight" */
    bool taps;                       /* a convolution that is made from a matrix */
    uint32_t paired; /* rows of a head, if the rows of each head are interleaved in the model, as in
                        GGUF files of Llama; 0: they are not */
    enum inf_dtype floats; /* the format of numbers that are floats in the new directory */
    /* The place of each row in the model, and the exchanges of columns (source_order_swaps());
     * NULL: the order is the same. If n_first is not 0, only the rows before n_first are in w, and
     * the others are in @more. */
    const uint32_t *rows, *columns;
    uint32_t n_first;
    struct weight more;

    /* Set by dir-choose.c. */
    struct dir_form to;   /* a format of MLX; INF_DTYPE_INVALID: the numbers stay floats */
    enum plane_type type; /* of the scales of an affine format */
    bool kept;            /* the codes are those of the model */
    struct repack repack; /* for matrices whose codes are kept in another layout */

    /* Set by dir-plan.c. */
    struct dir_part parts[DIR_PARTS]; /* [n_parts] */
    uint32_t n_parts;
    uint32_t shard;
};

struct dir_shard {
    char name[64];
    char *header; /* [header_size] */
    size_t header_size;
    uint64_t total;  /* bytes of the file */
    size_t first, n; /* its entries */
};

struct dir {
    const struct inf_convert_params *params;
    struct dir_type type;
    struct format *format;
    struct model *model;
    json_t *config; /* of the model, then of the new directory */
    struct arena arena;
    struct dir_entry *entries; /* [n] */
    size_t n, cap;
    struct dir_shard *shards; /* [n_shards] */
    size_t n_shards;
    char *index, *config_text; /* the small files */
    /* The files of the tokenizer that are made from the metadata of a GGUF file; NULL: they are
     * copied from the model's directory. */
    char *tokenizer_text, *tokenizer_config;
    enum inf_dtype floats; /* the format of floats that are made from a GGUF file */
    uint64_t total_size;   /* bytes of all tensors */
};

/* Opens the model and lists its tensors. -EOPNOTSUPP: the layout cannot hold it. */
int dir_list(struct dir *d, struct inf_err *reterr);
/* dir-gguf.c: makes config.json and the texts of the tokenizer from an opened GGUF file, and lists
 * its tensors. -EOPNOTSUPP: a directory cannot say what the file says. */
int dir_list_gguf(struct dir *d, struct inf_err *reterr);
/* dir-order.c: gives a weight of a recurrent layer the rows, columns and numbers that it has in
 * directories. @i_layer is its layer. -ENOMEM. */
int dir_order_entry(struct dir *d, const struct arch_slot *s, uint32_t i_layer,
                    struct dir_entry *e);
/* Adds an entry, and returns it; NULL: memory is short. The caller increments d->n. */
struct dir_entry *dir_entry_add(struct dir *d, const char *name);
/* Writes the name that a tensor has in the new directory; @name is its name in a directory. Returns
 * 0 or -EOVERFLOW. */
int dir_entry_name(const struct dir *d, const char *name, char *out, size_t size);
/* Returns the end of the name that mlx-lm gives the module with the matrices of all experts. @name
 * is the name of a matrix in a directory. */
const char *dir_switch_module(const struct dir *d, const char *name);
/* Chooses the format of each matrix. -EOPNOTSUPP: a matrix cannot be repacked without loss;
 * -EINVAL: a rule of the user is wrong. */
int dir_choose(struct dir *d, struct inf_err *reterr);
/* Names the new tensors, divides them among shards, and makes the headers and the index. */
int dir_plan(struct dir *d, struct inf_err *reterr);
/* Makes the text of the new config.json. */
int dir_make_config(struct dir *d, struct inf_err *reterr);
/* Writes config.json, the index, and copies of the tokenizer's and other small files to @to. */
int dir_write_files(const struct dir *d, const char *to, struct inf_err *reterr);

/* dir-encode.c: writes the tensors of an entry to its shard. */
int dir_write_entry(const struct dir *d, const struct dir_entry *e, struct encoder *encoder,
                    struct part *out, double *ret_error, struct inf_err *reterr);

/* Returns the row of the model for row @i of the new matrix, if the two halves of the rows of each
 * head are interleaved in the model. */
static inline uint32_t dir_paired_row(uint32_t i, uint32_t head)
{
    const uint32_t at = i % head, half = head / 2;

    return i - at + (at < half ? 2 * at : 2 * (at - half) + 1);
}

/* Returns the rows of all matrices of an entry. */
static inline uint64_t dir_rows(const struct dir_entry *e)
{
    return (uint64_t)e->w.rows * MAX(e->w.n_experts, 1u);
}

/* Returns the columns of a group of a matrix whose codes are kept; 0: all columns. */
static inline uint32_t dir_group(const struct dir_entry *e)
{
    return e->repack.group == e->w.cols ? 0 : e->repack.group;
}

/* dir.c: does what inf_convert() does, for these types. */
int dir_convert(const struct inf_convert_params *params, struct inf_convert_result *ret_result,
                struct inf_err *reterr);
