/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares connections so that they obey the rules (see fetch.h).
 *
 * Names are resolved here, and libcurl gets the addresses. Before a socket connects, a callback
 * checks its address again, so that nothing that libcurl does in between can evade the rules.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "core/err.h"
#include "core/str.h"
#include "fetch/address.h"
#include "fetch/fetch.h"

enum {
    CONNECTION_TIMEOUT = 20, /* seconds: limit to connect, and to wait for a byte */
};

/* The parts of a URL. */
struct connection_url {
    char *scheme, *host, *port; /* freed with curl_free() */
};

static void url_done(struct connection_url *u)
{
    curl_free(u->scheme);
    curl_free(u->host);
    curl_free(u->port);
}

static int url_read(const char *text, struct connection_url *ret, struct inf_err *reterr)
{
    CURLU *url = curl_url();
    bool ok;

    *ret = (struct connection_url){0};
    if (!url)
        return err_set(reterr, ENOMEM, "out of memory");
    ok = curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
         curl_url_get(url, CURLUPART_SCHEME, &ret->scheme, 0) == CURLUE_OK &&
         curl_url_get(url, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK &&
         curl_url_get(url, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    curl_url_cleanup(url);
    if (ok)
        return 0;
    url_done(ret);
    return err_set(reterr, EINVAL, "%.100s is not a URL", text);
}

/* Returns whether @u is the host @name, which is "NAME:PORT". */
static bool url_is(const struct connection_url *u, const char *name)
{
    const size_t n = strlen(u->host);

    return strncasecmp(u->host, name, n) == 0 && name[n] == ':' &&
           strcmp(name + n + 1, u->port) == 0;
}

static bool may_be_private(const struct fetch_settings *settings, const struct connection_url *u)
{
    for (size_t i = 0; i < settings->n_private_hosts; i++)
        if (url_is(u, settings->private_hosts[i]))
            return true;
    return false;
}

/* Says whether an address was refused since the last failure. libcurl reports a refused address
 * like a server that does not answer, but another try would not help. This program has one
 * thread. */
static bool address_refused;

/* Makes the socket of a connection, if the address is allowed (CURLOPT_OPENSOCKETFUNCTION). If
 * @data is not NULL, any address is allowed. */
static curl_socket_t connection_socket(void *data, curlsocktype purpose,
                                       struct curl_sockaddr *address)
{
    if (purpose != CURLSOCKTYPE_IPCXN)
        return CURL_SOCKET_BAD;
    if (!data && !address_is_public(&address->addr)) {
        address_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Appends the allowed addresses of a list, with commas between them. Returns how many there are. */
static size_t put_addresses(struct str *out, const struct addrinfo *list, bool any, int *ret_r)
{
    char text[INET6_ADDRSTRLEN];
    size_t n = 0;
    int r = 0;

    for (; list && r == 0; list = list->ai_next) {
        if ((!any && !address_is_public(list->ai_addr)) ||
            getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof(text), NULL, 0,
                        NI_NUMERICHOST) != 0)
            continue;
        r = str_printf(out, list->ai_family == AF_INET6 ? "%s[%s]" : "%s%s", n++ ? "," : "", text);
    }
    *ret_r = r;
    return n;
}

/* Resolves the host of @u, and writes "HOST:PORT:ADDRESS,…" for libcurl. */
static int resolve(const struct connection_url *u, bool any, struct str *out,
                   struct inf_err *reterr)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    size_t n;
    int r;

    r = getaddrinfo(u->host, u->port, &hints, &list);
    if (r != 0)
        return err_set(reterr, r == EAI_AGAIN ? EAGAIN : EHOSTUNREACH,
                       "the address of %.100s cannot be found: %s", u->host, gai_strerror(r));
    r = str_printf(out, "%s:%s:", u->host, u->port);
    n = r == 0 ? put_addresses(out, list, any, &r) : 0;
    freeaddrinfo(list);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (n == 0)
        return err_set(reterr, EPERM,
                       "%.100s has no public address; only a mirror that the configuration names "
                       "may have a private one",
                       u->host);
    return 0;
}

static int add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *more = curl_slist_append(*list, text);

    if (!more)
        return -ENOMEM;
    *list = more;
    return 0;
}

static int put_headers(const struct fetch_settings *settings, const struct connection_url *u,
                       const char *accept, struct curl_slist **ret)
{
    _cleanup_str_ struct str line = {0};
    int r = 0;

    if (accept && (r = str_printf(&line, "Accept: %s", accept)) == 0)
        r = add_header(ret, line.data);
    str_clear(&line);
    if (r == 0 && settings->token && settings->token_host && url_is(u, settings->token_host) &&
        (r = str_printf(&line, "Authorization: Bearer %s", settings->token)) == 0)
        r = add_header(ret, line.data);
    return r;
}

/* Sets what is the same for all transfers. */
static void set_common(CURL *easy, const struct fetch_settings *settings)
{
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sconce/" SCONCE_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECTION_TIMEOUT);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)CONNECTION_TIMEOUT);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L * 1024);
    curl_easy_setopt(easy, CURLOPT_PROXY, settings->proxy ? settings->proxy : "");
    if (settings->certificates) {
        struct curl_blob blob = {(void *)(uintptr_t)settings->certificates,
                                 strlen(settings->certificates), CURL_BLOB_COPY};

        curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob);
    }
}

