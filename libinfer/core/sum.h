/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Computes XXH3-64 checksums with libxxhash, to check that stored bytes are unchanged. A checksum
 * has no secret, so it does not protect against manipulation. */

#include <stddef.h>
#include <stdint.h>

uint64_t sum_bytes(const void *data, size_t len);

/* Computes the sum of bytes that arrive in pieces. sum_new() returns NULL if memory is short;
 * sum_begin() starts over. */
struct sum;
struct sum *sum_new(void);
struct sum *sum_free(struct sum *s);
void sum_begin(struct sum *s);
void sum_add(struct sum *s, const void *data, size_t len);
uint64_t sum_end(const struct sum *s);
