/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Guards over mapped files
 *
 * If a page of a mapped file is gone because the file was truncated or the disk fails, reading this
 * page ends the process (SIGBUS). With the handler installed, the whole mapping becomes zeros
 * instead, and its guard reports that it is lost. Code that computes with a mapping must check its
 * guard afterwards and discard the results if it is lost.
 */

#include "core/macros.h"

struct guard;

/* Installs the handler, once per process. Signals with other causes go to the handler that was
 * installed before. Threads must not block SIGBUS. Returns 0 or -errno. */
int guard_install(void);

/* Creates a guard over a mapping of @size bytes that begins at @begin. Returns NULL if memory is
 * short. */
struct guard *guard_new(const void *begin, size_t size);
/* Frees a guard. The mapping must still exist. NULL is allowed; returns NULL. */
struct guard *guard_free(struct guard *g);
/* Returns whether a read found a page missing, or guard_lose() was called. Any thread may call this
 * function. */
bool guard_is_lost(const struct guard *g);
/* Marks the content as known to be wrong. Any thread may call this function. */
void guard_lose(struct guard *g);
/* Returns how many guards were lost so far. While this number does not change, no further guard is
 * lost. Any thread may call this function. */
unsigned guard_n_lost(void);
