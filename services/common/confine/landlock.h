/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Landlock, without its headers: those of distributions are older than the kernels that run
 *
 * A ruleset handles every right over files that the running kernel and this file know, denies TCP
 * (kernels with ABI 4), and signals and abstract sockets to the outside (ABI 6). What is handled
 * and not allowed by a rule fails with EACCES.
 */

#include "core/macros.h"

/* The newest ABI that is used here. */
#define LANDLOCK_ABI_USED 6

/* 0: the kernel has none, or it is switched off. */
int landlock_abi(void);
/* A right by name ("read_file"); 0: unknown. */
uint64_t landlock_right(const char *name);
/* -errno, or the ruleset's descriptor, which the caller closes. */
int landlock_new(int abi);
/* Allows @rights below @path, for a file those that files have. @ret_fd, which may be NULL, gets a
 * descriptor that keeps @path's inode alive. -errno. */
int landlock_allow(int ruleset, int abi, const char *path, uint64_t rights, int *ret_fd);
/* The same for a file or directory that is open. */
int landlock_allow_fd(int ruleset, int abi, int fd, uint64_t rights);
/* For this thread and those that it makes. Needs no-new-privileges. */
int landlock_restrict(int ruleset);
