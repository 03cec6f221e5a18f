/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes stand-ins: processes with only some of the walls of a service.
 *
 * A wall counts if it denies an attack alone. A stand-in is a stopped child of this program, and
 * makes system calls like a victim. It has either no walls, or only the namespaces and credentials
 * of a process; filters can be loaded into it.
 */

#include "victim.h"

struct standin;

/* Makes a stand-in with all our rights. */
int standin_new(struct standin **ret_standin);
/* Makes a stand-in in the namespaces of @pid, with the user, groups and capabilities of @pid, and
 * with its listening socket @fd under the same number, unless @fd is negative. */
int standin_walled_new(pid_t pid, int fd, struct standin **ret_standin);
struct victim *standin_victim(struct standin *standin);
struct standin *standin_free(struct standin *standin);
DEFINE_CLEANUP(struct standin *, standin_free);
