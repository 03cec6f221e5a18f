/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The decoder on a backend: memories of windows, and texts about them
 *
 * Memories and texts are tables of one pool of blocks. Texts of several windows are computed
 * together, and texts about one window share its memory, and blocks where they began alike.
 */

#include "backend/backend.h"
#include "backend/reformat.h"
#include "kv/pool.h"
#include "model/whisper.h"

struct decode_params {
    struct backend *backend;
    const struct whisper_decoder *decoder;
    struct whisper_heads kept; /* masks NULL: scores are never asked for */
    uint32_t n_audio;          /* rows that the encoder makes of a window */
    uint32_t max_memories, max_texts;
    uint32_t max_rows, max_logits; /* of a step */
    enum codec codec;
    /* Of what makes memories: copies in the format that the backend multiplies fastest; NULL: they
     * are used as they are. Outlives the decoder. */
    struct reformat *weights;
};

struct decode {
    struct decode_params params;
    struct kv_pool *pool;
    struct plan *memory_plan, *plan;
    struct batch_seq *seqs; /* [max_texts] */
    int32_t *tokens;        /* [max_rows] */
    uint32_t *logit_rows;   /* [max_logits] */
    int32_t *zeros;         /* [n_audio] */
};

/* -EOPNOTSUPP with the reason, -ENOMEM. @d is zeroed; decode_done() also after a failure. */
int decode_init(struct decode *d, const struct decode_params *params, struct inf_err *reterr);
void decode_done(struct decode *d);

/* Empty tables, for memories and texts. -ENOMEM. */
int decode_memory_init(struct decode *d, struct kv_table *memory);
int decode_text_init(struct decode *d, struct kv_table *text);
/* Makes @memory that of a window of which the encoder made @rows, [n_audio, n_embd]. As the
 * backend's run(). */
int decode_remember(struct decode *d, struct kv_table *memory, const float *rows);

/* A text and what it goes on with. */
struct decode_item {
    struct kv_table *text;
    const struct kv_table *memory;
    const int32_t *tokens;
    uint32_t n_tokens;
    uint32_t n_logits;     /* rows whose logits are wanted: of the last tokens */
    int32_t i_first_logit; /* one more, before these; < 0: none */
};

/* Where scores go, as struct batch has it. */
struct decode_scores {
    float *kept;
    uint32_t i_kept, n_kept, kept_tokens;
    size_t kept_row, kept_head;
};

/* One step of @n texts: their tables grow by their tokens. @logits: rows in the order of the items,
 * of an item in that of its tokens. @scores: NULL, or for the rows in the same order. As the
 * backend's run(). */
int decode_run(struct decode *d, const struct decode_item *items, uint32_t n, float *logits,
               const struct decode_scores *scores);
