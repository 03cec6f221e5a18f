/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compiles and runs a small graph on a device, and checks its results.
 *
 * Checks of whole devices use backend_ops as the engine does: a graph is compiled, the rows of
 * several sequences are computed in steps, and the blocks of the KV store are scattered. Results
 * are compared with the formulas (bound.h). Rows that are computed several times, together with
 * different other rows, are compared bit for bit.
 */

#include "backend/backend.h"
#include "checkkern/devices/bound.h"
#include "checkkern/harness.h"

enum { BED_SEQS = 8, BED_BLOCKS = 96, BED_BLOCK_TOKENS = 64 };

/* Struct bed_seq holds a sequence: its inputs, its position, and its results. */
struct bed_seq {
    uint32_t n;            /* rows */
    const int32_t *tokens; /* [n] or NULL */
    const float *input;    /* [n, width of the input] or NULL */
    uint32_t n_done;
    uint32_t *blocks; /* of group 0, which is the first in the store */
    uint32_t n_blocks;
    uint32_t *lists[STATE_GROUPS_MAX]; /* the blocks of each group, for the next step */
    float *out;                        /* [n, width of the output] */
};

struct bed {
    struct check *c;
    struct backend *backend;
    const struct graph *g;
    struct kv_layout layout;
    struct plan_limits limits;
    struct kv_store *store;
    struct plan *plan;
    uint32_t width, input_width;
    uint32_t order[BED_BLOCKS], n_taken; /* all blocks, shuffled; blocks in use */
    int32_t *tokens;
    float *input, *out;
};

/* Compiles @g for steps of at most @max_rows. Returns false if this case is not part of the random
 * sample, or if the device does not support the graph; a graph that is not supported is reported.
 * @layout is NULL for graphs without attention. */
bool bed_init(struct bed *bed, struct check *c, const struct graph *g,
              const struct kv_layout *layout, uint32_t max_rows, uint32_t max_ctx);
void bed_done(struct bed *bed);
void bed_seq_init(struct bed *bed, struct bed_seq *s, const int32_t *tokens, const float *input,
                  uint32_t n);
/* Allocates separate results and lists for @s, a copy of another sequence. The copy keeps the
 * blocks. */
void bed_seq_alone(struct bed *bed, struct bed_seq *s);
void bed_seq_done(struct bed_seq *s);
/* Runs one step with @take[i] more rows of sequence i, and writes the results to `out` of the
 * sequences. */
void bed_step(struct bed *bed, struct bed_seq *seqs, uint32_t n_seqs, const uint32_t *take);
/* Computes a whole sequence from its start, in steps of at most @chunk rows. */
void bed_run(struct bed *bed, struct bed_seq *s, uint32_t chunk);
/* Computes the next @n rows as if they were at @pos, after the tokens in @blocks. */
void bed_far_step(struct bed *bed, struct bed_seq *s, const uint32_t *blocks, uint32_t pos,
                  uint32_t n);
/* Returns which numbers this device rounds when it computes steps of @n_rows rows. */
struct bound_rules bed_rules(const struct bed *bed, uint32_t n_rows);
/* Compares the results of a whole sequence with the formulas; reports differences under the name
 * @what. Returns the root mean square of (error / bound). */
double bed_compare(struct bed *bed, const struct bed_seq *s, const struct bound *b,
                   const char *what);
/* Compares one row with @expected. Messages about differences call the row @i of @what. */
double bed_compare_row(struct bed *bed, const float *row, const double *expected,
                       const double *errors, const char *what, size_t i);
/* Compares rows bit for bit. A difference is reported if the device must give the same bits, else
 * it is counted. */
void bed_same(struct bed *bed, const float *got, const float *expected, uint32_t n_rows,
              const char *what);

/* Computes all rows of one sequence at once, then a few at a time, then one by one, and compares
 * them with the formulas and with each other. @layout: as for bed_init(). @tokens, @input: as in
 * struct bed_seq. */
void bed_check(struct check *c, const struct graph *g, const struct kv_layout *layout,
               const int32_t *tokens, const float *input, uint32_t n, const char *what);

/* Holds numbers until the end of a case, which frees them. */
struct case_memory {
    struct guarded blocks[96];
    unsigned n;
};

/* Returns @size bytes that start @offset bytes after an address that is aligned to 64. */
void *case_bytes(struct case_memory *m, size_t size, size_t offset);
float *case_floats(struct check *c, struct case_memory *m, enum fill fill, size_t n);
/* Makes a matrix whose numbers are so small that products with rows of K normally distributed
 * numbers stay near 1. */
struct weight case_weight(struct check *c, struct case_memory *m, enum inf_dtype dtype,
                          uint32_t rows, uint32_t cols, size_t offset);
void case_done(struct check *c, struct case_memory *m);
