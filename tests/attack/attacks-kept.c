/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks blocks that the cache service stores for others, through its socket.
 *
 * The attacks send requests that any client may send, and search every descriptor that comes with
 * an answer for more than the requested block. The attacks know the name of one block, 32 bytes
 * 'A'. An attacker who can guess the beginning of a prompt knows such a name too. Another block,
 * whose name the attacks do not know, contains KEPT_SECRET.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "attack.h"
#include "common/wire/cache-protocol.h"

#define KEPT_SECRET "sconce-attack-secret"
#define KEPT_LOOK   (8u << 20) /* bytes that are searched in a descriptor */
#define KEPT_AREA   (256u << 10)
#define KEPT_PIECE  (64u << 10)
#define KEPT_TRIES  20 /* retries while no bytes have arrived */

/* Struct kept holds a connection of the victim, and memory of the victim that each call reuses. */
struct kept {
    struct victim *victim;
    long fd;
    uint64_t area;
    struct cache_packet packet; /* the request, then the answer */
    struct cache_head head;     /* head of the answer */
    int given;                  /* the descriptor that came with the answer, or -1 */
};

/* Writes a message into the victim's memory, with pointers in the victim's address space. */
static uint64_t put_message(struct kept *k, const void *data, size_t size, int *fd)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS}};
    struct msghdr msg = {.msg_iovlen = 1};
    struct iovec iov = {.iov_len = size};

    iov.iov_base = (void *)(uintptr_t)victim_put(k->victim, data, size);
    msg.msg_iov = (void *)(uintptr_t)victim_put(k->victim, &iov, sizeof(iov));
    if (fd) {
        memcpy(CMSG_DATA(&control.align), fd, sizeof(*fd));
        msg.msg_control = (void *)(uintptr_t)victim_put(k->victim, &control, sizeof(control));
        msg.msg_controllen = CMSG_LEN(sizeof(*fd));
    }
    return victim_put(k->victim, &msg, sizeof(msg));
}

/* Reads the packet and the descriptor that the victim received with the message at @there. */
static int get_message(struct kept *k, uint64_t there, size_t size)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg;
    struct iovec iov;
    struct cache_reader body;

    if (victim_get(k->victim, there, &msg, sizeof(msg)) < 0 ||
        victim_get(k->victim, (uintptr_t)msg.msg_iov, &iov, sizeof(iov)) < 0 ||
        victim_get(k->victim, (uintptr_t)iov.iov_base, k->packet.data, size) < 0)
        return -EIO;
    k->packet.len = size;
    if (msg.msg_controllen >= CMSG_LEN(sizeof(int))) {
        if (victim_get(k->victim, (uintptr_t)msg.msg_control, &control, sizeof(control)) < 0)
            return -EIO;
        memcpy(&k->given, CMSG_DATA(&control.align), sizeof(k->given));
    }
    return cache_read_head(&body, k->packet.data, size, &k->head);
}

/* Sends the packet, with @fd unless it is -1. Returns 0, or the errno of a call or of the
 * answer. */
