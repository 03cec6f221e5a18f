/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens listening sockets at the addresses of the command line.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "cli/suite/supervisor.h"
#include "core/err.h"
#include "core/text.h"

enum {
    LISTEN_BACKLOG = 4096,
};

static int bind_and_listen(const char *address, int type, const struct sockaddr *sa, socklen_t len,
                           struct inf_err *reterr)
{
    _cleanup_close_ int fd = socket(sa->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int one = 1;
    mode_t mask;
    int r;

    if (fd < 0)
        return err_set(reterr, errno, "%s: %s", address, strerror(errno));
    if (sa->sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* With this umask only the owner of a unix socket can access it, from its creation on. */
    mask = umask(0177);
    r = bind(fd, sa, len);
    umask(mask);
    if (r < 0 || listen(fd, LISTEN_BACKLOG) < 0)
        return err_set(reterr, errno, "cannot listen on %s: %s", address, strerror(errno));
    return STEAL_FD(fd);
}

static int listen_unix(const char *path, int type, struct inf_err *reterr)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    _cleanup_close_ int probe = -1;
    struct stat st;

    if (strlen(path) >= sizeof(sa.sun_path))
        return err_set(reterr, ENAMETOOLONG, "unix:%s: longer than %zu bytes", path,
                       sizeof(sa.sun_path) - 1);
    memcpy(sa.sun_path, path, strlen(path) + 1);
    if (lstat(path, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return err_set(reterr, EEXIST, "%s exists and is not a socket", path);
        probe = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
        if (probe >= 0 && connect(probe, (struct sockaddr *)&sa, sizeof(sa)) == 0)
            return err_set(reterr, EADDRINUSE, "another process already listens on unix:%s", path);
        unlink(path);
    }
    return bind_and_listen(path, type, (struct sockaddr *)&sa, sizeof(sa), reterr);
}

static int listen_tcp(const char *address, unsigned *ret_port, struct inf_err *reterr)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    const char *colon = strrchr(address, ':');
    _cleanup_free_ char *host = NULL;
    struct addrinfo *list = NULL;
    unsigned long port;
    char *end;
    size_t len;
    int r;

    if (!colon)
        return err_set(reterr, EINVAL, "\"%s\" must be ADDR:PORT or unix:PATH", address);
    port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end || port > 65535)
        return err_set(reterr, EINVAL, "\"%s\": \"%s\" is not a port", address, colon + 1);
    len = (size_t)(colon - address);
    if (len >= 2 && address[0] == '[' && address[len - 1] == ']')
        host = strndup(address + 1, len - 2);
    else
        host = strndup(address, len);
    if (!host)
        return err_set(reterr, ENOMEM, "out of memory");
    r = getaddrinfo(host[0] ? host : NULL, colon + 1, &hints, &list);
    if (r != 0)
        return err_set(reterr, EINVAL, "\"%s\": %s", address, gai_strerror(r));
    r = bind_and_listen(address, SOCK_STREAM, list->ai_addr, list->ai_addrlen, reterr);
    freeaddrinfo(list);
    if (r >= 0 && port == 0) {
        struct sockaddr_storage sa;
        socklen_t sa_len = sizeof(sa);
        char service[16];

        if (getsockname(r, (struct sockaddr *)&sa, &sa_len) == 0 &&
            getnameinfo((struct sockaddr *)&sa, sa_len, NULL, 0, service, sizeof(service),
                        NI_NUMERICSERV) == 0)
            port = strtoul(service, NULL, 10);
    }
    *ret_port = (unsigned)port;
    return r;
}

int supervisor_listen(const char *address, unsigned *ret_port, struct inf_err *reterr)
{
    *ret_port = 0;
    if (text_starts_with(address, "unix:"))
        return listen_unix(address + 5, SOCK_STREAM, reterr);
    if (text_starts_with(address, "seqpacket:"))
        return listen_unix(address + 10, SOCK_SEQPACKET, reterr);
    return listen_tcp(address, ret_port, reterr);
}
