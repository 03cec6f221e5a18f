/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-fetch fetches files for `sconce pull` and for sconce-store. It is the only program of
 * sconce that may connect to other machines. Each process does one job.
 *
 * `sconce pull` starts it as a child process, in a directory for the files of one job (JOB/fetch,
 * see common/store/store.h). For sconce-store, systemd or `sconce serve` starts it, with a
 * connection as standard input and output. The first byte from the connection is 'o' if Landlock is
 * optional. It comes with two descriptors: that of this directory, and that of the job's lock,
 * which stays open until the process ends.
 *
 * This directory is its working directory, and the only one in which it may write. The first line
 * of its standard input is an object with the settings: token, token_host, private_hosts, proxy and
 * certificates. Each further line asks for a file: url, file, accept, size, limit and parts. For
 * each file it writes lines {"bytes": N, "size": N} and then {"done": true, "bytes": N} or
 * {"error": TEXT, "status": N}. The program ends when its input ends.
 */
#include <errno.h>
#include <jansson.h>
#include <netdb.h>
#include <nss.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/confine/confine.h"
#include "core/err.h"
#include "fetch/fetch.h"

enum {
    LINE_BYTES = 4 << 20, /* bytes of one line of the input */
};

static void put(json_t *object)
{
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    /* If nobody reads the answers any more, the job is over. */
    if (text && (puts(text) < 0 || fflush(stdout) != 0))
        _exit(0);
    free(text);
}

static int put_error(const struct inf_err *err, long status)
{
    put(json_pack("{s:s, s:I}", "error", err->text, "status", (json_int_t)status));
    return -err->code;
}

static void put_progress(void *data, uint64_t bytes, uint64_t size)
{
    (void)data;
    put(json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "size",
                  size == UINT64_MAX ? json_null() : json_integer((json_int_t)size)));
}

/* Reads one line of the input. NULL: the input has ended, or the line is not an object. */
static json_t *read_line(char *line)
{
    json_t *object;

    if (!fgets(line, LINE_BYTES, stdin))
        return NULL;
    object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (object && !json_is_object(object)) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static void read_settings(const json_t *object, struct fetch_settings *ret)
{
    const json_t *hosts = json_object_get(object, "private_hosts");

    *ret = (struct fetch_settings){
        .token = json_string_value(json_object_get(object, "token")),
        .token_host = json_string_value(json_object_get(object, "token_host")),
        .proxy = json_string_value(json_object_get(object, "proxy")),
        .certificates = json_string_value(json_object_get(object, "certificates")),
    };
    for (size_t i = 0; i < json_array_size(hosts) && i < FETCH_MAX_HOSTS; i++)
        if (json_is_string(json_array_get(hosts, i)))
            ret->private_hosts[ret->n_private_hosts++] =
                json_string_value(json_array_get(hosts, i));
}

/* Returns a number of the object; @missing if it has none. */
static uint64_t number_of(const json_t *object, const char *name, uint64_t missing)
{
    const json_t *value = json_object_get(object, name);

    return json_is_integer(value) && json_integer_value(value) >= 0
               ? (uint64_t)json_integer_value(value)
               : missing;
}

static int read_request(const json_t *object, struct fetch_request *ret, struct inf_err *reterr)
{
    *ret = (struct fetch_request){
        .url = json_string_value(json_object_get(object, "url")),
        .file = json_string_value(json_object_get(object, "file")),
        .accept = json_string_value(json_object_get(object, "accept")),
        .size = number_of(object, "size", UINT64_MAX),
        .limit = number_of(object, "limit", 0),
        .parts = (unsigned)MIN(number_of(object, "parts", 0), (uint64_t)FETCH_MAX_PARTS),
    };
    if (!ret->url || !ret->file || !ret->file[0] || ret->file[0] == '.' || strchr(ret->file, '/'))
        return err_set(reterr, EINVAL, "the request needs a url and the name of a file");
    return 0;
}

static void serve_request(const struct fetch_settings *settings, const json_t *object)
{
    struct fetch_result result = {0};
    struct fetch_request request;
    struct inf_err err = {0};
    int r = read_request(object, &request, &err);

    if (r == 0)
        r = fetch_file(settings, &request, put_progress, NULL, &result, &err);
    if (r < 0)
        put_error(&err, result.status);
    else
        put(json_pack("{s:b, s:I}", "done", 1, "bytes", (json_int_t)result.size));
}

/* Applies the policy. Everything that loads files or libraries must run before it. */
static int confine(bool landlock_optional, struct inf_err *reterr)
{
    _cleanup_(config_freep) struct config *config = NULL;
    int r;

    /* Other sources of names would load libraries, and connect to other processes. */
    __nss_configure_lookup("hosts", "files dns");
    if (config_new(&config) < 0 || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(reterr, ENOMEM, "out of memory");
    if (landlock_optional)
        config->confinement.landlock = CONFIG_LANDLOCK_OPTIONAL;
    r = confine_start("fetch", config, reterr);
    return r < 0 ? r : confine_seal(reterr);
}

/* Receives one byte with the descriptors of the directory and of the job's lock. Makes the
 * directory the working directory. */
static int enter_directory(bool *ret_landlock_optional, struct inf_err *reterr)
{
    int fds[2];
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(sizeof(fds))];
    } control;
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const ssize_t n = recvmsg(STDIN_FILENO, &msg, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n == 1 ? CMSG_FIRSTHDR(&msg) : NULL;

    if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(fds)))
        return err_set(reterr, EPROTO, "sconce-fetch got no directory");
    memcpy(fds, CMSG_DATA(head), sizeof(fds));
    /* Everybody may read the models of a service. */
    umask(0022);
    if (fchdir(fds[0]) < 0)
        return err_set(reterr, errno, "the directory of the job: %s", strerror(errno));
    close(fds[0]);
    *ret_landlock_optional = byte == 'o';
    return 0;
}

static bool is_connection(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Reads the settings, and serves the requests that follow. */
static int serve(char *line)
{
    struct fetch_settings settings;
    json_t *first = read_line(line), *object;

    if (!first)
        return 1;
    /* From here on, only the object has the token and the certificates. */
    explicit_bzero(line, LINE_BYTES);
    read_settings(first, &settings);
    while ((object = read_line(line))) {
        serve_request(&settings, object);
        json_decref(object);
    }
    json_decref(first);
    return 0;
}

int main(int argc, char **argv)
{
    _cleanup_free_ char *line = NULL;
    bool landlock_optional = argc == 2;
    struct inf_err err = {0};
    int r = 0;

    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return puts("sconce-fetch fetches files for `sconce pull` and sconce-store.\n\n"
                    "  --landlock-optional  continue without Landlock if the kernel does not have "
                    "it") < 0;
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--landlock-optional") != 0)) {
        fputs("sconce-fetch: this program is started only for `sconce pull` and sconce-store\n",
              stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    line = malloc(LINE_BYTES);
    if (!line)
        return 1;
    if (is_connection(STDIN_FILENO))
        r = enter_directory(&landlock_optional, &err);
    if (r == 0)
        r = confine(landlock_optional, &err);
    return r < 0 ? put_error(&err, 0) < 0 : serve(line);
}
