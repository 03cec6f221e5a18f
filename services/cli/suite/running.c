/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the services that run (see running.h).
 */
#include "cli/suite/running.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cli/suite/http-get.h"
#include "common/config/service-table.h"

pid_t running_supervisor(const char *address)
{
    _cleanup_close_ int fd = http_connect(address);
    struct ucred peer = {0};
    socklen_t len = sizeof(peer);

    /* For a connection to a listening socket, the peer is the process that called listen(). */
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return 0;
    return peer.pid;
}

static bool is_program(pid_t pid, const struct service_row *service)
{
    char path[64], name[32] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    f = fopen(path, "re");
    if (f && fgets(name, sizeof(name), f))
        name[strcspn(name, "\n")] = 0;
    if (f)
        fclose(f);
    /* The kernel limits names of processes to 15 characters. */
    return strncmp(name, service->program, 15) == 0;
}

int running_child(pid_t supervisor, const struct service_row *service)
{
    bool found = false;
    char path[64];
    FILE *f;
    int pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)supervisor, (int)supervisor);
    f = fopen(path, "re");
    if (!f)
        return -1;
    while (!found && fscanf(f, "%d", &pid) == 1)
        found = is_program(pid, service);
    fclose(f);
    return found;
}
