/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Describes number formats with planes: separate arrays of codes, of scales, and of zeros.
 *
 * The codes of a weight are one array, and each plane is another. The elements of a plane belong to
 * groups of neighboring columns of a row, or there is one element for the whole matrix. The table
 * in dtype.c has a struct planes_info for each of these formats. Beside it, only the decoder of a
 * format, its kernels, and the reader that finds its tensors depend on the name of the format.
 */

#include <stdbool.h>
#include <stdint.h>

/* The arrays that a format can have beside its codes. */
enum weight_plane {
    WEIGHT_SCALES,
    WEIGHT_ZEROS, /* what is added to the products of codes and scales of a group */
    WEIGHT_PLANES,
};

/* The ways in which the elements of the planes of scales and zeros are stored. */
enum plane_type {
    PLANE_F32,
    PLANE_F16,
    PLANE_BF16,
    PLANE_E8M0, /* 2^(byte - 127); 255 is infinity, as in mlx 0.32 */
    PLANE_E4M3, /* a sign, 4 bits of exponent with a bias of 7, and 3 bits of fraction, without
                   infinity; 0x7f and 0xff are NaN */
    PLANE_TYPES,
};

/* Returns the bytes of an element of a plane. */
static inline uint32_t plane_bytes(enum plane_type type)
{
    return type == PLANE_F32 ? 4 : type == PLANE_F16 || type == PLANE_BF16 ? 2 : 1;
}

/* Converts element @i of a plane to float. */
float plane_get(enum plane_type type, const void *plane, uint64_t i);
/* Sets element @i of a plane of F32, F16 or BF16, rounded to nearest. */
void plane_put(enum plane_type type, void *plane, uint64_t i, float x);

/* Describes the place of a row of a weight in memory. */
struct plane_row {
    const uint8_t *codes;                 /* of the stored row */
    const uint8_t *planes[WEIGHT_PLANES]; /* of the row; elements of the whole matrix if it has no
                                             groups; NULL: the format does not have this plane */
    enum plane_type type;                 /* of scales and zeros */
    uint32_t group;                       /* columns that share an element; 0: all */
    uint32_t place;                       /* of the row in the stored row (struct planes_info) */
};

struct planes_info {
    uint32_t bits;   /* of a code */
    uint32_t needed; /* the planes that a weight has: bits 1 << WEIGHT_… */
    uint32_t types;  /* the types that scales can have: bits 1 << PLANE_… */
    /* A group is a multiple of @group columns, and at most @group_most (0: of any size). If @group
     * is 0, the planes have one element for the whole matrix. */
    uint32_t group, group_most;
    /* The number of rows of a matrix that share a stored row. In a matrix of n rows, these are the
     * rows i, i + n / places, i + 2 n / places, …; they have the places 0, 1, 2, … in the stored
     * row. */
    uint32_t places;
    bool affine; /* a weight is scale × code + zero, where zero has the type of the scale */
    bool steps;  /* struct weight.row_step can be greater than 1 */
    /* Decodes @n weights of a row, a multiple of the group. No pointer needs alignment. */
    void (*decode)(const struct plane_row *row, float *dst, uint64_t n);
};
