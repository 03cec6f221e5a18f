/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A service takes over the listening sockets that it was started with. */

#include <infer/types.h>

#include "core/macros.h"

#define LISTEN_MAX 8

struct listen_socket {
    int fd;
    bool is_tcp;
    char name[64]; /* the FileDescriptorName= of its unit */
};

/* Takes the sockets from LISTEN_FDS and clears the variables. @type: SOCK_STREAM or SOCK_SEQPACKET.
 * -ENOTCONN: there are no sockets, and *reterr has a sentence for the user; -EINVAL: one of them is
 * not a listening socket of that type. */
int listen_take(const char *service, int type, struct listen_socket *sockets, size_t *ret_n,
                struct inf_err *reterr);
