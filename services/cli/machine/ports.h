/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the owners of TCP ports of this machine, and free ports. */

#include <sys/types.h>

#include "core/macros.h"

struct port_owner {
    uid_t uid;        /* owner of the socket */
    uint64_t inode;   /* inode of the socket */
    pid_t pid;        /* 0: not visible to this process */
    char command[64]; /* "" when pid is 0 */
};

/* Parses a line of /proc/net/tcp or tcp6: true if it is a listener that conflicts with
 * 127.0.0.1:@port. */
bool port_line(const char *line, unsigned port, struct port_owner *ret_owner);
/* Finds the process that listens on @port; false: none. @root "" is this machine. */
bool port_find_owner(const char *root, unsigned port, struct port_owner *ret_owner);
/* Returns the lowest free port that is not below @from; 0: there is none. */
unsigned port_next_free(unsigned from);
/* Formats the owner as "nginx (pid 42) of user www-data", without the parts that are not known. */
void port_describe(const struct port_owner *owner, char *text, size_t size);
