/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares coded matrices: matrices whose codes, scales and zeros are tensors of their own, as the
 * programs that quantize models for Hugging Face store them.
 *
 * A weight is the value of its code, minus a zero, times a scale. A group of columns of a row
 * shares a scale and a zero. In the drawings N is the number of rows, K the number of columns, and
 * G the number of groups. A word has 32 bits; its first code is in its lowest bits.
 *
 *   GPTQ2, 3, 4, 8   codes [K × bits / 32][N] words: the codes of a row are a stream of bits that
 *   (GPTQ)           runs down a column of words. Zeros [G][N × bits / 32] words, scales [G][N]:
 *                    │ k 0 … 7, n 0 │ k 0 … 7, n 1 │ …   (4 bits)
 *                    │ k 8 … 15, n 0 │ …
 *                    Files of version 1 hold each zero minus 1, modulo 2^bits.
 *   AWQ4 (AWQ)       codes [K][N / 8] words, zeros [G][N / 8] words, scales [G][N]. The codes of a
 *                    word belong to its rows 0, 2, 4, 6, 1, 3, 5, 7, lowest bits first.
 *   CT4, CT8         codes [N][K × bits / 32] words, and 2^(bits - 1) is subtracted from codes and
 *   (compressed-     zeros. Zeros [N × bits / 32][G] words: a stream of bits runs down a column of
 *   tensors)         words. Scales [N][G].
 *   INT8             codes [N][K] and zeros [N][G], signed bytes; scales [N][G]
 *   FP8              codes [N][K], each an E4M3; scales [N / rows][G], for blocks of rows × columns
 *   CTFP4            codes [N][K / 2], two E2M1 in a byte, the first in its lower half; scales
 *                    [N][G], each an E4M3 divided by one factor of the matrix
 *   NF4              codes [N][K / 2], the first in the upper half of a byte; a code is an index in
 *   (bitsandbytes)   a table of 16 floats. Scales [N][G]
 *
 * A matrix of GPTQ or compressed-tensors may have an order: the columns of a group are then not
 * neighbors. order[j] is the column at place j, and the places from g × group on belong to group g.
 * Kernels multiply in the order of places, so they need rows of x in this order.
 *
 * Decoded weights are the exact value of the code times the scale, rounded once to a float. The
 * libraries above often compute in the type of the scales. Their weights are then these floats,
 * rounded to binary16 or bfloat16.
 */

#include <infer/types.h>

#include "core/macros.h"

struct coded {
    enum inf_dtype dtype;
    uint32_t rows, cols;
    const void *codes;
    const void *scales;
    const void *zeros;         /* NULL: coded_zero() returns 2^(bits - 1) */
    const uint32_t *order;     /* [cols], or NULL: column j is at place j */
    const float *table;        /* NF4: [16] */
    enum inf_dtype scale_type; /* F32, F16 or BF16; CTFP4: ignored, scales are E4M3 */
    uint32_t group;            /* columns that share a scale: a multiple of 16 */
    uint32_t group_rows;       /* rows that share a scale */
    uint32_t zero_add;         /* GPTQ: 1 in version 1, else 0 */
    float factor;              /* CTFP4: scales are divided by it; in other formats 1 */
};

/* Describes a format of coded matrices. */
struct coded_kind {
    unsigned bits; /* of a code; 0: the format is not one of coded matrices */
    bool by_place; /* rows of words belong to columns of the matrix: GPTQ and AWQ */
    bool has_zero; /* codes are integers, from which a zero is subtracted */
};

struct coded_kind coded_kind(enum inf_dtype dtype);
/* Returns the number of groups of a row. */
static inline uint32_t coded_groups(const struct coded *c)
{
    return DIV_UP(c->cols, c->group);
}

/* Returns whether all columns of a row share a scale, or groups are multiples of @n columns. */
static inline bool coded_has_groups(const struct coded *c, uint32_t n)
{
    return c->group % n == 0 || c->group == c->cols;
}

/* Return the parts of a weight: the integer code of row @n at column @k, as it is stored; the zero
 * that is subtracted from such codes; and the scale. @g is a group. */
unsigned coded_code(const struct coded *c, uint32_t n, uint32_t k);
unsigned coded_zero(const struct coded *c, uint32_t n, uint32_t g);
float coded_scale(const struct coded *c, uint32_t n, uint32_t g);
/* coded_has_zeros() returns whether all zeros are @zero. A matrix without zeros counts as having
 * the zero of a symmetric matrix everywhere. coded_scales_are_f16() returns whether all scales are
 * exact in binary16. */
bool coded_has_zeros(const struct coded *c, unsigned zero);
bool coded_scales_are_f16(const struct coded *c);

/* Decodes the weights at places @j … @j + @n_places - 1 of row @n. */
void coded_decode(const struct coded *c, uint32_t n, uint32_t j, uint32_t n_places, float *dst);
/* Decodes row @n, in the order of columns: cols floats. */
void coded_decode_row(const struct coded *c, uint32_t n, float *dst);
/* Returns the bytes of the scales and zeros. */
uint64_t coded_plane_bytes(const struct coded *c);
