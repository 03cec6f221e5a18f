/* SPDX-License-Identifier: Apache-2.0 */
/* Sends, receives and checks packets of the keep service (see keep-protocol.h). */
#include "common/wire/keep-protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEEP_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static const char keep_magic[4] = {'s', 'c', 'K', 'P'};

static void packet_begin(struct keep_packet *packet)
{
    *packet = (struct keep_packet){.len = sizeof(packet->head), .fd = -1};
    memcpy(packet->head.magic, keep_magic, sizeof(keep_magic));
    packet->head.version = KEEP_VERSION;
}

int keep_question_make(struct keep_packet *packet, const char *method, struct http_text target,
                       const char *tenant, const char *id)
{
    packet_begin(packet);
    if (target.len > sizeof(packet->target))
        return -ENAMETOOLONG;
    memcpy(packet->target, target.data, target.len);
    packet->head.target_len = (uint32_t)target.len;
    packet->len += target.len;
    snprintf(packet->head.method, sizeof(packet->head.method), "%s", method);
    snprintf(packet->head.tenant, sizeof(packet->head.tenant), "%s", tenant);
    snprintf(packet->head.id, sizeof(packet->head.id), "%s", id);
    return 0;
}

void keep_answer_make(struct keep_packet *packet, int status)
{
    packet_begin(packet);
    packet->head.status = status;
}

static bool text_ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

int keep_packet_check(const struct keep_packet *packet)
{
    const struct keep_head *head = &packet->head;

    if (packet->len < sizeof(*head) || memcmp(head->magic, keep_magic, sizeof(keep_magic)) != 0)
        return -EBADMSG;
    if (head->version != KEEP_VERSION)
        return -EPROTONOSUPPORT;
    if (head->target_len != packet->len - sizeof(*head) || head->body_len > KEEP_MAX_BODY ||
        !text_ends(head->method, sizeof(head->method)) ||
        !text_ends(head->tenant, sizeof(head->tenant)) || !text_ends(head->id, sizeof(head->id)))
        return -EBADMSG;
    return 0;
}

static int body_write(int fd, struct http_text body)
{
    while (body.len) {
        const ssize_t n = write(fd, body.data, body.len);

        if (n < 0 && errno != EINTR)
            return -errno;
        body.data += MAX(n, 0);
        body.len -= (size_t)MAX(n, 0);
    }
    return fcntl(fd, F_ADD_SEALS, KEEP_SEALS) < 0 ? -errno : 0;
}

int keep_packet_add_body(struct keep_packet *packet, struct http_text body)
{
    int r;

    if (!body.len)
        return 0;
    if (body.len > KEEP_MAX_BODY)
        return -EFBIG;
    packet->fd = memfd_create("sconce-keep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    r = packet->fd < 0 ? -errno : body_write(packet->fd, body);
    packet->head.body_len = body.len;
    return r;
}

/* Only memfds have seals. */
static bool is_sealed(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);

    return seals >= 0 && (seals & KEEP_SEALS) == KEEP_SEALS;
}

int keep_packet_read_body(const struct keep_packet *packet, bool sealed, struct str *out)
{
    const size_t len = (size_t)packet->head.body_len;
    size_t n = 0;

    if (!len)
        return 0;
    if (packet->fd < 0 || (sealed && !is_sealed(packet->fd)))
        return -EBADMSG;
    if (str_reserve(out, len) < 0)
        return -ENOMEM;
    while (n < len) {
        const ssize_t got = pread(packet->fd, out->data + out->len + n, len - n, (off_t)n);

        if (got < 0 && errno != EINTR)
            return -errno;
        if (got == 0)
            return -EBADMSG;
        n += (size_t)MAX(got, 0);
    }
    out->len += len;
    out->data[out->len] = 0;
    return 0;
}

void keep_packet_done(struct keep_packet *packet)
{
    if (packet->fd >= 0)
        close(packet->fd);
    packet->fd = -1;
}

int keep_packet_send(const struct keep_packet *packet, int socket, int flags)
{
    struct iovec iov[] = {{(void *)(uintptr_t)&packet->head, sizeof(packet->head)},
                          {(void *)(uintptr_t)packet->target, packet->head.target_len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = ARRAY_SIZE(iov)};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    ssize_t n;

    if (packet->fd >= 0) {
        control.align = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.align), &packet->fd, sizeof(packet->fd));
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
    }
    do {
        n = sendmsg(socket, &msg, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n >= 0)
        return 0;
    return errno == EAGAIN ? -ETIMEDOUT : errno == EPIPE ? -ECONNRESET : -errno;
}

/* Takes the descriptor of a packet. There is space for two descriptors; the kernel drops further
 * ones and sets MSG_CTRUNC. */
static void take_descriptors(struct keep_packet *packet, struct msghdr *msg)
{
    int fds[2] = {-1, -1};

    for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
        const size_t n = h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS
                             ? (h->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                             : 0;

        memcpy(fds, CMSG_DATA(h), MIN(n, ARRAY_SIZE(fds)) * sizeof(int));
    }
    packet->fd = fds[0];
    if (fds[1] >= 0)
        close(fds[1]);
}

int keep_packet_receive(struct keep_packet *packet, int socket, int flags)
{
    struct iovec iov[] = {{&packet->head, sizeof(packet->head)},
                          {packet->target, sizeof(packet->target)}};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = ARRAY_SIZE(iov),
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    ssize_t n;

    packet->fd = -1;
    do {
        n = recvmsg(socket, &msg, flags | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    take_descriptors(packet, &msg);
    if (n == 0)
        return -ECONNRESET;
    packet->len = (size_t)n;
    return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EBADMSG : keep_packet_check(packet);
}
