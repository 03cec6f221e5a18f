/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the system calls of Landlock without the system headers, because the headers of
 * distributions are older than the kernels in use.
 *
 * A rule set handles every right over files that both the running kernel and this file know. On
 * kernels with ABI 4 or newer it denies TCP. On kernels with ABI 6 it also denies signals to other
 * processes and connections to their abstract sockets. Access to a file fails with EACCES if the
 * rule set handles the right and no rule grants it.
 */

#include "core/macros.h"

/* The newest ABI that this code uses. */
#define LANDLOCK_ABI_USED 6

/* Returns the ABI to use, which is at most LANDLOCK_ABI_USED. 0: the kernel has no Landlock, or it
 * is switched off. */
int landlock_abi(void);
/* Returns a right by name ("read_file"); 0: unknown. */
uint64_t landlock_right(const char *name);
/* Returns the descriptor of a rule set, which the caller closes, or -errno. With @network, TCP is
 * not denied. */
int landlock_new(int abi, bool network);
/* Allows @rights for the directory @path and everything below it. For a file, allows those of
 * @rights that apply to files. @ret_fd, which may be NULL, gets a descriptor that keeps the inode
 * of @path alive. -errno. */
int landlock_allow(int ruleset, int abi, const char *path, uint64_t rights, int *ret_fd);
/* Works like landlock_allow(), for an open file or directory. */
int landlock_allow_fd(int ruleset, int abi, int fd, uint64_t rights);
/* Applies the rule set to this thread and to threads that it starts later. Needs
 * no-new-privileges. */
int landlock_restrict(int ruleset);
