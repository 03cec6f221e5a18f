/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Takes over the listening sockets with which the service was started. */

#include <infer/types.h>

#include "core/macros.h"

#define LISTEN_MAX 8

struct listen_socket {
    int fd;
    bool is_tcp;
    char name[64]; /* the FileDescriptorName= of its socket unit */
};

/* Takes the sockets from LISTEN_FDS and clears the variables. @type: SOCK_STREAM or SOCK_SEQPACKET.
 * -ENOTCONN: there are no sockets, and *reterr has a sentence for the user; -EINVAL: there are too
 * many, or one is not a listening socket of that type. */
int listen_take(const char *service, int type, struct listen_socket *sockets, size_t *ret_n,
                struct inf_err *reterr);
