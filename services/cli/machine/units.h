/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the state of sconce's units from systemd's D-Bus interface. */

#include "core/macros.h"

enum {
    UNITS_MAX_LISTEN = 4,
};

struct unit_state {
    char load[32];                      /* "loaded", "not-found" */
    char active[32];                    /* "active", "inactive", "failed"… */
    char result[32];                    /* "success", "resources", "watchdog"…; "" for targets */
    char status[256];                   /* the service's own STATUS= text */
    uint32_t pid;                       /* 0: not running */
    bool denies_code;                   /* MemoryDenyWriteExecute= of a service */
    bool needs_reload;                  /* its files have changed since systemd loaded them */
    size_t n_listen;                    /* number of addresses of a socket unit */
    char listen[UNITS_MAX_LISTEN][128]; /* "127.0.0.1:7266", "/run/sconce/gateway.sock" */
};

struct units;
struct sd_bus;

/* Connects to the user's or the system's service manager: to its private socket if permitted, else
 * through the bus. Returns -errno if there is none. */
int units_open(bool user, struct units **ret_units);
struct units *units_close(struct units *u);
DEFINE_CLEANUP(struct units *, units_close);
/* Returns the connection; borrowed. */
struct sd_bus *units_bus(struct units *u);
/* Reads the state of a unit; false if the manager does not answer. */
bool units_state(struct units *u, const char *name, struct unit_state *ret_state);
/* Reads a text property of the manager, such as "Version"; false if it does not answer. */
bool units_manager_text(struct units *u, const char *property, char *out, size_t size);
