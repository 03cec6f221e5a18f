/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the control groups of this process, of version 1 and 2
 *
 * Each group and each of its parents may set a limit; the smallest limit applies. @root is put
 * before the paths of files that the kernel provides; it is "" except in tests.
 */

#include <stdint.h>

/* Returns the number of CPUs that the quota allows, which may be a fraction; 0: there is no
 * quota. */
double cgroup_cpus(const char *root);
/* Returns the limit of memory in bytes; UINT64_MAX: there is no limit. */
uint64_t cgroup_memory(const char *root);

/* Returns the bytes of memory that the process may use: all memory of the machine, or less if a
 * control group sets a limit. */
uint64_t memory_bytes(void);
