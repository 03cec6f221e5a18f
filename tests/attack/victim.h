/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process that is made to do what it never would
 *
 * ptrace stops one of its threads, and that thread executes system calls of our choice, with the
 * process's own rights. Calls go into a copy of the process (a fork that the process itself is made
 * to execute): the copy has the same credentials, namespaces, Landlock domain, seccomp filters,
 * descriptors and memory, and may die of it; the process goes on where it was.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/macros.h"

struct victim;

/*
 * Stops a thread of @pid, its seccomp filters suspended for the calls that we make. Needs
 * CAP_SYS_ADMIN and no filter on ourselves. Nothing of the process is changed until it is freed,
 * which lets it go on.
 */
int victim_open(pid_t pid, struct victim **ret_victim);
/* A copy, whose parent is that of the process; freeing kills it. Its filters are in force, or not.
 */
int victim_copy(struct victim *victim, bool filtered, struct victim **ret_copy);
/* From now on the filters are in force for calls of the process itself, too. */
int victim_set_filtered(struct victim *victim);
struct victim *victim_free(struct victim *victim);
DEFINE_CLEANUP(struct victim *, victim_free);

/* The call's result, or negative errno. -ESRCH: the process is no more; victim_killed_by() says by
 * which signal. A call that lasts longer than a few seconds ends with -ETIME and the copy. */
long victim_call(struct victim *victim, long nr, const uint64_t args[static 6]);
#define CALL(victim, nr, ...) victim_call(victim, nr, (const uint64_t[6]){__VA_ARGS__})
int victim_killed_by(const struct victim *victim);
/* An execve() of it worked, and no call is possible any more. */
bool victim_is_replaced(const struct victim *victim);

/* Puts bytes into its scratch memory and returns their address there; 0: they do not fit. */
uint64_t victim_put(struct victim *victim, const void *data, size_t size);
uint64_t victim_text(struct victim *victim, const char *text);
int victim_get(struct victim *victim, uint64_t address, void *buf, size_t size);
/* Scratch memory other than the far end of the stack; nothing there is put back. */
void victim_set_scratch(struct victim *victim, uint64_t address, size_t size);

pid_t victim_pid(const struct victim *victim);
