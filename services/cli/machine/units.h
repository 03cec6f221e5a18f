/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What systemd says of our units. */

#include "core/macros.h"

enum {
    UNITS_MAX_LISTEN = 4,
};

struct unit_state {
    char load[32];                      /* "loaded", "not-found" */
    char active[32];                    /* "active", "inactive", "failed"… */
    char result[32];                    /* "success", "resources", "watchdog"…; "" for targets */
    char status[256];                   /* the service's own STATUS= text */
    uint32_t pid;                       /* 0: does not run */
    bool needs_reload;                  /* its files changed since systemd read them */
    size_t n_listen;                    /* of a socket */
    char listen[UNITS_MAX_LISTEN][128]; /* "127.0.0.1:7266", "/run/sconce/gateway.sock" */
};

struct units;
struct sd_bus;

/* Connects to the manager of the user or of the system: to its own socket where we may, else by
 * the bus. -errno where there is none. */
int units_open(bool user, struct units **ret_units);
struct units *units_close(struct units *u);
DEFINE_CLEANUP(struct units *, units_close);
/* The connection; it stays ours. */
struct sd_bus *units_bus(struct units *u);
/* False when the manager does not answer. */
bool units_state(struct units *u, const char *name, struct unit_state *ret_state);
/* A text property of the manager, such as "Version"; false when it does not answer. */
bool units_manager_text(struct units *u, const char *property, char *out, size_t size);
