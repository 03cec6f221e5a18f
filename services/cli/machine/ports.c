/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the owners of TCP ports (see ports.h).
 *
 * /proc/net/tcp lists the listeners with the inodes of their sockets, and /proc/PID/fd shows which
 * process has a descriptor of an inode. Only root can read the descriptors of other users'
 * processes. The user who owns a socket is always visible.
 */
#include "cli/machine/ports.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TCP_STATE_LISTEN = 10,
};

bool port_line(const char *line, unsigned port, struct port_owner *ret_owner)
{
    static const char *const in_the_way[] = {"0100007F", "00000000",
                                             "00000000000000000000000000000000",
                                             "0000000000000000FFFF00000100007F"};
    struct port_owner o = {0};
    char address[40];
    unsigned local, state;

    if (sscanf(line, " %*d: %39[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %u %*s %" SCNu64,
               address, &local, &state, &o.uid, &o.inode) != 5)
        return false;
    if (local != port || state != TCP_STATE_LISTEN)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(in_the_way); i++)
        if (strcasecmp(address, in_the_way[i]) == 0) {
            *ret_owner = o;
            return true;
        }
    return false;
}

static bool find_in(const char *root, const char *table, unsigned port, struct port_owner *ret)
{
    char path[4096], line[512];
    bool found = false;
    FILE *f;

    snprintf(path, sizeof(path), "%s/proc/net/%s", root, table);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f))
        found = port_line(line, port, ret);
    if (f)
        fclose(f);
    return found;
}

static bool has_socket(const char *dir, uint64_t inode)
{
    char wanted[40], path[4400], target[64];
    const struct dirent *e;
    bool found = false;
    DIR *d = opendir(dir);

    snprintf(wanted, sizeof(wanted), "socket:[%" PRIu64 "]", inode);
    while (d && !found && (e = readdir(d))) {
        ssize_t n;

        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        found = strcmp(target, wanted) == 0;
    }
    if (d)
        closedir(d);
    return found;
}

static void find_process(const char *root, struct port_owner *o)
{
    char path[4096];
    const struct dirent *e;
    DIR *d;

    snprintf(path, sizeof(path), "%s/proc", root);
    d = opendir(path);
    while (d && !o->pid && (e = readdir(d))) {
        FILE *f;

        if (e->d_name[0] < '1' || e->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "%s/proc/%s/fd", root, e->d_name);
        if (!has_socket(path, o->inode))
            continue;
        o->pid = atoi(e->d_name);
        snprintf(path, sizeof(path), "%s/proc/%s/comm", root, e->d_name);
        f = fopen(path, "re");
        if (f && fgets(o->command, sizeof(o->command), f))
            o->command[strcspn(o->command, "\n")] = 0;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
}

bool port_find_owner(const char *root, unsigned port, struct port_owner *ret_owner)
{
    struct port_owner o;

    if (!find_in(root, "tcp", port, &o) && !find_in(root, "tcp6", port, &o))
        return false;
    find_process(root, &o);
    *ret_owner = o;
    return true;
}

unsigned port_next_free(unsigned from)
{
    for (unsigned port = from; port < 65536; port++) {
        struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const int one = 1;

        sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (fd < 0)
            return 0;
        /* As in systemd, closed connections (TIME_WAIT) do not occupy the port. */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(fd, 1) == 0)
            return port;
    }
    return 0;
}

void port_describe(const struct port_owner *owner, char *text, size_t size)
{
    const struct passwd *user = getpwuid(owner->uid);
    char process[96] = "a program", name[64];

    if (owner->pid)
        snprintf(process, sizeof(process), "%s (pid %d)",
                 owner->command[0] ? owner->command : "a program", (int)owner->pid);
    if (user)
        snprintf(name, sizeof(name), "%s", user->pw_name);
    else
        snprintf(name, sizeof(name), "%u", (unsigned)owner->uid);
    snprintf(text, size, "%s of user %s", process, name);
}
