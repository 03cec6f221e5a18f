/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the allocations of our own code, without those inside the C library.
 *
 * For programs that are linked with --wrap of malloc, calloc, realloc and mmap.
 */

/* Calls so far, of all threads. */
unsigned allocs_count(void);
