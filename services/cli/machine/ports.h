/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who listens on a TCP port of this machine. */

#include <sys/types.h>

#include "core/macros.h"

struct port_owner {
    uid_t uid;        /* whose socket it is */
    uint64_t inode;   /* of the socket */
    pid_t pid;        /* 0: not visible to us */
    char command[64]; /* "" when pid is 0 */
};

/* A line of /proc/net/tcp or tcp6: true when it is a listener that stands in the way of
 * 127.0.0.1:@port. */
bool port_line(const char *line, unsigned port, struct port_owner *ret_owner);
/* True when somebody listens there. @root "" is this machine. */
bool port_find_owner(const char *root, unsigned port, struct port_owner *ret_owner);
/* The first free port from @from on; 0: there is none. */
unsigned port_next_free(unsigned from);
/* "nginx (pid 42) of user www-data", as far as it is known. */
void port_describe(const struct port_owner *owner, char *text, size_t size);
