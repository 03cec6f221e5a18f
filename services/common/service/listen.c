/* SPDX-License-Identifier: Apache-2.0 */
/* Takes over listening sockets. systemd or `sconce serve` opens them, never a service itself. */
#include "common/service/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "core/err.h"

static void listen_free_names(char **names)
{
    for (char **n = names; n && *n; n++)
        free(*n);
    free(names);
}

int listen_take(const char *service, int type, struct listen_socket *sockets, size_t *ret_n,
                struct inf_err *reterr)
{
    char **names = NULL;
    const int n = sd_listen_fds_with_names(1, &names);
    int r = 0;

    if (n < 0)
        return err_set(reterr, -n, "LISTEN_FDS: %s", strerror(-n));
    if (n == 0)
        return err_set(reterr, ENOTCONN,
                       "no sockets were passed in; start sconce-%s.socket, or run `sconce serve`",
                       service);
    if (n > LISTEN_MAX) {
        listen_free_names(names);
        return err_set(reterr, EINVAL, "%d sockets were passed in, at most %d are used", n,
                       LISTEN_MAX);
    }
    for (int i = 0; i < n && r == 0; i++) {
        const int fd = SD_LISTEN_FDS_START + i;

        if (sd_is_socket(fd, AF_UNSPEC, type, 1) <= 0) {
            r = err_set(reterr, EINVAL, "descriptor %d is not a listening %s socket", fd,
                        type == SOCK_STREAM ? "stream" : "seqpacket");
            break;
        }
        sockets[i] =
            (struct listen_socket){.fd = fd, .is_tcp = sd_is_socket(fd, AF_UNIX, type, 1) <= 0};
        snprintf(sockets[i].name, sizeof(sockets[i].name), "%s", names && names[i] ? names[i] : "");
    }
    listen_free_names(names);
    if (r < 0)
        return r;
    *ret_n = (size_t)n;
    return 0;
}
