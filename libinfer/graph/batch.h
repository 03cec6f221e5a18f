/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rows of one step
 *
 * The rows of one sequence are adjacent and in order of position. All pointers are borrowed for one
 * run.
 */

#include <stddef.h>
#include <stdint.h>

struct batch_seq {
    uint32_t i_row;  /* first row */
    uint32_t n_rows; /* tokens of this sequence in this step, at least one */
    uint32_t pos;    /* position of the first row; earlier positions are in the KV cache */
    uint32_t n_blocks;
    const uint32_t *blocks; /* KV blocks that cover positions 0 … pos + n_rows - 1 */
    /* For graphs with bidirectional attention: no row attends to the rows behind the first n_seen,
     * and those rows attend only to the first n_seen. 0: all rows are visible. */
    uint32_t n_seen;
    /* For graphs that attend to a memory: KV blocks. All rows attend to the first n_memory tokens
     * in them, at least one. */
    const uint32_t *memory;
    uint32_t n_memory;
};

struct batch {
    uint32_t n_rows;
    const int32_t *tokens; /* [n_rows] */
    uint32_t n_seqs;
    const struct batch_seq *seqs;
    uint32_t n_logits;
    const uint32_t *logit_rows; /* [n_logits], ascending: rows whose logits are requested */
    const float *input;         /* [n_rows, width] for graphs with GRAPH_INPUT, else NULL */
    const uint8_t *types;       /* [n_rows] token types, for graphs that embed them; NULL: all
                                   are 0 */
    /* [n_rows] rows of the tables that are looked up by position; NULL: 0, 1, … in each sequence */
    const uint32_t *positions;
    /* Output for attention scores, or NULL. It receives heads i_kept … i_kept + n_kept - 1 of those
     * whose scores the graph keeps. Row r of head h is written at r × kept_row + h × kept_head; it
     * has the scores of the first kept_tokens tokens of the memory. */
    float *kept;
    uint32_t i_kept, n_kept, kept_tokens;
    size_t kept_row, kept_head;
};
