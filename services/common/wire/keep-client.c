/* SPDX-License-Identifier: Apache-2.0 */
/* Sends questions to the keep service (see keep-client.h). The time limits are options of the
 * socket. */
#include "common/wire/keep-client.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/service/metrics.h"

#define CLIENT_TIMEOUT_SEC 10

static atomic_uint_fast64_t n_calls, n_failures;

/* The numbers of the last answer. */
static struct {
    pthread_mutex_t lock;
    bool known;
    struct keep_numbers numbers;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static void client_note(const struct keep_numbers *numbers)
{
    pthread_mutex_lock(&last.lock);
    last.numbers = *numbers;
    last.known = true;
    pthread_mutex_unlock(&last.lock);
}

static int client_ask(const char *path, const struct keep_question *question, struct str *body,
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
    if (r == 0) {
        *ret_status = packet.head.status;
        client_note(&packet.head.numbers);
    }
    keep_packet_done(&packet);
    return r;
}

int keep_client_ask(const char *path, const struct keep_question *question, struct str *body,
                    int *ret_status)
{
    const int r = client_ask(path, question, body, ret_status);

    atomic_fetch_add_explicit(&n_calls, 1, memory_order_relaxed);
    if (r < 0)
        atomic_fetch_add_explicit(&n_failures, 1, memory_order_relaxed);
    return r;
}

static bool client_numbers(struct keep_numbers *ret_numbers)
{
    bool known;

    pthread_mutex_lock(&last.lock);
    known = last.known;
    *ret_numbers = last.numbers;
    pthread_mutex_unlock(&last.lock);
    return known;
}

void keep_client_metrics(struct str *out)
{
#define CLIENT_ROW(name, help) {#name, help, offsetof(struct keep_numbers, name)},
    static const struct {
        const char *name, *help;
        size_t offset;
    } rows[] = {KEEP_NUMBERS(CLIENT_ROW)};
#undef CLIENT_ROW
    struct keep_numbers numbers;
    char name[64];

    metrics_counter(out, "sconce_chat_keep_calls_total", "Requests to the keep service.", NULL,
                    (double)atomic_load_explicit(&n_calls, memory_order_relaxed));
    metrics_counter(out, "sconce_chat_keep_failures_total",
                    "Requests that the keep service did not answer.", NULL,
                    (double)atomic_load_explicit(&n_failures, memory_order_relaxed));
    if (!client_numbers(&numbers))
        return;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const uint64_t *value = (void *)((char *)&numbers + rows[i].offset);

        snprintf(name, sizeof(name), "sconce_keep_%s", rows[i].name);
        (strstr(name, "_total") ? metrics_counter : metrics_gauge)(out, name, rows[i].help, NULL,
                                                                   (double)*value);
    }
}
