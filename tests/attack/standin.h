/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that stand in for a service with some of its walls only
 *
 * A wall counts when it holds alone. A stand-in is a child of ours, stopped like a victim, that has
 * none of the walls, or the namespaces and credentials of a process and nothing else of it; filters
 * can be loaded into it.
 */

#include "victim.h"

struct standin;

/* With all our rights. */
int standin_new(struct standin **ret_standin);
/* In the namespaces of @pid, with its user, groups and capabilities, and the listening socket @fd
 * of it under the same number, unless @fd is negative. */
int standin_walled_new(pid_t pid, int fd, struct standin **ret_standin);
struct victim *standin_victim(struct standin *standin);
struct standin *standin_free(struct standin *standin);
DEFINE_CLEANUP(struct standin *, standin_free);
