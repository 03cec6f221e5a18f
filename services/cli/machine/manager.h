/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `sconce setup` asks of systemd: enable, read units again, start and stop
 *
 * Units are enabled by links, as systemctl does it, so that it works where no systemd runs: in an
 * image, in a chroot, while packages are installed. The rest is then left out.
 */

#include <infer/types.h>

#include "core/macros.h"

struct edits;
struct manager;
struct places;

struct manager_job {
    const char *method; /* "StartUnit", "StopUnit", "RestartUnit" or "TryRestartUnit" */
    const char *unit;
};

/* @places and @edits stay the caller's and must live longer. Without a manager that answers, or
 * with a root of its own, it is offline: that is no error. */
int manager_open(const struct places *places, struct edits *edits, struct manager **ret_manager,
                 struct inf_err *reterr);
struct manager *manager_close(struct manager *m);
DEFINE_CLEANUP(struct manager *, manager_close);
bool manager_is_offline(const struct manager *m);
/* Whether the unit is active now; false where nobody can tell. */
bool manager_is_active(struct manager *m, const char *unit);

/* Links the unit where its WantedBy= says; -ENOENT: it is not installed. */
int manager_enable(struct manager *m, const char *unit, struct inf_err *reterr);
int manager_disable(struct manager *m, const char *unit, struct inf_err *reterr);
/* Needs no manager. */
bool manager_is_enabled(const struct places *places, const char *unit);
/* Reads changed unit files; nothing where it is offline. */
int manager_reload(struct manager *m, struct inf_err *reterr);
/* Queues all jobs at once, so that systemd orders them among each other (what stops goes first),
 * and waits for them. -EPROTO: one failed, with what systemd says of it. */
int manager_run(struct manager *m, const struct manager_job *jobs, size_t n_jobs,
                struct inf_err *reterr);
