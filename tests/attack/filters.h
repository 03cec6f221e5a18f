/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the seccomp filters of a process from the kernel, and loads them into another process. */

#include "victim.h"

struct filters;

/* Reads all filters, oldest first. -EACCES: this program may not read them. */
int filters_read(struct victim *victim, struct filters **ret_filters);
size_t filters_count(const struct filters *filters);
/* Loads the filters @first to @first + @n - 1, in that order. */
int filters_load(const struct filters *filters, size_t first, size_t n, struct victim *victim);
struct filters *filters_free(struct filters *filters);
DEFINE_CLEANUP(struct filters *, filters_free);
