/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counting what our own code allocates, the C library's insides left out
 *
 * For programs that are linked with --wrap of malloc, calloc, realloc and mmap.
 */

/* Calls so far, of all threads. */
unsigned allocs_count(void);
