/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the control groups that we run in, of either version
 *
 * Each group and each of its parents may set a limit, and the smallest holds. @root stands before
 * the paths of files that the kernel provides; "" outside of tests.
 */

#include <stdint.h>

/* Processors by quota, as a fraction; 0 when there is none. */
double cgroup_cpus(const char *root);
/* Bytes of memory; UINT64_MAX when there is no limit. */
uint64_t cgroup_memory(const char *root);

/* Bytes of memory that we may use: the machine's, or less when a control group says so. */
uint64_t memory_bytes(void);
