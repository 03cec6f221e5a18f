/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reloads, starts and stops units for `sconce setup` with requests to systemd, and enables and
 * disables units.
 *
 * Units are enabled by creating links, as systemctl does. This also works where systemd does not
 * run: in an image, in a chroot, or while packages are installed. There the requests to systemd are
 * skipped.
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

/* Connects to systemd. @places and @edits are borrowed and must live longer than the manager. If
 * systemd does not answer, or @places has a root other than "", the manager is offline; this is not
 * an error. */
int manager_open(const struct places *places, struct edits *edits, struct manager **ret_manager,
                 struct inf_err *reterr);
struct manager *manager_close(struct manager *m);
DEFINE_CLEANUP(struct manager *, manager_close);
bool manager_is_offline(const struct manager *m);
/* Returns whether the unit is active now; false if this is not known. */
bool manager_is_active(struct manager *m, const char *unit);

/* Creates the links of the unit's WantedBy=; -ENOENT: the unit is not installed. */
int manager_enable(struct manager *m, const char *unit, struct inf_err *reterr);
int manager_disable(struct manager *m, const char *unit, struct inf_err *reterr);
/* Returns whether the links of the unit exist; works without systemd. */
bool manager_is_enabled(const struct places *places, const char *unit);
/* Makes systemd reload unit files; does nothing if the manager is offline. */
int manager_reload(struct manager *m, struct inf_err *reterr);
/* Queues all jobs at once, so that systemd orders them (stop jobs first), and waits for them.
 * -EPROTO: a job failed; the error text has systemd's reason. */
int manager_run(struct manager *m, const struct manager_job *jobs, size_t n_jobs,
                struct inf_err *reterr);
