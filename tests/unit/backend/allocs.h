/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the allocations of sconce's own code, without those inside the C library.
 *
 * Programs that use this file are linked with --wrap of malloc, calloc, realloc and mmap.
 */

/* Returns the number of allocations of all threads so far. */
unsigned allocs_count(void);
