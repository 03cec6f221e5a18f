/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs Whisper's decoder on a backend. The decoder writes texts for windows of 30 s.
 *
 * A memory is the keys and values that the decoder computes once for a window. Memories and texts
 * are tables in one pool of blocks. Texts of several windows are computed together. Texts of one
 * window share the memory of the window, and the blocks of the tokens with which all these texts
 * begin.
 */

#include "backend/backend.h"
#include "backend/reformat.h"
#include "kv/pool.h"
#include "model/whisper.h"

struct decode_params {
    struct backend *backend;
    const struct whisper_decoder *decoder;
    struct whisper_heads kept; /* masks is NULL: scores are never requested */
    uint32_t n_audio;          /* rows that the encoder gives per window */
    uint32_t max_memories, max_texts;
    uint32_t max_rows, max_logits; /* per step */
    enum codec codec;
    /* Copies of the weights that compute memories, in the backend's fastest format; NULL: the
     * original weights are used. The copies must outlive the decoder. */
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

/* Compiles the decoder. -EOPNOTSUPP with the reason, -ENOMEM. @d must be zeroed. Call decode_done()
 * also after a failure. */
int decode_init(struct decode *d, const struct decode_params *params, struct inf_err *reterr);
void decode_done(struct decode *d);

/* Initialize empty tables, for memories and texts. -ENOMEM. */
int decode_memory_init(struct decode *d, struct kv_table *memory);
int decode_text_init(struct decode *d, struct kv_table *text);
/* Computes the memory of a window from @rows, [n_audio, n_embd], the encoder's output. Errors are
 * those of the backend's run(). */
int decode_remember(struct decode *d, struct kv_table *memory, const float *rows);

/* A text and the tokens to append to it. */
struct decode_item {
    struct kv_table *text;
    const struct kv_table *memory;
    const int32_t *tokens;
    uint32_t n_tokens;
    uint32_t n_logits;     /* logits are requested for this many of the last tokens */
    int32_t i_first_logit; /* index of a token before the last n_logits tokens whose logits are
                              requested, too; < 0: none */
};

/* The place to write attention scores to, as in struct batch. */
struct decode_scores {
    float *kept;
    uint32_t i_kept, n_kept, kept_tokens;
    size_t kept_row, kept_head;
};

/* Runs one step of @n texts, whose tables grow by the tokens of the items. @logits: rows in the
 * order of the items, and within an item in the order of its tokens. @scores: NULL, or where to
 * write the scores of the rows of all tokens, in the same order. Errors are those of the backend's
 * run(). */
int decode_run(struct decode *d, const struct decode_item *items, uint32_t n, float *logits,
               const struct decode_scores *scores);
