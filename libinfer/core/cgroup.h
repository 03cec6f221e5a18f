/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the control groups of this process, of version 1 and 2
 *
 * Each group and each of its parents may set a limit; the smallest applies. @root is put before the
 * paths of files that the kernel provides; it is "" except in tests.
 */

#include <stdint.h>

/* Processors allowed by quota, as a fraction; 0: there is no quota. */
double cgroup_cpus(const char *root);
/* Bytes of memory; UINT64_MAX: there is no limit. */
uint64_t cgroup_memory(const char *root);

/* Bytes of memory that the process may use: the machine's, or less if a control group limits it. */
uint64_t memory_bytes(void);
