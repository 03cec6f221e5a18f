/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the table of services.
 *
 * The table has one row per service. services/table.py generates the rows from
 * services/services.ini, which explains each key. A new service needs a section in that file; no C
 * file lists the services.
 */

#include "core/macros.h"
#include "service-rows.h"

struct config;

/* Bits for the options that only some services take. */
enum {
    SERVICE_OPTION_MODELS = 1,
    SERVICE_OPTION_DEVICE = 2,
    SERVICE_OPTION_TCP_ACCESS = 4,
    SERVICE_OPTION_DRAFT = 8,
};

/* A path in a routes.h stands for itself (ROUTE_EXACT), or for all longer paths that begin with it
 * (ROUTE_PREFIX, ROUTE_UPLOAD). */
enum {
    ROUTE_EXACT = 0,
    ROUTE_PREFIX = 1, /* at least one character must follow the prefix */
    ROUTE_UPLOAD = 2, /* like ROUTE_PREFIX; the body is passed on while it arrives */
};

/* Struct service_row describes one service. All strings are static. */
struct service_row {
    const char *name;    /* "chat": its folder, its section of the configuration, its policies */
    const char *program; /* "sconce-chat" */
    const char *package; /* its package; NULL: the main package, which is always installed */
    const char *socket;  /* "chat.sock", in the directory of the sockets */
    const char *socket_unit; /* "sconce-chat.socket" */
    const char *unit;        /* "sconce-chat.service" */
    unsigned connects;   /* a set of 1u << enum service_id: the services whose sockets it opens */
    unsigned options;    /* a set of SERVICE_OPTION_… */
    const char *starts;  /* "fetch": one process sconce-fetch is started for each of its connections
                            to fetch.sock; NULL: none */
    size_t idle_timeout; /* offset of a uint64_t in struct config */
    size_t max_body;     /* offset of a uint64_t in struct config; 0: the gateway's limit holds */
    bool has_packets;    /* its socket carries packets (SOCK_SEQPACKET), not a stream */
    bool has_routes;     /* it answers clients, through the gateway */
    bool is_needed;      /* every chat request needs it */
    bool is_optional;    /* requests to models do not need it */
};

/* All rows, by enum service_id. `sconce serve` stops the services in this order: clients before
 * servers. */
extern const struct service_row service_rows[N_SERVICES];
/* The rows with routes, by enum service_backend. */
extern const struct service_row *const service_backends[N_BACKENDS];
/* The names of the units of all services. */
extern const char *const service_units[N_SERVICE_UNITS];

/* Returns the row of the service @name, or NULL. */
const struct service_row *service_row_find(const char *name);
/* Returns the row of the service to which @unit belongs: as its service unit, as one of its socket
 * units, or as a unit of the program that is started for it (`starts`). NULL: there is none. */
const struct service_row *service_row_of_unit(const char *unit);
/* Returns whether the service of @row opens the socket of @other. */
bool service_row_connects(const struct service_row *row, enum service_id other);
/* Returns the time without work after which the service exits; 0: never. */
uint64_t service_row_idle_usec(const struct service_row *row, const struct config *config);
/* Returns the service's own limit for the bytes of a request body; 0: it has none. */
uint64_t service_row_max_body(const struct service_row *row, const struct config *config);
