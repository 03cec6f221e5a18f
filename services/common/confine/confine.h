/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Confines a service: drops the rights that it does not need.
 *
 * There are two steps. confine_start() is called after options_read(), while the process has only
 * one thread. Afterwards the process gets no new privileges and writes no core dumps. No memory
 * becomes executable, except if the policy gives a reason for it. Landlock applies, and only the
 * system calls of the policy's phase `start` are allowed. confine_seal() runs just before the
 * service tells systemd that it is ready, when all threads run and everything that requests need is
 * prepared. It limits all threads to the system calls of the phase `serve`. Neither step can be
 * undone.
 *
 * Policies are the files of policy/seccomp and policy/landlock, embedded at build. A call that the
 * policy does not allow kills the process; a call newer than the policy gets ENOSYS. If a step
 * fails, the service must end.
 */

#include <infer/types.h>

#include "core/macros.h"

struct config;

/* Takes the first step. @policy is the name of a policy, such as "gateway". @config gives the model
 * directories and says whether Landlock may be missing. If @config is NULL, because it could not be
 * read, no model directory is allowed and Landlock is required. May be called only once. -ENOENT:
 * there is no such policy; otherwise the kernel's error. *reterr has a sentence for the user. */
int confine_start(const char *policy, const struct config *config, struct inf_err *reterr);

/* Takes the second step. May be called only once, after confine_start(). */
int confine_seal(struct inf_err *reterr);

/* Returns whether a model directory that was missing at confine_start() exists now. This process
 * cannot open it. */
bool confine_is_outdated(void);

/*
 * Returns whether Landlock is the reason why the existing path @path cannot be opened. This is so
 * if @path, or the target of a link in it, is outside of the paths that confine_start() allowed. If
 * so, writes a sentence that says this and what to do.
 */
bool confine_explain_path(const char *path, char *text, size_t size);
