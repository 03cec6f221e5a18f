/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the internals of source.h. */

#include "convert/source.h"
#include "core/arena.h"
#include "format/gguf/gguf.h"
#include "model/slots.h"

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
    bool tiled; /* the new file has value heads in the order of Qwen 3.5 (source-order.c) */
    struct source_tensor *tensors; /* [n] */
    size_t n;
};

/* The elements of a weight that belong to value heads: those from @first on, @head for each. */
struct value_heads {
    uint32_t first, head;
    bool columns;
};

/* source-order.c: finds the order of the weight of a slot in a layer. -ENOMEM. */
int source_order(struct source *s, enum slot slot, uint32_t i_row, const struct weight *w,
                 struct source_order *ret, struct inf_err *reterr);
/* Turns an order of @n columns into a list of exchanges: column k changes places with column
 * list[k] ≥ k, for all k one after the other. -ENOMEM. */
int source_order_swaps(uint32_t *order, uint32_t n, struct inf_err *reterr);
/* Finds the elements of a weight of a recurrent layer that belong to value heads. Returns false if
 * it has none. */
bool source_value_heads(const struct hparams_delta *d, enum slot slot, struct value_heads *ret);
/* Finds the rows of SLOT_DELTA_QKVZ that are gates, or if @gate is false, all other rows. *ret_n:
 * the number of these rows. -ENOMEM. */
int source_order_delta(struct source *s, bool gate, uint32_t *ret_n, struct source_order *ret,
                       struct inf_err *reterr);
/* Adds rows of zeros after @n rows. -ENOMEM. */
int source_order_pad(struct source *s, uint32_t n, uint32_t n_padded, struct source_order *ret,
                     struct inf_err *reterr);

/* Open a model of each kind. @s is zeroed. If a function fails, the caller frees @s. */
int source_open_gguf(struct source *s, const char *path, struct inf_err *reterr);
int source_open_model(struct source *s, const char *path, struct inf_err *reterr);
