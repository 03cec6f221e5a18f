/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A victim is a process that is made to execute given system calls.
 *
 * ptrace stops one thread of the process, which then makes the calls with the process's own rights.
 * The calls are made in a copy of the process (the process is made to call fork()). The copy has
 * the same credentials, namespaces, Landlock domain, seccomp filters, descriptors and memory, and
 * may be killed by the call; the process itself continues unchanged.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/macros.h"

struct victim;

/*
 * Stops a thread of @pid. Its seccomp filters are suspended for the calls of victim_call(). Needs
 * CAP_SYS_ADMIN, and a calling process without filters. Freeing the victim restores the thread and
 * resumes it.
 */
int victim_open(pid_t pid, struct victim **ret_victim);
/* Makes a copy of the process, which is a child of the process's parent; freeing the copy kills it.
 * @filtered: whether the copy's filters are in force. */
int victim_copy(struct victim *victim, bool filtered, struct victim **ret_copy);
/* From now on the filters are also in force for calls that are made in the process itself. */
int victim_set_filtered(struct victim *victim);
struct victim *victim_free(struct victim *victim);
DEFINE_CLEANUP(struct victim *, victim_free);

/* Returns the call's result, or a negative errno. -ESRCH: the process is dead; victim_killed_by()
 * returns the signal. A call longer than a few seconds ends with -ETIME, and the copy is killed. */
long victim_call(struct victim *victim, long nr, const uint64_t args[static 6]);
#define CALL(victim, nr, ...) victim_call(victim, nr, (const uint64_t[6]){__VA_ARGS__})
int victim_killed_by(const struct victim *victim);
/* Returns whether the victim succeeded in an execve(), so that no more calls are possible. */
bool victim_is_replaced(const struct victim *victim);

/* Copies bytes into the victim's scratch memory and returns their address there; 0 if they do not
 * fit. */
uint64_t victim_put(struct victim *victim, const void *data, size_t size);
uint64_t victim_text(struct victim *victim, const char *text);
int victim_get(struct victim *victim, uint64_t address, void *buf, size_t size);
/* Uses this scratch memory instead of the far end of the stack; its contents are not restored. */
void victim_set_scratch(struct victim *victim, uint64_t address, size_t size);

pid_t victim_pid(const struct victim *victim);
