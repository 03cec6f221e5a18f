/* SPDX-License-Identifier: Apache-2.0 */
/* Sends questions to the keep service (see keep-client.h). The time limits are options of the
 * socket. */
#include "common/wire/keep-client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENT_TIMEOUT_SEC 10

static int client_connect(const char *path)
{
    const struct timeval tv = {.tv_sec = CLIENT_TIMEOUT_SEC};
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;

    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    memcpy(sa.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    return STEAL_FD(fd);
}

int keep_client_ask(const char *path, const struct keep_question *question, struct str *body,
                    int *ret_status)
{
    _cleanup_close_ int socket = client_connect(path);
    struct keep_packet packet;
    int r = socket < 0 ? socket : 0;

    if (r < 0)
        return r;
    r = keep_question_make(&packet, question->method, question->target, question->tenant,
                           question->id);
    r = r < 0 ? r : keep_packet_add_body(&packet, question->body);
    r = r < 0 ? r : keep_packet_send(&packet, socket, 0);
    keep_packet_done(&packet);
    if (r < 0)
        return r;
    r = keep_packet_receive(&packet, socket, 0);
    r = r < 0 ? r : keep_packet_read_body(&packet, false, body);
    if (r == 0)
        *ret_status = packet.head.status;
    keep_packet_done(&packet);
    return r;
}
