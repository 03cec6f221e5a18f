/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the client of a cache service that answers, exits, hangs, has another protocol version, or
 * sends invalid answers. The service is a thread of the test.
 */
#include "common/wire/cache-client.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "lib/test.h"

#define LIMIT_USEC 200000u

static char dir[64], path[96];

/* Struct service is a cache service. Its thread calls serve() with the descriptor and the number of
 * each connection, and closes the connection when serve() returns. */
struct service {
    pthread_t thread;
    int fd;
    int n_connections;
    void (*serve)(int fd, int n);
};

static struct cache_packet packet;

/* Receives the head of the next request; returns false at the end of the connection. */
static bool hear(int fd, struct cache_head *head)
{
    struct cache_reader r;
    const ssize_t n = recv(fd, packet.data, sizeof(packet.data), 0);

    return n > 0 && cache_read_head(&r, packet.data, (size_t)n, head) == 0;
}

static void begin(const struct cache_head *question, uint32_t n)
{
    struct cache_head head = *question;

    head.answer = true;
    head.n = n;
    cache_begin(&packet, &head);
}

static void say(int fd)
{
    send(fd, packet.data, packet.len, MSG_NOSIGNAL);
}

static void say_with(int fd, int other)
{
    struct iovec iov = {packet.data, packet.len};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};

    control.align = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.align), &other, sizeof(int));
    sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static bool greet(int fd)
{
    const struct cache_hello hello = {
        .least = CACHE_VERSION, .most = CACHE_VERSION, .name = "test"};
    struct cache_head head;

    if (!hear(fd, &head) || head.type != CACHE_HELLO)
        return false;
    begin(&head, 0);
    cache_put_hello(&packet, &hello);
    say(fd);
    return true;
}

static void *service_run(void *data)
{
    struct service *s = data;
    int fd;

    while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
        s->serve(fd, s->n_connections++);
        close(fd);
    }
    return NULL;
}

static void service_start(struct service *s, void (*serve)(int fd, int n))
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    *s = (struct service){.serve = serve};
    s->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    strcpy(sa.sun_path, path);
    unlink(path);
    ASSERT_OK(bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)));
    ASSERT_OK(listen(s->fd, 8));
    assert_int_equal(pthread_create(&s->thread, NULL, service_run, s), 0);
}

static int service_end(struct service *s)
{
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
    unlink(path);
    return s->n_connections;
}

static const struct inf_tier_origin origin = {"model", "f16", "", NULL};
static const uint8_t names[2][INF_TIER_NAME_BYTES] = {{1}, {2}};

static struct inf_tier *client(void)
{
    struct inf_tier *tier = NULL;

    ASSERT_OK(cache_client_new(path, "test", LIMIT_USEC, &tier));
    return tier;
}

static int find(struct inf_tier *tier, struct inf_tier_found *found)
{
    return tier->ops->find(tier, &origin, names, 2, found);
}

static uint64_t now_msec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Serves one block of two bytes, through a pipe. */
static void serve_blocks(int fd, int n)
{
    struct cache_head head;

    (void)n;
    if (!greet(fd))
        return;
    while (hear(fd, &head)) {
        const struct inf_tier_found found = {2, 99};
        int ends[2];

        if (head.type == CACHE_STATUS) {
            const struct cache_status status = {.blocks = 5};

            begin(&head, (uint32_t)cache_n_counters);
            cache_put_status(&packet, &status);
            say(fd);
        } else if (head.type == CACHE_FIND) {
            begin(&head, 1);
            cache_put_found(&packet, &found, 1);
            say(fd);
        } else if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
            const ssize_t n_written = write(ends[1], "45", 2);

            close(ends[1]);
            begin(&head, 0);
            if (n_written == 2)
                say_with(fd, ends[0]);
            close(ends[0]);
        }
    }
}

TEST(blocks_come_by_a_pipe)
{
    struct inf_tier_found found[2];
    struct cache_status status;
    struct service service;
    struct inf_tier *tier;
    char text[3];
    int fd;

    service_start(&service, serve_blocks);
    tier = client();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(find(tier, found), 1);
        assert_int_equal(found[0].size, 2);
        assert_int_equal(found[0].sum, 99);
        ASSERT_OK(tier->ops->read(tier, names, 1, 0, &fd));
        assert_int_equal(read(fd, text, 3), 2);
        assert_memory_equal(text, "45", 2);
        assert_int_equal(read(fd, text, 3), 0);
        close(fd);
    }
    assert_true(cache_client_status(&status));
    assert_int_equal(status.blocks, 5);
    cache_client_free(tier);
    assert_int_equal(service_end(&service), 1);
}

/* Answers READ without a descriptor, then with a descriptor that blocks, and then with an error. */
static void serve_no_pipe(int fd, int n)
{
    struct cache_head head;
    int ends[2];

    if (!greet(fd) || !hear(fd, &head) || pipe2(ends, O_CLOEXEC) < 0)
        return;
    if (n == 2)
        head.status = -ENOENT;
    begin(&head, 0);
    if (n == 1)
        say_with(fd, ends[0]);
    else
        say(fd);
    close(ends[0]);
    close(ends[1]);
    hear(fd, &head);
}

