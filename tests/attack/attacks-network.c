/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks the network, and the sockets of other processes.
 *
 * The target ports listen in the network namespace of this program. A connection succeeds when the
 * kernel has established it.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "attack.h"

static long open_socket(struct victim *v, int family, int type, int protocol)
{
    return CALL(v, SYS_socket, (uint64_t)family, (uint64_t)type, (uint64_t)protocol);
}

static int connect_to(struct victim *v, int type, const void *address, size_t size)
{
    const struct sockaddr *a = address;
    const long fd = open_socket(v, a->sa_family, type, 0);

    if (fd < 0)
        return (int)fd;
    return (int)CALL(v, SYS_connect, (uint64_t)fd, victim_put(v, address, size), size);
}

static int tcp4(struct victim *v, const struct scene *s)
{
    return connect_to(v, SOCK_STREAM, &s->tcp4, sizeof(s->tcp4));
}

static int tcp6(struct victim *v, const struct scene *s)
{
    if (!s->tcp6.sin6_family)
        return ATTACK_ABSENT;
    return connect_to(v, SOCK_STREAM, &s->tcp6, sizeof(s->tcp6));
}

static int udp(struct victim *v, const struct scene *s)
{
    const long fd = open_socket(v, AF_INET, SOCK_DGRAM, 0);
    uint64_t text, to;
    char got[4];
    long n;

    if (fd < 0)
        return (int)fd;
    text = victim_text(v, "out");
    to = victim_put(v, &s->udp4, sizeof(s->udp4));
    n = CALL(v, SYS_sendto, (uint64_t)fd, text, 3, 0, to, sizeof(s->udp4));
    if (n < 0)
        return (int)n;
    /* A successful send is not enough: another namespace has its own loopback device. */
    return recv(s->udp_fd, got, sizeof(got), MSG_DONTWAIT) == 3 ? 0 : -EHOSTUNREACH;
}

static int tcp_bind(struct victim *v, const struct scene *s UNUSED)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    const long fd = open_socket(v, AF_INET, SOCK_STREAM, 0);
    long r;

    if (fd < 0)
        return (int)fd;
    r = CALL(v, SYS_bind, (uint64_t)fd, victim_put(v, &any, sizeof(any)), sizeof(any));
    return r < 0 ? (int)r : (int)CALL(v, SYS_listen, (uint64_t)fd, 1);
}

static int raw(struct victim *v, const struct scene *s UNUSED)
{
    const long fd = open_socket(v, AF_INET, SOCK_RAW, IPPROTO_ICMP);

    return fd < 0 ? (int)fd : 0;
}

static int packet(struct victim *v, const struct scene *s UNUSED)
{
    const long fd = open_socket(v, AF_PACKET, SOCK_RAW, 0);

    return fd < 0 ? (int)fd : 0;
}

/* Asks the kernel to turn the loopback device on. A process that may do this may change all of the
 * network. */
static int netlink(struct victim *v, const struct scene *s UNUSED)
{
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP},
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } reply = {};
    const long fd = open_socket(v, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    uint64_t there;
    long n;

    if (fd < 0)
        return (int)fd;
    n = CALL(v, SYS_sendto, (uint64_t)fd, victim_put(v, &request, sizeof(request)),
             sizeof(request));
    if (n < 0)
        return (int)n;
    there = victim_put(v, &reply, sizeof(reply));
    n = CALL(v, SYS_recvfrom, (uint64_t)fd, there, sizeof(reply));
    if (n < 0)
        return (int)n;
    if (victim_get(v, there, &reply, sizeof(reply)) < 0)
        return -EIO;
    return reply.error.error;
}

static int abstract(struct victim *v, const struct scene *s)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(s->abstract);

    memcpy(name.sun_path + 1, s->abstract, strlen(s->abstract));
    return connect_to(v, SOCK_STREAM, &name, size);
}

static int connect_to_path(struct victim *v, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    if (!path)
        return ATTACK_ABSENT;
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    return connect_to(v, SOCK_STREAM, &name, sizeof(name));
}

static int neighbor_socket(struct victim *v, const struct scene *s)
{
    return connect_to_path(v, s->neighbor_socket);
}

static int bus(struct victim *v, const struct scene *s)
{
    return connect_to_path(v, s->bus);
}

/* An inherited listener belongs to the host's network. Once the socket no longer listens, it can
 * connect to that network. */
static int reuse_listener(struct victim *v, int fd, const struct sockaddr_in *to)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    long r;

    if (fd < 0)
        return ATTACK_ABSENT;
    r = CALL(v, SYS_connect, (uint64_t)fd, victim_put(v, &none, sizeof(none)), sizeof(none));
    if (r < 0)
        return (int)r;
    r = CALL(v, SYS_connect, (uint64_t)fd, victim_put(v, to, sizeof(*to)), sizeof(*to));
    if (r != -EINPROGRESS)
        return (int)r;
    /* The socket does not block, so the second call of connect() returns the result of the first
     * call. */
    usleep(200000);
    r = CALL(v, SYS_connect, (uint64_t)fd, victim_put(v, to, sizeof(*to)), sizeof(*to));
    return r == -EISCONN ? 0 : (int)r;
}

static int listener(struct victim *v, const struct scene *s)
{
    return reuse_listener(v, s->listener, &s->tcp4);
}

static int listener_local(struct victim *v, const struct scene *s)
{
    return reuse_listener(v, s->listener, &s->local);
}

const struct attack attacks_network[] = {
    {"tcp4", "connect out by TCP", tcp4},
    {"tcp6", "connect out by TCP over IPv6", tcp6},
    {"udp", "send a datagram out", udp},
    {"tcp-bind", "listen on a TCP port", tcp_bind},
    {"raw", "open a raw socket", raw},
    {"packet", "open a packet socket", packet},
    {"netlink", "change a network device", netlink},
    {"abstract", "connect to an abstract socket", abstract},
    {"neighbor-socket", "connect to another service's socket", neighbor_socket},
    {"bus", "connect to the message bus", bus},
    {"listener", "connect out by the inherited TCP listener", listener},
    {"listener-local", "connect to this machine by the inherited TCP listener", listener_local},
    {},
};
