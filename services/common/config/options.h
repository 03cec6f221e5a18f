/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line that all services share */

#include "common/config/key-file.h"

struct config;

struct options {
    struct config *config;       /* loaded, or the defaults if the configuration is wrong */
    char *wrong;                 /* error text of a wrong configuration; NULL: it is correct */
    struct key_list keys;        /* of the key file; for the gateway */
    const char *audio_socket;    /* --audio-socket; NULL: not given */
    const char *cache_socket;    /* --cache-socket; NULL: not given */
    const char *chat_socket;     /* --chat-socket; NULL: not given */
    const char *embed_socket;    /* --embed-socket; NULL: not given */
    uint64_t drain_timeout_usec; /* --drain-timeout; 30 s */
};

/*
 * Reads argv, the configuration, and for the gateway the key file. Returns -1: continue, and call
 * options_done() later; else the exit status: 0 after -h and --version, 2 for wrong usage, 78 for a
 * wrong configuration (EX_CONFIG). A service with sockets does not exit for a wrong configuration:
 * `wrong` has the error, and misconfigured_serve() sends it to clients.
 */
int options_read(const char *service, int argc, char **argv, struct options *ret_options);
/* Sets `wrong` and resets the configuration to the defaults, which are enough to report the error.
 * -ENOMEM. */
int options_set_wrong(struct options *options, const char *text);
void options_done(struct options *options);
