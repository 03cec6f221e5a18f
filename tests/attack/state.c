/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of a process as the kernel reports it to the process itself.
 *
 * systemd may ignore a directive of a unit, so the process itself makes the calls. The network
 * devices of the process come from a netlink request that the process sends.
 */
#include "state.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif

#define REPLY_SIZE 4096

static void print_name(struct nlmsghdr *header)
{
    struct ifinfomsg *link = NLMSG_DATA(header);
    int left = (int)IFLA_PAYLOAD(header);

    for (struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_IFNAME)
            printf(" %s", (const char *)RTA_DATA(a));
    }
}

/* Prints one datagram of the answer; returns 0 if it was the last. */
static long print_reply(struct victim *v, long fd, uint64_t there)
{
    _Alignas(8) char reply[REPLY_SIZE];
    long n;

    n = CALL(v, SYS_recvfrom, (uint64_t)fd, there, REPLY_SIZE);
    if (n < 0 || victim_get(v, there, reply, (size_t)n) < 0)
        return n < 0 ? n : -EIO;
    for (struct nlmsghdr *h = (void *)reply; NLMSG_OK(h, (unsigned)n); h = NLMSG_NEXT(h, n)) {
        if (h->nlmsg_type != RTM_NEWLINK)
            return h->nlmsg_type == NLMSG_DONE ? 0 : -EIO;
        print_name(h);
    }
    return 1;
}

static int print_interfaces(struct victim *v)
{
    const struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_GETLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
    };
    const char room[REPLY_SIZE] = {};
    const uint64_t there = victim_put(v, room, sizeof(room));
    const long fd = CALL(v, SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    long r;

    if (fd < 0)
        return (int)fd;
    r = CALL(v, SYS_sendto, (uint64_t)fd, victim_put(v, &request, sizeof(request)),
             sizeof(request));
    printf("interfaces");
    while (r > 0)
        r = print_reply(v, fd, there);
    printf("\n");
    return (int)r;
}

int state_print(struct victim *v)
{
    int r;

    r = print_interfaces(v);
    if (r < 0)
        return r;
    printf("mdwe %ld\n", CALL(v, SYS_prctl, PR_GET_MDWE));
    printf("dumpable %ld\n", CALL(v, SYS_prctl, PR_GET_DUMPABLE));
    printf("no-new-privs %ld\n", CALL(v, SYS_prctl, PR_GET_NO_NEW_PRIVS));
    printf("securebits %ld\n", CALL(v, SYS_prctl, PR_GET_SECUREBITS));
    return 0;
}
