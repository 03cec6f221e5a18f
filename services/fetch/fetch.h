/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fetches files over HTTPS into the working directory.
 *
 * Every connection obeys the rules of docs/security.md, "Models from the network": only HTTPS; only
 * public addresses, except for hosts that the settings name; and the token only for its host.
 * Redirects are followed here and not in libcurl, so that each of them is checked.
 *
 * A large file is fetched in chunks, over several connections at a time. FILE.part has its bytes.
 * FILE.state has one character for each chunk, which says whether the chunk is complete, so that a
 * later process can continue where this one ended.
 */

#include <curl/curl.h>

#include <infer/types.h>

#include "core/macros.h"

enum {
    FETCH_MAX_HOSTS = 4,
    FETCH_MAX_HOPS = 10, /* redirects of one request */
    FETCH_MAX_PARTS = 8,
    FETCH_MAX_TRIES = 6,
};

/* Holds the settings that the parent process sends at the beginning. The texts are borrowed. */
struct fetch_settings {
    const char *token, *token_host;             /* NULL: none. The host is "NAME:PORT" */
    const char *private_hosts[FETCH_MAX_HOSTS]; /* "NAME:PORT": may have any address */
    size_t n_private_hosts;
    const char *proxy;        /* a URL; NULL: none */
    const char *certificates; /* PEM; NULL: those of the system */
};

/* Struct fetch_request describes a file to fetch. */
struct fetch_request {
    const char *url;
    const char *file;   /* a name without slashes */
    const char *accept; /* the media types for the header Accept; NULL: any */
    uint64_t size;      /* expected bytes; UINT64_MAX: unknown */
    uint64_t limit;     /* the largest size */
    unsigned parts;     /* connections; 0: a small file, which is always fetched from its beginning,
                           over one connection */
};

struct fetch_result {
    uint64_t size;
    long status; /* of HTTP; 0: no answer */
};

/* Called with the number of bytes that have arrived, and with the size of the file (UINT64_MAX:
 * unknown). */
typedef void (*fetch_progress)(void *data, uint64_t bytes, uint64_t size);

/* Struct fetch_place describes the file to which the redirects of a request led. */
struct fetch_place {
    char *url;
    char etag[128];  /* "": none */
    uint64_t size;   /* UINT64_MAX: unknown */
    bool has_ranges; /* the server sends parts of the file */
    long status;
    unsigned wait_seconds; /* the server's Retry-After; 0: none */
};

/* --- connection.c --- */

/* Prepares a handle for one request to @url, without its redirects: scheme, address, token,
 * certificates. The caller frees *ret_headers after the transfer. @range is "FIRST-LAST", or NULL.
 * -EPERM: the rules forbid the URL or its address; -EHOSTUNREACH: the name has no address. */
int connection_prepare(CURL *easy, const struct fetch_settings *settings, const char *url,
                       const char *accept, const char *range, struct curl_slist **ret_headers,
                       struct inf_err *reterr);
/* Explains why a transfer failed. Returns -EAGAIN if another try may succeed, else another negative
 * errno value. */
int connection_failed(CURL *easy, CURLcode code, struct inf_err *reterr);
/* Explains a status other than success. Returns what connection_failed() returns. */
int connection_refused(long status, const char *url, struct inf_err *reterr);

/* --- locate.c --- */

/* Receives a part of a body. Returns false to end the transfer. */
typedef bool (*locate_body)(void *data, const void *bytes, size_t n);

/* Requests the URL of @request and follows its redirects. The body of a success goes to @body;
 * NULL: only the first byte is requested, to learn the size and whether the server sends parts.
 * Tries again after temporary errors. The caller frees ret_place->url, also after a failure. */
int locate(const struct fetch_settings *settings, const struct fetch_request *request,
           locate_body body, void *data, struct fetch_place *ret_place, struct inf_err *reterr);
/* Waits before try @n (counted from 1), for at least @seconds. */
void locate_wait(unsigned n, unsigned seconds);

/* --- chunks.c --- */

/* Fetches the file at @place in parts. */
int chunks_fetch(const struct fetch_settings *settings, const struct fetch_request *request,
                 const struct fetch_place *place, fetch_progress progress, void *data,
                 struct inf_err *reterr);

/* --- fetch.c --- */

/* Fetches one file. *ret_result is set on success and on failure. */
int fetch_file(const struct fetch_settings *settings, const struct fetch_request *request,
               fetch_progress progress, void *data, struct fetch_result *ret_result,
               struct inf_err *reterr);
