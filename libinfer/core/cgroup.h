/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Limits of the control group (v2) that we run in. */

#include <stdint.h>

/*
 * Calls @visit with the text of @file ("cpu.max") of our control group and of each of its
 * parents that has it: the smallest limit of them holds.
 */
void cgroup_visit(const char *file, void (*visit)(void *data, const char *text), void *data);

/* Bytes of memory that we may use: the machine's, or less when a control group says so. */
uint64_t memory_bytes(void);
