/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a service gives up what it does not need
 *
 * Two steps. confine_start() comes right after options_read(), while there is one thread: no new
 * privileges, no core dumps, no memory that becomes executable (unless the policy has a reason),
 * Landlock, and the system calls of the policy's phase `start`. confine_seal() comes when threads
 * run and all is warm, just before READY: the system calls of the phase `serve`, on all threads.
 * Nothing can be taken back.
 *
 * Policies are the files of policy/seccomp and policy/landlock, embedded at build. A call that the
 * policy does not know kills the process; a call newer than the policy gets ENOSYS. When a step
 * cannot be done, it fails, and the service must end.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;

/* @policy: its name, "gateway". @config tells the model directories and whether Landlock may be
 * absent; NULL (it could not be read): no model directories, and Landlock must be there.
 * Call once. -EINVAL: no such policy; else what the kernel said, with a sentence for the user. */
int confine_start(const char *policy, const struct config *config, struct inf_err *reterr);

/* Call once, after confine_start(). */
int confine_seal(struct inf_err *reterr);

/* Whether a model directory that was missing at confine_start() exists now: it stays closed for
 * this process. */
bool confine_is_outdated(void);

/*
 * Why @path, which exists, cannot be opened: it, or what a link in it leads to, lies outside of
 * what confine_start() opened. Writes a sentence with what to do; false: Landlock is not why.
 */
bool confine_explain_path(const char *path, char *text, size_t size);
