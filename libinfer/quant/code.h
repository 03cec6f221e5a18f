/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes rotated heads of keys and values as codes with scales (struct codec_info), and reads
 * them.
 *
 * A head is a string of codes, and then floats that are stored as F16: a scale for each group of
 * elements, and, if the format has offsets, an offset for each group. The value of an element is
 * level × scale, or level × scale + offset.
 *
 * Codes of 4, 2 and 1 bits are packed in runs of 16 bytes. Byte i of a run has the codes of the
 * elements i, 16 + i, 32 + i and so on, the first one in the lowest bits. A run has 32, 64 or 128
 * elements. Codes of 3 bits are packed in runs of 128 elements and 48 bytes. Byte i of the run has
 * the codes of the elements i and 48 + i, each in the lower three bits of one half of the byte. The
 * top bits of the halves hold the codes of the last 32 elements. For i < 16, bit j of the code of
 * element 96 + i is the top bit of the lower half of byte 16 j + i, and bit j of the code of
 * element 112 + i is the top bit of the upper half of this byte.
 *
 * Codes of 5 and 6 bits are packed in runs of 128 or 64 elements. A run has the lowest 4 bits of
 * the codes, packed like codes of 4 bits, and then the other bits, packed in 16 bytes like codes of
 * 1 or 2 bits.
 *
 * Formats with a residual (the transform QJL of TurboQuant, Zandieh et al. 2025) have one bit less
 * for each code. The difference between the head and its levels is a vector r. Its signs are
 * changed by a second code_signs(), and it is rotated. One bit for each element is the sign of the
 * result, 1 for positive; these bits are packed like codes of one bit, after all codes. A second
 * F16 factor of the head is ‖r‖ √(π / 2d), where d is the number of elements. The factor × the
 * signs stand for the rotated r, with no error on average over all signs.
 *
 * All functions are plain C with a fixed order of operations, so heads of the same bits get the
 * same codes on all instruction sets.
 */

#include "quant/codec.h"

/* A group with a smaller scale counts as zero, or as its offset. */
#define CODE_TINY 0x1p-100f
/* The largest number of elements of a head. */
#define CODE_HEAD_MAX 4096u
/* The seeds of code_signs() for formats that change signs: of the head, and of the residual. */
#define CODE_SEED          42u
#define CODE_RESIDUAL_SEED 43u

/* Returns the bits of a code of @codec, without the bit of the residual. */
uint32_t code_bits(enum codec codec);
/* Returns the code of element @d in the packed codes @bytes. @n_bits: of a code. */
uint32_t code_at(const uint8_t *bytes, uint32_t n_bits, uint32_t d);
/* Changes the signs of some of the @n elements: those for which the random bits are 1. Bit i of the
 * random numbers of splitmix64 with this seed, which have 64 bits each, belongs to element i. */
void code_signs(float *x, uint32_t seed, uint32_t n);
/*
 * Encodes the rotated head @x of @n elements. Writes codec_code_bytes() bytes and codec_scalars()
 * floats that are exact in F16. If a group contains NaN or infinity, or its scale overflows, its
 * scale is NaN and its codes are undefined. For formats with a residual, writes what the codes
 * leave over to the @n elements of @ret_rest. The caller changes their signs (code_signs()),
 * rotates them and passes them to code_residual(). For other formats @ret_rest may be NULL.
 */
void code_encode(enum codec codec, uint8_t *bytes, float *scalars, const float *x, uint32_t n,
                 float *ret_rest);
/* Encodes the residual @rest, after the caller has changed its signs and rotated it. */
void code_residual(enum codec codec, uint8_t *bytes, float *scalars, const float *rest, uint32_t n);
/* Decodes what code_encode() writes, without the residual. */
void code_decode(enum codec codec, float *x, const uint8_t *bytes, const float *scalars,
                 uint32_t n);
