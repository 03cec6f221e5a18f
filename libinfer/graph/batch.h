/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines a batch: the rows of one step. A row is one token of one sequence.
 *
 * The rows of one sequence are adjacent and in order of position. The memory that all pointers
 * point to belongs to the caller, and must stay valid until the step has been run.
 */

#include <stddef.h>
#include <stdint.h>

#include "graph/state.h"

struct batch_seq {
    uint32_t i_row;  /* first row */
    uint32_t n_rows; /* tokens of this sequence in this step, at least one */
    uint32_t pos;    /* position of the first row; earlier positions are in the KV cache */
    uint32_t n_blocks;
    /* For each group of the state (graph/state.h), numbers of blocks of the store. FULL and WINDOW:
     * [n_blocks] KV blocks that cover the positions 0 … pos + n_rows - 1; blocks that no row of
     * the step sees may have any number. RECURRENT: [1] the block with the state, which the step
     * changes. If pos is 0, its content is ignored, and the state begins with zeros. */
    const uint32_t *blocks[STATE_GROUPS_MAX];
    /* The last n_drafted rows, but not all rows, are guessed tokens. The recurrent state does not
     * include them after the step: what it needs of them is written to the blocks drafted[group]
     * [STATE_GROUPS_MAX] of the RECURRENT groups, and the backend can add them to the state
     * (accept(), backend/backend.h). */
    uint32_t n_drafted;
    const uint32_t *drafted;
    /* For graphs with bidirectional attention: all rows of the sequence attend only to its first
     * n_seen rows in the batch. 0: they attend to all its rows. */
    uint32_t n_seen;
    /* For graphs that attend to a memory, that is, to K and V that an earlier step stored
     * (attn_params): the KV blocks of the memory, in the group of the node. All rows attend to the
     * first n_memory tokens of the memory; n_memory is at least 1. */
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
    float *exported;            /* output [n_rows or n_logits, width] for graphs with GRAPH_EXPORT;
                                   NULL: it is not needed */
    const uint8_t *types;       /* [n_rows] token types, for graphs that embed them; NULL: all
                                   are 0 */
    /* [n_rows] for graphs that embed positions: the row of the table that each row reads; NULL: the
     * row with the number of its position in the sequence */
    const uint32_t *positions;
    /* Output for attention scores, or NULL. The heads whose scores the graph can give are counted
     * over all layers (attn_params); the output receives the scores of heads i_kept …
     * i_kept + n_kept - 1 of this count. The scores of row r for the h-th received head (from 0)
     * are written at r × kept_row + h × kept_head; they are the scores of the first kept_tokens
     * tokens of the memory.
     */
    float *kept;
    uint32_t i_kept, n_kept, kept_tokens;
    size_t kept_row, kept_head;
};
