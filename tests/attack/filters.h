/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The seccomp filters of a process, read out of the kernel and loaded into another one. */

#include "victim.h"

struct filters;

/* All of them, oldest first. -EACCES: we are not allowed to read them. */
int filters_read(struct victim *victim, struct filters **ret_filters);
size_t filters_count(const struct filters *filters);
/* Filters @first to @first + @n - 1, in that order. */
int filters_load(const struct filters *filters, size_t first, size_t n, struct victim *victim);
struct filters *filters_free(struct filters *filters);
DEFINE_CLEANUP(struct filters *, filters_free);
