/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Models for vectors and for scores in memory, each with its embedder (see residents.h). */

#include <infer/embed.h>
#include <jansson.h>

#include "host/residents.h"

struct interaction;

struct embed_resident {
    struct resident base;
    enum inf_embed_kind kind;
    struct inf_embedder *embedder;
    json_t *prompts; /* config_sentence_transformers.json; NULL: the model has none */
    struct interaction *interaction;  /* NULL: texts are read as they are */
    bool matryoshka;                  /* beginnings of its vectors are vectors */
    struct inf_embedder_stats before; /* when speed was told last */
    double tok_s;
};

/* What embed_residents_ops.stats writes. */
struct embed_resident_stats {
    struct inf_embedder_stats embedder;
    double tok_s;
    uint32_t n_threads;
};

/* Their keys are enum inf_embed_kind. */
extern const struct residents_ops embed_residents_ops;

static inline struct embed_resident *embed_resident_of(const struct resident *resident)
{
    return (struct embed_resident *)(void *)resident;
}

/* Whether it ranks by vectors of single tokens, as models for late interaction do. Of one whose
 * model is open. */
bool embed_resident_ranks_by_rows(const struct embed_resident *resident);
/* Whether it is a decoder that is asked how well a document answers. The same. */
bool embed_resident_is_asked(const struct embed_resident *resident);
/* Tokens of a second over the last moments of work. */
double embed_resident_speed(struct embed_resident *resident);