/* Gives libcurl the addresses of the host to which it connects: the proxy, or the server. */
static int set_addresses(CURL *easy, const struct fetch_settings *settings,
                         const struct connection_url *u, struct inf_err *reterr)
{
    const bool any = settings->proxy || may_be_private(settings, u);
    struct connection_url proxy = {0};
    _cleanup_str_ struct str line = {0};
    const struct connection_url *peer = settings->proxy ? &proxy : u;
    struct curl_slist *list = NULL;
    int r = settings->proxy ? url_read(settings->proxy, &proxy, reterr) : 0;

    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, connection_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, any ? easy : NULL);
    /* An IPv6 address in a URL needs no resolver; the callback checks it. */
    if (r == 0 && peer->host[0] != '[')
        r = resolve(peer, any, &line, reterr);
    url_done(&proxy);
    if (r < 0 || !line.data)
        return r;
    list = curl_slist_append(NULL, line.data);
    if (!list)
        return err_set(reterr, ENOMEM, "out of memory");
    curl_easy_setopt(easy, CURLOPT_RESOLVE, list);
    /* libcurl reads the list when the transfer begins. The owner of the handle frees it later. */
    curl_easy_setopt(easy, CURLOPT_PRIVATE, list);
    return 0;
}

int connection_prepare(CURL *easy, const struct fetch_settings *settings, const char *url,
                       const char *accept, const char *range, struct curl_slist **ret_headers,
                       struct inf_err *reterr)
{
    struct connection_url u;
    int r = url_read(url, &u, reterr);

    *ret_headers = NULL;
    if (r < 0)
        return r;
    if (strcmp(u.scheme, "https") != 0)
        r = err_set(reterr, EPERM, "%.100s does not begin with https://", url);
    if (r == 0) {
        set_common(easy, settings);
        r = set_addresses(easy, settings, &u, reterr);
    }
    if (r == 0 && put_headers(settings, &u, accept, ret_headers) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    url_done(&u);
    if (r < 0)
        return r;
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *ret_headers);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_RANGE, range);
    return 0;
}

int connection_failed(CURL *easy, CURLcode code, struct inf_err *reterr)
{
    const char *url = NULL;

    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &url);
    if (address_refused) {
        address_refused = false;
        return err_set(reterr, EPERM, "%.150s leads to an address that is not public",
                       url ? url : "");
    }
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
        return err_set(reterr, EAGAIN, "%.150s: %s", url ? url : "", curl_easy_strerror(code));
    case CURLE_OUT_OF_MEMORY:
        return err_set(reterr, ENOMEM, "out of memory");
    default:
        return err_set(reterr, EIO, "%.150s: %s", url ? url : "", curl_easy_strerror(code));
    }
}

int connection_refused(long status, const char *url, struct inf_err *reterr)
{
    static const struct {
        long status;
        const char *why;
    } rows[] = {
        {401, "it asks for a token: set HF_TOKEN, or pull.token_file in the configuration"},
        {403, "it forbids this; a model may have terms to accept on its page, with your account"},
        {404, "there is no such model or file"},
        {416, "the file has changed on the server"},
        {429, "it asks for fewer requests; try again later"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].status == status)
            return err_set(reterr, status == 429 ? EAGAIN : ENOENT,
                           "%.200s answers with status %ld: %s", url, status, rows[i].why);
    return err_set(reterr, status >= 500 ? EAGAIN : EIO, "%.200s answers with status %ld", url,
                   status);
}
