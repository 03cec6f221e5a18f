/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The command line that all services share. */

#include "common/config/key-file.h"

struct config;

struct options {
    struct config *config;       /* loaded, or defaults when it is wrong */
    char *wrong;                 /* what is wrong with the configuration; NULL: nothing */
    struct key_list keys;        /* of files of their own; for the gateway */
    const char *audio_socket;    /* --audio-socket; NULL: not given */
    const char *cache_socket;    /* --cache-socket; NULL: not given */
    const char *chat_socket;     /* --chat-socket; NULL: not given */
    const char *embed_socket;    /* --embed-socket; NULL: not given */
    uint64_t drain_timeout_usec; /* --drain-timeout; 30 s */
};

/*
 * Reads argv, the configuration, and for the gateway the key file. -1: go on, then options_done();
 * else the status to exit with: 0 after -h and --version, 2 for wrong usage, 78 for wrong
 * configuration (EX_CONFIG). With sockets to answer from, that is no reason to end: `wrong` tells
 * it instead, and misconfigured_serve() tells the clients.
 */
int options_read(const char *service, int argc, char **argv, struct options *ret_options);
/* Goes on with the defaults, which are enough to tell what is wrong. -ENOMEM. */
int options_set_wrong(struct options *options, const char *text);
void options_done(struct options *options);
