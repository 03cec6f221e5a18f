/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts sconce-fetch and talks to it (see pull.h).
 *
 * A child process gets a pipe for each direction, its working directory and an empty environment. A
 * sconce-fetch that was started for a connection receives the descriptor of its directory with the
 * first byte, and sees no other directory of the store. The token goes through the pipe or the
 * connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/config/program.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"

enum {
    FETCHER_MAX_STATE = 2 << 20, /* in bytes */
    FETCHER_MAX_LINE = 8192,     /* in bytes */
};

struct fetcher {
    pid_t pid; /* 0: sconce-fetch is not a child of this process */
    FILE *to, *from;
    char *job;
};

static int fetcher_put(struct fetcher *f, json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    const int r = text && fprintf(f->to, "%s\n", text) > 0 && fflush(f->to) == 0 ? 0 : -EIO;

    json_decref(object);
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    return r;
}

static void fetcher_child(const char *program, const char *job, bool landlock_optional, int in,
                          int out)
{
    char *const argv[] = {(char *)(uintptr_t) "sconce-fetch",
                          landlock_optional ? (char *)(uintptr_t) "--landlock-optional" : NULL,
                          NULL};
    char *const env[] = {NULL};

    signal(SIGPIPE, SIG_DFL);
    if (chdir(job) == 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execve(program, argv, env);
    _exit(127);
}

static void pipe_close(int (*fds)[2])
{
    for (unsigned i = 0; i < 2; i++)
        if ((*fds)[i] >= 0)
            close((*fds)[i]);
}

/* Takes over the descriptors *to and *from, and sets those that it has taken to -1. */
static int fetcher_open(struct fetcher *f, int *to, int *from)
{
    f->to = fdopen(*to, "w");
    if (!f->to)
        return -errno;
    *to = -1;
    f->from = fdopen(*from, "r");
    if (!f->from)
        return -errno;
    *from = -1;
    return 0;
}

static int put_settings(struct fetcher *f, const struct fetcher_settings *s)
{
    json_t *hosts = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(s->private_hosts); i++)
        if (s->private_hosts[i])
            json_array_append_new(hosts, json_string(s->private_hosts[i]));
    return fetcher_put(f, json_pack("{s:s?, s:s?, s:s?, s:s?, s:o}", "token", s->token,
                                    "token_host", s->token_host, "proxy", s->proxy, "certificates",
                                    s->certificates, "private_hosts", hosts));
}

int fetcher_start(const char *job, const struct fetcher_settings *s, struct fetcher **ret_fetcher,
                  struct inf_err *reterr)
{
    _cleanup_(fetcher_stopp) struct fetcher *f = NEW(struct fetcher, 1);
    _cleanup_free_ char *program = program_find("fetch");
    _cleanup_(pipe_close) int in[2] = {-1, -1}, out[2] = {-1, -1};

    if (f)
        f->job = strdup(job);
    if (!f || !f->job)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!program)
        return err_set(reterr, ENOENT, "sconce-fetch is not installed in %s", SCONCE_LIBEXECDIR);
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        fetcher_open(f, &in[1], &out[0]) < 0 || (f->pid = fork()) < 0)
        return err_set(reterr, errno, "sconce-fetch cannot be started: %s", strerror(errno));
    if (f->pid == 0)
        fetcher_child(program, job, s->landlock_optional, in[0], out[1]);
    if (put_settings(f, s) < 0)
        return err_set(reterr, EIO, "sconce-fetch does not run");
    *ret_fetcher = STEAL(f);
    return 0;
}

/* Sends the descriptors of a directory and of a lock with one byte. */
static int send_descriptors(int connection, int dir, int lock, bool landlock_optional)
{
    const int fds[2] = {dir, lock};
    char byte = landlock_optional ? 'o' : 'r';
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(fds))];
    } control = {0};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    return sendmsg(connection, &msg, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

/* Connects to @path; returns the descriptor. */
static int connect_to(const char *path, struct inf_err *reterr)
{
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path) >= sizeof(sa.sun_path))
        return err_set(reterr, ENAMETOOLONG, "the path %s is too long for a socket", path);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return err_set(reterr, EIO,
                       "sconce-fetch cannot be started at %s: %s; is sconce-fetch.socket active?",
                       path, strerror(errno));
    return STEAL_FD(fd);
}

