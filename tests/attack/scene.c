/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares the targets of attacks that are not files: sockets, processes and memory.
 */
#include "scene.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

/* The descriptors of this program start at this number, above those of a service, because stand-ins
 * (standin.h) use the same numbers as the service. */
#define OUR_FDS 256

static int lift(int fd)
{
    const int high = fcntl(fd, F_DUPFD, OUR_FDS);

    close(fd);
    return high;
}

/* Binds and, for streams, listens; writes the port to @address. The socket stays open until
 * exit. */
static int open_port(int type, void *address, socklen_t size)
{
    struct sockaddr *a = address;
    int fd = socket(a->sa_family, type, 0);

    if (fd < 0)
        return -errno;
    fd = lift(fd);
    if (bind(fd, a, size) < 0 || (type == SOCK_STREAM && listen(fd, 64) < 0) ||
        getsockname(fd, a, &size) < 0)
        return -errno;
    return fd;
}

int scene_open_ports(struct scene *s)
{
    static char name[32];
    struct sockaddr_un abstract = {.sun_family = AF_UNIX};
    int r;

    s->tcp4 =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->udp4 = s->tcp4;
    s->tcp6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (open_port(SOCK_STREAM, &s->tcp6, sizeof(s->tcp6)) < 0)
        s->tcp6.sin6_family = 0;
    r = open_port(SOCK_STREAM, &s->tcp4, sizeof(s->tcp4));
    if (r < 0)
        return r;
    s->local = s->tcp4;
    r = open_port(SOCK_DGRAM, &s->udp4, sizeof(s->udp4));
    if (r < 0)
        return r;
    s->udp_fd = r;
    snprintf(name, sizeof(name), "sconce-attack-%d", getpid());
    memcpy(abstract.sun_path + 1, name, strlen(name));
    s->abstract = name;
    r = open_port(SOCK_STREAM, &abstract,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)));
    return r < 0 ? r : 0;
}

int scene_set_out(struct scene *s, const char *address)
{
    char host[INET_ADDRSTRLEN];
    unsigned port;

    if (sscanf(address, "%15[0-9.]:%u", host, &port) != 2 ||
        inet_pton(AF_INET, host, &s->tcp4.sin_addr) != 1)
        return -EINVAL;
    s->tcp4.sin_port = htons((uint16_t)port);
    return 0;
}

int scene_find_memory(struct scene *s)
{
    char path[64];
    FILE *f;
    int n;

    snprintf(path, sizeof(path), "/proc/%d/maps", s->neighbor);
    f = fopen(path, "re");
    if (!f)
        return -errno;
    n = fscanf(f, "%lx", &s->neighbor_address);
    fclose(f);
    return n == 1 ? 0 : -EIO;
}

static bool is_tcp_listener(int fd)
{
    int domain = 0, listens = 0;
    socklen_t size = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_INET &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens;
}

int scene_find_listener(pid_t pid, int *ret_fd)
{
    _cleanup_close_ int process = (int)syscall(SYS_pidfd_open, pid, 0);

    if (process < 0)
        return -errno;
    for (int fd = 3; fd < 32; fd++) {
        _cleanup_close_ int copy = (int)syscall(SYS_pidfd_getfd, process, fd, 0);

        if (copy >= 0 && is_tcp_listener(copy)) {
            *ret_fd = fd;
            return 0;
        }
    }
    return -ENOENT;
}

int scene_make_listener(int *ret_fd)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = open_port(SOCK_STREAM, &any, sizeof(any));

    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}
