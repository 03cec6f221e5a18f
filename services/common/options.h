/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line that all services share. */

#include "core/macros.h"

struct config;

struct options {
    struct config *config;       /* loaded; the caller frees it */
    const char *chat_socket;     /* --chat-socket; NULL: not given */
    uint64_t drain_timeout_usec; /* --drain-timeout; 30 s */
};

/* Reads argv and the configuration. -1: go on; else the status to exit with: 0 after -h and
 * --version, 2 for wrong usage, 78 for wrong configuration (EX_CONFIG). */
int options_read(const char *service, int argc, char **argv, struct options *ret_options);
