/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line of a service has the options that all services share, and those that its section
 * of services.ini adds. */

#include "common/config/key-file.h"
#include "common/config/service-table.h"

struct config;

struct options {
    struct config *config;       /* the configuration, or the defaults if it is wrong */
    char *wrong;                 /* error text of a wrong configuration; NULL: it is correct */
    struct key_list keys;        /* the keys of the key file; only the gateway has keys */
    uint64_t drain_timeout_usec; /* --drain-timeout; 30 s */
    /* The arguments of --NAME-socket, by enum service_id; NULL: the option was not given. */
    const char *sockets[N_SERVICES];
    /* The argument of --NAME-socket for the program that is started for the service; NULL: the
     * option was not given. */
    const char *program_socket;
    bool has_models; /* --models was given */
};

/*
 * Reads argv of the service named @service, the configuration, and for the gateway the key file.
 * Returns -1 if the service shall run; the caller then calls options_done() later. Otherwise
 * returns the exit status: 0 after -h and --version, 1 if memory runs out, 2 for wrong usage, 78
 * for a wrong configuration (EX_CONFIG). A service that was started with its socket does not exit
 * for a wrong configuration: `wrong` has the error, and misconfigured_serve() sends it to clients.
 */
int options_read(const char *service, int argc, char **argv, struct options *ret_options);
/* Sets `wrong` and resets the configuration to the defaults, which are enough to report the error.
 * -ENOMEM. */
int options_set_wrong(struct options *options, const char *text);
/* Returns the argument of --NAME-socket for the service of @row; NULL: the option was not given. */
const char *options_socket(const struct options *options, const struct service_row *row);
void options_done(struct options *options);
