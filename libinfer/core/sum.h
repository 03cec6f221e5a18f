/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* XXH3-64 by libxxhash: whether stored bytes are those that were put. No secret guards it. */

#include <stddef.h>
#include <stdint.h>

uint64_t sum_bytes(const void *data, size_t len);

/* The same of bytes that come in pieces. sum_new() is NULL when out of memory; sum_begin() starts
 * anew. */
struct sum;
struct sum *sum_new(void);
struct sum *sum_free(struct sum *s);
void sum_begin(struct sum *s);
void sum_add(struct sum *s, const void *data, size_t len);
uint64_t sum_end(const struct sum *s);
