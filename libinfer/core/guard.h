/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Guards over mapped files
 *
 * A page of a mapped file that is not there any more, because the file was cut short or the disk
 * fails, ends the process that reads it (SIGBUS). With the handler installed, such a read finds
 * zeros instead, in the whole mapping, and the guard over it says that it is lost: whoever computes
 * with a mapping looks at its guard afterwards and throws away what came of it.
 */

#include "core/macros.h"

struct guard;

/* Installs the handler, once for the process; others that were there get what is not ours. Threads
 * must not block SIGBUS. -errno. */
int guard_install(void);

/* Puts a guard over a mapping of @size bytes that begins at @begin. NULL when out of memory. */
struct guard *guard_new(const void *begin, size_t size);
/* Before the mapping goes. NULL is fine; returns NULL. */
struct guard *guard_free(struct guard *g);
/* Whether reads found pages missing, or guard_lose() was called. Any thread. */
bool guard_is_lost(const struct guard *g);
/* Its content is known to be wrong. Any thread. */
void guard_lose(struct guard *g);
/* How many guards were lost so far: while that does not change none was. Any thread. */
unsigned guard_n_lost(void);
