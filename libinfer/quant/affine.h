/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the affine formats of MLX, whose scales and offsets are separate arrays (planes).
 *
 * A weight is scale × q + offset, where q is an unsigned integer of 2 or 4 bits. A group of
 * columns of a row shares a scale and an offset; both are binary16. MLX stores codes in words of
 * 32 bits, first codes in the lowest bits (tensor X.weight); as words are little-endian, code i
 * of 2 bits is in bits 2 (i mod 4) of byte i / 4, and code i of 4 bits in nibble i mod 2 of byte
 * i / 2. The planes are the tensors X.scales and X.biases, of rows × cols / group numbers.
 */

#include <stdint.h>

/* Decodes a row: @n codes of @bits (2 or 4), and n / @group elements of each plane. n is a multiple
 * of group, and group of 32. No pointer needs alignment. */
void affine_decode(unsigned bits, const void *codes, const void *scales, const void *offsets,
                   uint32_t group, float *dst, uint64_t n);