TEST(unreadable_blocks_are_misses)
{
    const int errors[] = {EBADMSG, EBADMSG, ENOENT};
    struct service service;
    int fd = -1;

    service_start(&service, serve_no_pipe);
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        struct inf_tier *tier = client();

        ASSERT_ERROR(tier->ops->read(tier, names, 1, 1, &fd), errors[i]);
        assert_int_equal(fd, -1);
        cache_client_free(tier);
    }
    assert_int_equal(service_end(&service), 3);
}

/* Ends the first connection after one answer, as a service does when it is idle or killed. */
static void serve_once(int fd, int n)
{
    struct cache_head head;

    if (n > 0) {
        serve_blocks(fd, n);
        return;
    }
    if (greet(fd) && hear(fd, &head)) {
        begin(&head, 0);
        say(fd);
    }
}

TEST(a_service_that_exited_is_asked_again)
{
    struct inf_tier_found found[2];
    struct service service;
    struct inf_tier *tier;

    service_start(&service, serve_once);
    tier = client();
    assert_int_equal(find(tier, found), 0);
    /* The client connects again, so the next call succeeds. */
    assert_int_equal(find(tier, found), 1);
    cache_client_free(tier);
    assert_int_equal(service_end(&service), 2);
}

static void serve_nothing(int fd, int n)
{
    struct cache_head head;
    char c;

    (void)n;
    if (greet(fd) && hear(fd, &head))
        while (recv(fd, &c, 1, 0) > 0)
            ;
}

TEST(a_service_that_hangs_is_a_miss_and_left_alone)
{
    struct inf_tier_found found[2];
    struct service service;
    struct inf_tier *tier;
    uint64_t at;

    service_start(&service, serve_nothing);
    tier = client();
    at = now_msec();
    ASSERT_ERROR(find(tier, found), ETIMEDOUT);
    assert_in_range(now_msec() - at, LIMIT_USEC / 1000 - 20, 5000);
    at = now_msec();
    for (int i = 0; i < 100; i++)
        ASSERT_ERROR(find(tier, found), EAGAIN);
    tier->ops->used(tier, &origin, names, 2);
    tier->ops->reject(tier, names[0]);
    assert_in_range(now_msec() - at, 0, 1000);
    cache_client_free(tier);
    assert_int_equal(service_end(&service), 1);
}

TEST(no_service_is_a_miss)
{
    struct inf_tier_found found[2];
    struct inf_tier_file file = {0};
    struct inf_tier *tier = client();
    uint8_t digest[32];

    ASSERT_ERROR(find(tier, found), ENOENT);
    ASSERT_ERROR(find(tier, found), EAGAIN);
    ASSERT_ERROR(tier->ops->recall(tier, &file, digest), EAGAIN);
    ASSERT_ERROR(tier->ops->remember(tier, &file, digest), EAGAIN);
    ASSERT_ERROR(tier->ops->put(tier, &origin, -1, NULL, 0), EAGAIN);
    cache_client_free(tier);
}

static void serve_alien(int fd, int n)
{
    struct cache_head head;

    (void)n;
    if (hear(fd, &head)) {
        head.version = CACHE_VERSION + 1;
        begin(&head, 0);
        say(fd);
    }
}

TEST(another_version_is_a_miss)
{
    struct inf_tier_found found[2];
    struct service service;
    struct inf_tier *tier;

    service_start(&service, serve_alien);
    tier = client();
    ASSERT_ERROR(find(tier, found), EPROTONOSUPPORT);
    ASSERT_ERROR(find(tier, found), EAGAIN);
    cache_client_free(tier);
    assert_int_equal(service_end(&service), 1);
}

/* Sends inconsistent answers. */
static void serve_nonsense(int fd, int n)
{
    const struct inf_tier_found found[3] = {{n > 0 ? 8 : 0, 1}, {8, 1}, {8, 1}};
    struct cache_head head;
    uint32_t count = 1;

    if (!greet(fd) || !hear(fd, &head))
        return;
    if (n == 1)
        count = 3; /* more than were requested */
    if (n == 3)
        head.request++;
    if (n == 4)
        head.type = CACHE_PUT;
    begin(&head, count);
    cache_put_found(&packet, found, n == 2 ? 0 : count); /* fewer entries than the count says */
    if (n == 5)
        packet.len -= 1;
    if (n == 6)
        packet.data[0] ^= 1;
    say(fd);
}

TEST(nonsense_is_a_miss)
{
    struct inf_tier_found found[2];
    struct service service;

    service_start(&service, serve_nonsense);
    for (int i = 0; i < 7; i++) {
        struct inf_tier *tier = client();

        ASSERT_ERROR(find(tier, found), EBADMSG);
        cache_client_free(tier);
    }
    assert_int_equal(service_end(&service), 7);
}

static int make_dir(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/test-cache-client-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/cache.sock", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_by_a_pipe),
        cmocka_unit_test(unreadable_blocks_are_misses),
        cmocka_unit_test(a_service_that_exited_is_asked_again),
        cmocka_unit_test(a_service_that_hangs_is_a_miss_and_left_alone),
        cmocka_unit_test(no_service_is_a_miss),
        cmocka_unit_test(another_version_is_a_miss),
        cmocka_unit_test(nonsense_is_a_miss),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
