/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What systemd says of our units. */

#include "core/macros.h"

struct unit_state {
    char load[32];    /* "loaded", "not-found" */
    char active[32];  /* "active", "inactive", "failed"… */
    char status[256]; /* the service's own STATUS= text */
    uint32_t pid;     /* 0: does not run */
};

struct units;

/* Connects to the manager of the user or of the system; -errno where there is none. */
int units_open(bool user, struct units **ret_units);
struct units *units_close(struct units *u);
DEFINE_CLEANUP(struct units *, units_close);
/* False when the manager does not answer. */
bool units_state(struct units *u, const char *name, struct unit_state *ret_state);
