/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The rows of one step
 *
 * Rows of one sequence lie together, in order of position. Everything is borrowed for the time of
 * one run.
 */

#include <stddef.h>
#include <stdint.h>

struct batch_seq {
    uint32_t i_row;  /* first row */
    uint32_t n_rows; /* tokens of this sequence in this step, at least one */
    uint32_t pos;    /* position of the first row; positions below it are in the KV store */
    uint32_t n_blocks;
    const uint32_t *blocks; /* KV blocks that cover positions 0 … pos + n_rows - 1 */
    /* Of graphs whose rows see both sides: rows behind the first n_seen are seen by none, and see
     * these alone. 0: all rows are seen. */
    uint32_t n_seen;
    /* Of graphs that attend to it: KV blocks of which the first n_memory tokens, at least one, are
     * seen by all rows. */
    const uint32_t *memory;
    uint32_t n_memory;
};

struct batch {
    uint32_t n_rows;
    const int32_t *tokens; /* [n_rows] */
    uint32_t n_seqs;
    const struct batch_seq *seqs;
    uint32_t n_logits;
    const uint32_t *logit_rows; /* [n_logits], ascending: rows whose logits are wanted */
    const float *input;         /* [n_rows, width] for graphs with GRAPH_INPUT, else NULL */
    const uint8_t *types;       /* [n_rows] for graphs that embed them; NULL: all are 0 */
    /* [n_rows], the rows of tables that are named by position; NULL: 0, 1, … of each sequence */
    const uint32_t *positions;
    /* NULL, or where the scores of heads i_kept … i_kept + n_kept - 1 of those that a graph keeps
     * go: row r of head h at r × kept_row + h × kept_head, the first kept_tokens of the memory. */
    float *kept;
    uint32_t i_kept, n_kept, kept_tokens;
    size_t kept_row, kept_head;
};
