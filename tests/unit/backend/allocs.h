/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the allocations of our own code, without those inside the C library.
 *
 * Programs that use it are linked with --wrap of malloc, calloc, realloc and mmap.
 */

/* Returns the number of calls so far, of all threads. */
unsigned allocs_count(void);
