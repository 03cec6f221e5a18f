/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes stand-ins: processes with only some of the walls of a service.
 *
 * A wall is a mechanism that confines a service, such as its seccomp filters. The tests check that
 * each wall denies attacks without the help of other walls. A stand-in is a stopped child of this
 * program, and makes system calls like a victim (victim.h). It has either no walls, or only the
 * namespaces and credentials of a process; filters can be loaded into it.
 */

#include "victim.h"

struct standin;

/* Makes a stand-in with all rights of this program. */
int standin_new(struct standin **ret_standin);
/* Makes a stand-in in the namespaces of @pid, with the user, groups and capabilities of @pid.
 * Unless @fd is negative, the stand-in also gets the listening socket @fd of @pid, under the same
 * number. */
int standin_walled_new(pid_t pid, int fd, struct standin **ret_standin);
struct victim *standin_victim(struct standin *standin);
struct standin *standin_free(struct standin *standin);
DEFINE_CLEANUP(struct standin *, standin_free);
