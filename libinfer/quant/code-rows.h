/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes heads of keys and values in the transforms that rMLX defines: PLANARn, ISOn and ROTORn.
 *
 * In all of them, a small group of elements is turned, and the results are codes of n bits for the
 * levels of Max (1960). The scale of a group maps its largest magnitude to the largest level. A
 * head is one row of bytes. Numbers in it are F16 without alignment, and codes are one string of
 * bits, the lowest bits first:
 *
 *   PLANARn   the scales of the pairs; the angles of the pairs, 4 bits each; codes
 *             A pair (a, b) becomes (a cos φ - b sin φ, a sin φ + b cos φ), where φ is the multiple
 *             of π / 16 below π with which the larger error of the two elements is least.
 *   ISOn      the norm of the head; the scales of the groups of four; codes
 *             The head is divided by its norm. A group is the quaternion v, and becomes q v, where
 *             q = (1, φ, φ - 1, 1) / √5 and φ is the golden ratio.
 *   ROTORn    the norm of the head; the scales of the groups of three; codes
 *             The head is divided by its norm and continued with zeros. Each group is turned by a
 *             rotation of its own.
 *
 * The rotations of ROTORn are unit quaternions from random numbers. The upper 24 bits of a number
 * of splitmix64 with the seed 42 are a signed component, and four successive components are a
 * quaternion. Quaternions whose norm is above 1 or below 0.1 are skipped; the others are divided by
 * their norm.
 *
 * Decoding computes in float, in the order in which the formulas of docs/formats.md are written.
 */

#include "quant/codec.h"

/* Returns the bytes of a head. */
uint32_t code_rows_bytes(enum codec codec, uint32_t head_dim);
/* Encodes the head @x of @n elements. A group, or a head with a norm, that is not finite or
 * overflows F16 becomes NaN. */
void code_rows_encode(enum codec codec, uint8_t *row, const float *x, uint32_t n);
void code_rows_decode(enum codec codec, float *x, const uint8_t *row, uint32_t n);
