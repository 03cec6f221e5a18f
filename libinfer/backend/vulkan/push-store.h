/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the number formats of keys and values as kernels know them (shaders/lib/kv.glsl). */

/* Heads of codes have at most this many elements. */
#define HEADS_TURN_MAX 1024u

#define STORE_TOKENS 64u /* tokens per block of K and V */
enum {
    STORE_F32,
    STORE_F16,
    STORE_BF16,
    STORE_Q8_0,
    STORE_CODES, /* and the numbers below */
};

enum { STORE_PLAIN, STORE_ROTATED, STORE_SIGNED };
enum { STORE_SCALE_TOP, STORE_SCALE_FIT, STORE_SCALE_ROOT };

/* The lowest bits of the members of the formats of codes: bits of a code, how heads are turned, how
 * scales are found, and elements that share a scale (0: those of the head). */
#define STORE_BITS_AT  4
#define STORE_TURN_AT  8
#define STORE_SCALE_AT 10
#define STORE_GROUP_AT 12
