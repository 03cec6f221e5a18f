/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Struct embed_resident is a model in memory that makes vectors or scores, with its embedder (see
 * residents.h). */

#include <infer/embed.h>
#include <jansson.h>

#include "host/residents.h"

struct interaction;

struct embed_resident {
    struct resident base;
    enum inf_embed_kind kind;
    struct inf_embedder *embedder;
    json_t *prompts; /* config_sentence_transformers.json; NULL: the model has none */
    struct interaction *interaction;  /* NULL: no late interaction */
    bool matryoshka;                  /* its vectors may be shortened */
    struct inf_embedder_stats before; /* statistics when the speed was last computed */
    double tok_s;
};

/* The function embed_residents_ops.stats fills this structure. */
struct embed_resident_stats {
    struct inf_embedder_stats embedder;
    double tok_s;
    uint32_t n_threads;
};

/* The key of residents_want() points to an enum inf_embed_kind. */
extern const struct residents_ops embed_residents_ops;

static inline struct embed_resident *embed_resident_of(const struct resident *resident)
{
    return CONTAINER_OF(resident, struct embed_resident, base);
}

/* Returns whether the model, which must be open, ranks by vectors of single tokens, as models for
 * late interaction do. */
bool embed_resident_ranks_by_rows(const struct embed_resident *resident);
/* Returns whether the model, which must be open, is a decoder that ranks by answering a
 * question. */
bool embed_resident_is_asked(const struct embed_resident *resident);
/* Returns the tokens per second during recent work. */
double embed_resident_speed(struct embed_resident *resident);