int fetcher_connect(const char *path, const char *job, int lock, const struct fetcher_settings *s,
                    struct fetcher **ret_fetcher, struct inf_err *reterr)
{
    _cleanup_(fetcher_stopp) struct fetcher *f = NEW(struct fetcher, 1);
    _cleanup_close_ int dir = open(job, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int to = -1, from = -1;

    if (f)
        f->job = strdup(job);
    if (!f || !f->job)
        return err_set(reterr, ENOMEM, "out of memory");
    if (dir < 0)
        return err_set(reterr, errno, "%s: %s", job, strerror(errno));
    to = connect_to(path, reterr);
    if (to < 0)
        return to;
    from = fcntl(to, F_DUPFD_CLOEXEC, 0);
    if (from < 0 || send_descriptors(to, dir, lock, s->landlock_optional) < 0)
        return err_set(reterr, errno, "sconce-fetch does not run: %s", strerror(errno));
    if (fetcher_open(f, &to, &from) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (put_settings(f, s) < 0)
        return err_set(reterr, EIO, "sconce-fetch does not run");
    *ret_fetcher = STEAL(f);
    return 0;
}

void fetcher_hang_up(const struct fetcher *f)
{
    shutdown(fileno(f->from), SHUT_RDWR);
}

struct fetcher *fetcher_stop(struct fetcher *f)
{
    if (!f)
        return NULL;
    if (f->to)
        fclose(f->to);
    if (f->from)
        fclose(f->from);
    if (f->pid > 0)
        waitpid(f->pid, NULL, 0);
    free(f->job);
    free(f);
    return NULL;
}

/* Returns how many bytes from the beginning of the file have arrived. The job's file `local`.state,
 * which sconce-fetch writes (fetch/chunks.c), says which chunks are complete. */
static uint64_t fetcher_arrived(const struct fetcher *f, const struct pull_file *file)
{
    _cleanup_free_ char *path = NULL, *text = NULL;
    unsigned long long size, chunk;
    const char *marks;
    size_t len;

    if (asprintf(&path, "%s/%s.state", f->job, file->local) < 0 ||
        file_read(path, FETCHER_MAX_STATE, &text, &len, NULL) < 0 ||
        sscanf(text, "%llu %llu", &size, &chunk) != 2 || !(marks = strchr(text, '\n')))
        return 0;
    return MIN(size, strspn(marks + 1, "1") * MIN(chunk, 1ull << 32));
}

int fetcher_get(struct fetcher *f, const struct pull_file *file, const char *accept, uint64_t limit,
                unsigned parts, void (*progress)(void *data, uint64_t bytes, uint64_t size),
                void *data, uint64_t *ret_size, struct inf_err *reterr)
{
    char line[FETCHER_MAX_LINE];
    json_t *size = file->size == UINT64_MAX ? json_null() : json_integer((json_int_t)file->size);

    if (fetcher_put(f, json_pack("{s:s, s:s, s:s?, s:o, s:I, s:i}", "url", file->url, "file",
                                 file->local, "accept", accept, "size", size, "limit",
                                 (json_int_t)MIN(limit, (uint64_t)INT64_MAX), "parts",
                                 (int)parts)) < 0)
        return err_set(reterr, EIO, "sconce-fetch has ended");
    while (fgets(line, sizeof(line), f->from) && strchr(line, '\n')) {
        json_t *event = json_loads(line, 0, NULL);
        const char *why = json_string_value(json_object_get(event, "error"));
        const json_int_t bytes = json_integer_value(json_object_get(event, "bytes"));
        const bool done = json_is_true(json_object_get(event, "done"));
        const json_t *all = json_object_get(event, "size");
        const json_int_t status = json_integer_value(json_object_get(event, "status"));
        int r = why ? err_set(reterr, status == 404 ? ENOENT : EIO, "%s", why) : 0;

        if (r == 0 && file->growing)
            store_growing_read(file->growing, fetcher_arrived(f, file));
        if (r == 0 && done)
            *ret_size = (uint64_t)MAX(bytes, (json_int_t)0);
        else if (r == 0 && progress && bytes >= 0)
            progress(data, (uint64_t)bytes,
                     json_is_integer(all) ? (uint64_t)json_integer_value(all) : UINT64_MAX);
        json_decref(event);
        if (r < 0 || done)
            return r;
    }
    return err_set(reterr, EIO,
                   "sconce-fetch has ended without an answer; `sconce doctor` finds a forbidden "
                   "system call in the kernel's log");
}
