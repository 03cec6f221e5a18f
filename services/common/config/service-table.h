/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of services
 *
 * One row per service, made of services/services.ini, which says what each key means. A new service
 * is a section of that file; nothing else in C lists services.
 */

#include "core/macros.h"
#include "service-rows.h"

struct config;

/* The options that not every service takes; a set. */
enum {
    SERVICE_OPTION_MODELS = 1,
    SERVICE_OPTION_DEVICE = 2,
    SERVICE_OPTION_TCP_ACCESS = 4,
};

/* Whether a path of a routes.h stands for itself, or for all paths that it begins. */
enum {
    ROUTE_EXACT = 0,
    ROUTE_PREFIX = 1, /* something must follow */
};

/* All strings are static. */
struct service_row {
    const char *name;    /* "chat": its folder, its section of the configuration, its policies */
    const char *program; /* "sconce-chat" */
    const char *package; /* that brings it; NULL: the main package, so that it is always there */
    const char *socket;  /* "chat.sock", in the directory of the sockets */
    const char *socket_unit; /* "sconce-chat.socket" */
    const char *unit;        /* "sconce-chat.service" */
    unsigned connects;       /* a set of 1u << enum service_id: those whose sockets it opens */
    unsigned options;        /* a set of SERVICE_OPTION_… */
    size_t idle_timeout;     /* offset of a uint64_t in struct config */
    size_t max_body;         /* offset of a uint64_t; 0: the gateway's */
    bool has_packets;        /* its socket carries packets (SOCK_SEQPACKET), not a stream */
    bool has_routes;         /* it answers clients, through the gateway */
    bool is_needed;          /* no chat request is answered without it */
};

/* By enum service_id, in the order in which they are stopped: clients before servers. */
extern const struct service_row service_rows[N_SERVICES];
/* The rows with routes, by enum service_backend. */
extern const struct service_row *const service_backends[N_BACKENDS];
/* The names of all their units. */
extern const char *const service_units[N_SERVICE_UNITS];

/* The row of the service @name, else NULL. */
const struct service_row *service_row_find(const char *name);
/* The row that has @unit, a socket or a service, else NULL. */
const struct service_row *service_row_of_unit(const char *unit);
/* Whether it opens the socket of @other. */
bool service_row_connects(const struct service_row *row, enum service_id other);
/* After so long without work the service exits; 0: never. */
uint64_t service_row_idle_usec(const struct service_row *row, const struct config *config);
/* Bytes of a request body, where the service has a limit of its own; else 0. */
uint64_t service_row_max_body(const struct service_row *row, const struct config *config);