static int ask(struct kept *k, int fd)
{
    static const uint8_t room[CACHE_PACKET_MAX];
    int none = -1, r;
    uint64_t there;
    long n;

    k->given = -1;
    victim_set_scratch(k->victim, k->area, KEPT_AREA);
    there = put_message(k, k->packet.data, k->packet.len, fd >= 0 ? &fd : NULL);
    n = CALL(k->victim, SYS_sendmsg, (uint64_t)k->fd, there, MSG_NOSIGNAL);
    if (n < 0)
        return (int)n;
    there = put_message(k, room, sizeof(room), &none);
    n = CALL(k->victim, SYS_recvmsg, (uint64_t)k->fd, there, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n < 0 ? (int)n : -ECONNRESET;
    r = get_message(k, there, (size_t)n);
    return r < 0 ? r : k->head.status;
}

static void begin(struct kept *k, enum cache_type type, uint32_t n)
{
    cache_begin(&k->packet,
                &(struct cache_head){.version = CACHE_VERSION, .type = (uint16_t)type, .n = n});
}

static int greet(struct kept *k)
{
    const struct cache_hello hello = {
        .least = CACHE_VERSION, .most = CACHE_VERSION, .name = "attack"};

    begin(k, CACHE_HELLO, 0);
    cache_put_hello(&k->packet, &hello);
    return ask(k, -1);
}

static int connect_kept(struct victim *v, const char *path, struct kept *k)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    long r;

    *k = (struct kept){.victim = v, .given = -1};
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    k->fd = CALL(v, SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
    if (k->fd < 0)
        return (int)k->fd;
    r = CALL(v, SYS_connect, (uint64_t)k->fd, victim_put(v, &name, sizeof(name)), sizeof(name));
    if (r < 0)
        return (int)r;
    r = CALL(v, SYS_mmap, 0, KEPT_AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             UINT64_MAX, 0);
    if (r < 0 && r > -4096)
        return (int)r;
    k->area = (uint64_t)r;
    return greet(k);
}

static int list(struct kept *k)
{
    begin(k, CACHE_LIST, 0);
    cache_put_kind(&k->packet, CACHE_SESSIONS);
    cache_put_step(&k->packet, &(struct cache_step){0});
    return ask(k, -1);
}

/* Tries to list blocks, first as an ordinary client, then with the right to manage the cache. */
static int kept_list(struct victim *v, const struct scene *s)
{
    static struct kept k;
    long lock;
    int r;

    if (!s->kept_socket || !s->kept_lock)
        return ATTACK_ABSENT;
    r = connect_kept(v, s->kept_socket, &k);
    if (r < 0)
        return r;
    if (list(&k) == 0)
        return 0;
    victim_set_scratch(v, k.area, KEPT_AREA);
    lock = attack_open(v, s->kept_lock, O_RDWR);
    if (lock < 0)
        return (int)lock;
    begin(&k, CACHE_MANAGE, 0);
    r = ask(&k, (int)lock);
    return r < 0 ? r : list(&k);
}

/* Reads bytes of the descriptor: at any offset of a file, or the next bytes of a pipe. */
static long read_some(struct kept *k, int fd, uint64_t at, uint64_t there)
{
    const long n = CALL(k->victim, SYS_pread64, (uint64_t)fd, there, KEPT_PIECE, at);

    return n == -ESPIPE ? CALL(k->victim, SYS_read, (uint64_t)fd, there, KEPT_PIECE) : n;
}

/* Searches the bytes of the descriptor. Returns 0 if they contain the secret, -ENODATA if they do
 * not. */
static int look(struct kept *k, int fd)
{
    static char bytes[KEPT_PIECE], both[2 * KEPT_PIECE];
    uint64_t at = 0;
    int tries = 0;

    while (at < KEPT_LOOK && tries < KEPT_TRIES) {
        const long n = read_some(k, fd, at, k->area);

        if (n == -EAGAIN) {
            tries++;
            usleep(20000);
            continue;
        }
        if (n <= 0)
            break;
        if (victim_get(k->victim, k->area, bytes, (size_t)n) < 0)
            return -EIO;
        /* Keeps the last piece, because the secret may lie across two pieces. */
        memmove(both, both + KEPT_PIECE, KEPT_PIECE);
        memset(both + KEPT_PIECE, 0, KEPT_PIECE);
        memcpy(both + KEPT_PIECE, bytes, (size_t)n);
        if (memmem(both, sizeof(both), KEPT_SECRET, strlen(KEPT_SECRET)))
            return 0;
        at += (uint64_t)n;
    }
    return -ENODATA;
}

static int kept_read(struct victim *v, const struct scene *s)
{
    static const struct inf_tier_origin nobody = {"", "", "", NULL};
    uint8_t name[1][INF_TIER_NAME_BYTES];
    struct cache_origin origin;
    static struct kept k;
    int r;

    if (!s->kept_socket)
        return ATTACK_ABSENT;
    r = connect_kept(v, s->kept_socket, &k);
    if (r < 0)
        return r;
    memset(name, 'A', sizeof(name));
    cache_origin_set(&origin, &nobody);
    begin(&k, CACHE_FIND, 1);
    cache_put_origin(&k.packet, &origin);
    cache_put_names(&k.packet, (const uint8_t(*)[INF_TIER_NAME_BYTES])name, 1);
    r = ask(&k, -1);
    if (r == 0 && k.given >= 0 && look(&k, k.given) == 0)
        return 0;
    if (r < 0 || k.head.n != 1)
        return r < 0 ? r : -ENOENT;
    begin(&k, CACHE_READ, 1);
    cache_put_count(&k.packet, 1);
    cache_put_names(&k.packet, (const uint8_t(*)[INF_TIER_NAME_BYTES])name, 1);
    r = ask(&k, -1);
    return r < 0 ? r : k.given < 0 ? -EBADF : look(&k, k.given);
}

const struct attack attacks_kept[] = {
    {"kept-list", "list whose conversations the cache service keeps", kept_list},
    {"kept-read", "read what the cache service keeps of others", kept_read},
    {},
};
