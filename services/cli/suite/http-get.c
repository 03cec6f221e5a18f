/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends HTTP/1.0 requests to a gateway (see http-get.h).
 *
 * With HTTP/1.0 the answer ends when the connection is closed, so only the status line and the end
 * of the header are parsed.
 */
#include "cli/suite/http-get.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "core/err.h"
#include "core/text.h"

enum {
    HTTP_GET_MAX = 16 << 20,
    HTTP_GET_SECONDS = 10,
};

static int connect_unix(const char *path)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;

    if (strlen(path) >= sizeof(sa.sun_path))
        return -ENAMETOOLONG;
    memcpy(sa.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    return STEAL_FD(fd);
}

/* Connects to "HOST:PORT"; an IPv6 HOST is in brackets. */
static int connect_tcp(const char *address, size_t len)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const char *colon = memrchr(address, ':', len);
    const bool bracketed = colon && address[0] == '[' && colon[-1] == ']';
    _cleanup_free_ char *host = NULL, *port = NULL;
    _cleanup_close_ int fd = -1;
    struct addrinfo *list;
    int r = 0;

    if (!colon)
        return -EINVAL;
    host = strndup(address + bracketed, (size_t)(colon - address) - 2 * bracketed);
    port = strndup(colon + 1, len - (size_t)(colon + 1 - address));
    if (!host || !port)
        return -ENOMEM;
    if (getaddrinfo(host, port, &hints, &list) != 0)
        return -EINVAL;
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen) < 0)
        r = -errno;
    freeaddrinfo(list);
    return r < 0 ? r : STEAL_FD(fd);
}

/* Finds "HOST:PORT" in "http://HOST:PORT/v1/", and its length. */
static const char *host_and_port(const char *address, size_t *ret_len)
{
    static const char scheme[] = "http://", base[] = "/v1";
    size_t len;

    if (strncmp(address, scheme, sizeof(scheme) - 1) == 0)
        address += sizeof(scheme) - 1;
    len = strlen(address);
    if (len > 0 && address[len - 1] == '/')
        len--;
    if (len >= sizeof(base) - 1 && memcmp(address + len - sizeof(base) + 1, base, 3) == 0)
        len -= sizeof(base) - 1;
    *ret_len = len;
    return address;
}

bool http_address_is_good(const char *address)
{
    size_t len;
    const char *rest = host_and_port(address, &len), *colon = memrchr(rest, ':', len);
    const size_t n_digits = colon ? strspn(colon + 1, "0123456789") : 0;

    if (text_starts_with(address, "unix:"))
        return address[5] != 0;
    return colon && colon > rest && !memchr(rest, '/', len) && n_digits > 0 && n_digits <= 5 &&
           colon + 1 + n_digits == rest + len;
}

int http_connect(const char *address)
{
    size_t len;
    const char *rest = host_and_port(address, &len);

    return text_starts_with(address, "unix:") ? connect_unix(address + 5) : connect_tcp(rest, len);
}

/* A request: a GET if @json is NULL, else a POST of @json */
struct request {
    const char *path, *key, *json;
    unsigned seconds;
};

static int http_transfer(int fd, const struct request *q, struct str *head)
{
    const struct timeval limit = {.tv_sec = q->seconds};
    _cleanup_str_ struct str request = {0};
    char buf[16384];
    ssize_t n;
    int r;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    r = str_printf(&request, "%s %s HTTP/1.0\r\nHost: localhost\r\n", q->json ? "POST" : "GET",
                   q->path);
    if (r == 0 && q->key)
        r = str_printf(&request, "Authorization: Bearer %s\r\n", q->key);
    if (r == 0 && q->json)
        r = str_printf(&request, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                       strlen(q->json));
    if (r == 0)
        r = str_puts(&request, "\r\n");
    if (r == 0 && q->json)
        r = str_puts(&request, q->json);
    if (r < 0)
        return r;
    if (send(fd, request.data, request.len, MSG_NOSIGNAL) != (ssize_t)request.len)
        return -EIO;
    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        if (head->len + (size_t)n > HTTP_GET_MAX)
            return -EFBIG;
        r = str_append(head, buf, (size_t)n);
        if (r < 0)
            return r;
    }
    return n < 0 ? (errno == EAGAIN ? -ETIMEDOUT : -errno) : 0;
}

static int http_ask(const char *address, const struct request *q, struct str *body,
                    struct inf_err *reterr)
{
    _cleanup_close_ int fd = -1;
    _cleanup_str_ struct str all = {0};
    const char *end;
    int status = 0, r;

    fd = http_connect(address);
    if (fd < 0)
        return err_set(reterr, -fd, "%s: %s", address, strerror(-fd));
    r = http_transfer(fd, q, &all);
    if (r < 0)
        return err_set(reterr, -r, "%s: %s", address, strerror(-r));
    end = all.data ? memmem(all.data, all.len, "\r\n\r\n", 4) : NULL;
    if (!end || sscanf(all.data, "HTTP/1.%*c %d", &status) != 1)
        return err_set(reterr, EBADMSG, "%s: the answer is not HTTP", address);
    str_clear(body);
    r = str_append(body, end + 4, all.len - (size_t)(end + 4 - all.data));
    return r < 0 ? err_set(reterr, -r, "out of memory") : status;
}

int http_get(const char *address, const char *path, const char *key, struct str *body,
             struct inf_err *reterr)
{
    const struct request q = {.path = path, .key = key, .seconds = HTTP_GET_SECONDS};

    return http_ask(address, &q, body, reterr);
}

int http_post(const char *address, const char *path, const char *key, const char *json,
              unsigned seconds, struct str *body, struct inf_err *reterr)
{
    const struct request q = {.path = path, .key = key, .json = json, .seconds = seconds};

    return http_ask(address, &q, body, reterr);
}
