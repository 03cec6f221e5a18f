/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What somebody who took over a service would try
 *
 * An attack is a few system calls of the victim. It returns 0 when it reached its aim, a negative
 * errno when a call on the way was denied (the victim may be dead by then), ATTACK_ABSENT when this
 * machine has nothing of the kind to attack. Success does no harm to the machine: what would is
 * asked for in a way that the kernel turns down after it looked at the rights.
 */

#include <netinet/in.h>
#include <stdint.h>
#include <sys/types.h>

#include "victim.h"

enum {
    ATTACK_ABSENT = 1,
};

/* What there is to attack. Strings may be NULL: absent. */
struct scene {
    const char *other_file;  /* of another user, readable by its owner alone */
    const char *home_file;   /* in another user's home, readable by everybody */
    const char *homes;       /* the directory of homes, with that of home_file */
    const char *root_file;   /* in root's home */
    const char *own_file;    /* of the service's user, and none of the service's business */
    const char *cache_dir;   /* of the system, with a file `entry` */
    const char *state_dir;   /* of another service, with a file `entry` */
    const char *user_cache;  /* of the user, with a file `entry` */
    const char *store;       /* where models are */
    const char *outside_dir; /* writable for everybody */
    const char *neighbour_socket;
    const char *bus;                     /* the socket of the message bus */
    const char *kept_socket, *kept_lock; /* of the cache service, and the lock of its directory */
    pid_t neighbour;
    uint64_t neighbour_address;    /* readable memory of it */
    int listener;                  /* inherited TCP socket of the service, or -1 */
    struct sockaddr_in tcp4, udp4; /* tcp4 is outside of this machine, if there is an outside */
    struct sockaddr_in local;      /* a port of this machine */
    int udp_fd;                    /* what is bound to udp4 */
    struct sockaddr_in6 tcp6;      /* family 0: this machine has no IPv6 */
    const char *abstract;          /* a listening socket's name, without the zero */
};

struct attack {
    const char *name;
    const char *what;
    int (*run)(struct victim *victim, const struct scene *scene);
};

/* Each table ends with an empty row. */
extern const struct attack attacks_files[];
extern const struct attack attacks_store[];
extern const struct attack attacks_network[];
extern const struct attack attacks_processes[];
extern const struct attack attacks_memory[];
extern const struct attack attacks_kernel[];
extern const struct attack attacks_kept[];

/* openat() by the victim; a descriptor or a negative errno. */
long attack_open(struct victim *victim, const char *path, int flags);
