/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the attacks that a service must withstand after an attacker has taken it over.
 *
 * An attack is a few system calls that the victim (victim.h), a process of the service, is made to
 * execute. The function of an attack returns 0 if the attack succeeded, a negative errno if a call
 * was denied (the victim may be dead by then), or ATTACK_ABSENT if this machine lacks the target.
 * Success does no harm to the machine: a harmful call gets arguments that the kernel rejects after
 * it has checked the rights.
 */

#include <netinet/in.h>
#include <stdint.h>
#include <sys/types.h>

#include "victim.h"

enum {
    ATTACK_ABSENT = 1,
};

/* Struct scene holds the targets of the attacks. NULL means that there is no such target. */
struct scene {
    const char *other_file;  /* file of another user, readable only by its owner */
    const char *home_file;   /* file in another user's home, readable by everybody */
    const char *homes;       /* the directory that contains the home of home_file */
    const char *root_file;   /* file in root's home */
    const char *own_file;    /* file of the service's user that the service does not need */
    const char *cache_dir;   /* cache directory of the system, with a file `entry` */
    const char *state_dir;   /* directory of another service, with a file `entry` */
    const char *user_cache;  /* cache of the service's user, with a file `entry` */
    const char *store;       /* the model directory */
    const char *outside_dir; /* directory that everybody may write to */
    const char *neighbor_socket;
    const char *bus;                     /* the socket of the message bus */
    const char *kept_socket, *kept_lock; /* the cache service's socket; the lock of its directory */
    pid_t neighbor;
    uint64_t neighbor_address;     /* readable memory of @neighbor */
    int listener;                  /* inherited TCP socket of the service, or -1 */
    struct sockaddr_in tcp4, udp4; /* tcp4 is on another machine, if --out names one */
    struct sockaddr_in local;      /* a port of this machine */
    int udp_fd;                    /* this program's socket, which is bound to udp4 */
    struct sockaddr_in6 tcp6;      /* family 0: this machine has no IPv6 */
    const char *abstract;          /* a listening socket's name, without the leading NUL */
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

/* Makes the victim call openat(); returns a descriptor or a negative errno. */
long attack_open(struct victim *victim, const char *path, int flags);
