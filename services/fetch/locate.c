/* SPDX-License-Identifier: Apache-2.0 */
/* Follows redirects to a file, and finds out its size (see fetch.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/err.h"
#include "fetch/fetch.h"

/* Struct locate_hop is a request whose answer arrives. A hop is a request without the redirects
 * that follow. */
struct locate_hop {
    CURL *easy;
    struct fetch_place *place;
    locate_body body; /* NULL: the body is not wanted */
    void *data;
};

/* Returns the value of a header line if it has the name @name, else NULL. */
static const char *header_value(const char *line, size_t n, const char *name, size_t *ret_n)
{
    const size_t len = strlen(name);

    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return NULL;
    line += len + 1;
    n -= len + 1;
    while (n > 0 && (*line == ' ' || *line == '\t'))
        line++, n--;
    while (n > 0 && strchr("\r\n ", line[n - 1]))
        n--;
    *ret_n = n;
    return line;
}

/* Reads a number. False: @text has other characters than digits, or too many digits. */
static bool read_digits(const char *text, size_t n, uint64_t *ret)
{
    uint64_t value = 0;

    if (n == 0 || n > 18)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = value;
    return true;
}

static void read_content_range(struct fetch_place *place, const char *value, size_t n)
{
    const char *slash = memchr(value, '/', n);

    if (slash && read_digits(slash + 1, n - (size_t)(slash + 1 - value), &place->size))
        place->has_ranges = true;
}

static size_t on_header(char *line, size_t one, size_t n, void *data)
{
    struct locate_hop *hop = data;
    const char *value;
    uint64_t number;
    size_t len;

    if ((value = header_value(line, n, "content-range", &len)))
        read_content_range(hop->place, value, len);
    else if ((value = header_value(line, n, "etag", &len)))
        snprintf(hop->place->etag, sizeof(hop->place->etag), "%.*s", (int)len, value);
    else if ((value = header_value(line, n, "retry-after", &len)) &&
             read_digits(value, len, &number))
        hop->place->wait_seconds = (unsigned)MIN(number, (uint64_t)60);
    else if ((value = header_value(line, n, "content-length", &len)) &&
             read_digits(value, len, &number) && !hop->place->has_ranges)
        hop->place->size = number;
    return one * n;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *data)
{
    struct locate_hop *hop = data;
    long status = 0;

    curl_easy_getinfo(hop->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299)
        return one * n;
    /* A server that does not send parts sends the whole file. The transfer ends with the first
     * bytes, because they are enough to know this. */
    if (!hop->body)
        return status == 206 ? one * n : CURL_WRITEFUNC_ERROR;
    return hop->body(hop->data, bytes, one * n) ? one * n : CURL_WRITEFUNC_ERROR;
}

/* Makes one request. *ret_next gets the target of a redirect, which the caller frees, or NULL. */
static int hop_perform(struct locate_hop *hop, const struct fetch_settings *settings,
                       const struct fetch_request *request, char **ret_next, struct inf_err *reterr)
{
    struct curl_slist *headers = NULL, *addresses = NULL;
    const char *next = NULL;
    CURLcode code;
    int r;

    hop->place->size = UINT64_MAX;
    hop->place->has_ranges = false;
    hop->place->etag[0] = 0;
    r = connection_prepare(hop->easy, settings, hop->place->url, request->accept,
                           hop->body ? NULL : "0-0", &headers, reterr);
    if (r == 0) {
        curl_easy_setopt(hop->easy, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(hop->easy, CURLOPT_HEADERDATA, hop);
        curl_easy_setopt(hop->easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(hop->easy, CURLOPT_WRITEDATA, hop);
        code = curl_easy_perform(hop->easy);
        curl_easy_getinfo(hop->easy, CURLINFO_RESPONSE_CODE, &hop->place->status);
        curl_easy_getinfo(hop->easy, CURLINFO_REDIRECT_URL, &next);
        if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && !hop->body))
            r = connection_failed(hop->easy, code, reterr);
        else if (next && !(*ret_next = strdup(next)))
            r = err_set(reterr, ENOMEM, "out of memory");
    }
    curl_easy_getinfo(hop->easy, CURLINFO_PRIVATE, &addresses);
    curl_easy_setopt(hop->easy, CURLOPT_RESOLVE, NULL);
    curl_slist_free_all(addresses);
    curl_slist_free_all(headers);
    return r;
}

/* Follows the redirects of one try. */
static int locate_once(struct locate_hop *hop, const struct fetch_settings *settings,
                       const struct fetch_request *request, struct inf_err *reterr)
{
    for (unsigned i = 0; i <= FETCH_MAX_HOPS; i++) {
        char *next = NULL;
        int r = hop_perform(hop, settings, request, &next, reterr);

        if (r < 0)
            return r;
        if (!next)
            return hop->place->status >= 200 && hop->place->status <= 299
                       ? 0
                       : connection_refused(hop->place->status, hop->place->url, reterr);
        free(hop->place->url);
        hop->place->url = next;
        curl_easy_reset(hop->easy);
    }
    return err_set(reterr, ELOOP, "%.200s: more than %d redirects", request->url, FETCH_MAX_HOPS);
}

void locate_wait(unsigned n, unsigned seconds)
{
    const struct timespec time = {
        .tv_sec = MAX(seconds, n > 2 ? 1u << MIN(n - 2, 4u) : 0),
        .tv_nsec = n > 2 || seconds ? 0 : 200000000,
    };

    nanosleep(&time, NULL);
}

int locate(const struct fetch_settings *settings, const struct fetch_request *request,
           locate_body body, void *data, struct fetch_place *ret_place, struct inf_err *reterr)
{
    struct locate_hop hop = {.place = ret_place, .body = body, .data = data};
    int r = -EAGAIN;

    *ret_place = (struct fetch_place){0};
    for (unsigned i = 0; r == -EAGAIN && i < FETCH_MAX_TRIES; i++) {
        if (i > 0)
            locate_wait(i, ret_place->wait_seconds);
        ret_place->wait_seconds = 0;
        free(ret_place->url);
        ret_place->url = strdup(request->url);
        hop.easy = curl_easy_init();
        r = hop.easy && ret_place->url ? locate_once(&hop, settings, request, reterr)
                                       : err_set(reterr, ENOMEM, "out of memory");
        curl_easy_cleanup(hop.easy);
        /* A body that has begun to arrive cannot begin again. */
        if (body && r == -EAGAIN && ret_place->status >= 200 && ret_place->status <= 299)
            return r;
    }
    return r;
}
