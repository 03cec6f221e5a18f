/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a model of tests/golden/embed, and the vectors or scores that another implementation
 * computes for a few texts. */

#include <infer/embed.h>

enum { EMBED_CASE_TEXTS = 8, EMBED_CASE_TOKENS = 128, EMBED_CASE_WIDTH = 64 };

struct embed_case {
    char path[4096];
    enum inf_embed_kind kind;
    size_t n, width;
    uint32_t max_tokens; /* 0: the file does not give it */
    struct inf_embed_text texts[EMBED_CASE_TEXTS];
    int32_t ids[EMBED_CASE_TEXTS][EMBED_CASE_TOKENS];
    uint8_t types[EMBED_CASE_TEXTS][EMBED_CASE_TOKENS];
    char tasks[EMBED_CASE_TEXTS][32]; /* "": the request names no task */
    float want[EMBED_CASE_TEXTS][EMBED_CASE_WIDTH];
};

/* Reads texts and expected results from @file in the directory of the model; most are in
 * "case.json". */
void embed_case_read(struct embed_case *g, const char *name, const char *file);
void embed_case_open(struct embed_case *g, const char *name);
struct inf_model *embed_case_model(const struct embed_case *g);
/* Makes an embedder of the kind of the case. @batch: the tokens of a batch; 0: the default. */
struct inf_embedder *embed_case_embedder(const struct embed_case *g, struct inf_model *model,
                                         const char *isa, uint32_t n_threads, uint32_t batch,
                                         bool exact);
