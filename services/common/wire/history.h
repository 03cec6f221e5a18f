/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines how processes count requests for the history service.
 *
 * A service with models counts its requests in a struct history_counts: rows of fixed size, one for
 * each minute, model and API key. The gateway collects these rows with GET HISTORY_PATH, adds the
 * requests that no service answered, and sends all rows to the history service with POST
 * HISTORY_PATH. A row has numbers, the name of a model and the name of a key; it has nothing of the
 * content of requests.
 *
 * Counting must not delay a request. The number of rows has a limit. Requests that exceed it are
 * dropped and counted as lost.
 */

#include "common/http/http.h"
#include "core/str.h"

/* The route at the sockets of services; the gateway does not forward it. */
#define HISTORY_PATH "/history"
/* The header with the name of the API key, which the gateway adds to requests. */
#define HISTORY_KEY_HEADER "x-sconce-key-name"
#define HISTORY_ROWS       256 /* rows of one process */
#define HISTORY_MODEL      128 /* bytes of a model's name, with the NUL; longer names are cut */
#define HISTORY_KEY        64
#define HISTORY_SERVICE    16

/* The numbers of a row. All are sums over the requests of the row, except HISTORY_FIRST_MAX. */
enum history_number {
    HISTORY_REQUESTS,
    HISTORY_ERRORS,        /* requests that ended with an error other than 429 and 503 */
    HISTORY_REFUSED,       /* requests that ended with 429 or 503 */
    HISTORY_CANCELLED,     /* requests whose clients left before the end */
    HISTORY_PROMPT,        /* tokens of prompts */
    HISTORY_CACHED,        /* of these, tokens that the KV cache had */
    HISTORY_GENERATED,     /* tokens of answers */
    HISTORY_NEXT,          /* of these, tokens after the first of their answer */
    HISTORY_GENERATE_USEC, /* times from the first token to the last */
    HISTORY_FIRSTS,        /* requests with a first token */
    HISTORY_FIRST_USEC,    /* times from the arrival of a request to its first token */
    HISTORY_FIRST_MAX,     /* the longest of these times */
    HISTORY_DURATION_USEC, /* times from the arrival of a request to its end */
    HISTORY_AUDIO_MSEC,    /* lengths of the sound that was transcribed */
    HISTORY_NUMBERS,
};

/*
 * Percentiles are computed from histograms. A bucket has the values up to its upper bound. The
 * bound of each bucket after bucket 0 is HISTORY_BUCKET_RATIO times the bound of the bucket before
 * it. The last bucket also has all larger values.
 */
#define HISTORY_BUCKETS      64
#define HISTORY_BUCKET_RATIO 1.25
#define HISTORY_FIRST_LEAST  0.001 /* bound of bucket 0 of times to the first token, in seconds */
#define HISTORY_SPEED_LEAST  0.05  /* bound of bucket 0 of speeds, in tokens per second */

struct history_histogram {
    uint32_t counts[HISTORY_BUCKETS];
};

/* The values of which a row has a histogram. A request with a first token counts once in the first
 * histogram. If there are tokens after the first, it also counts once in the second one. */
enum history_spread {
    HISTORY_SPREAD_FIRST, /* the time from its arrival to its first token */
    HISTORY_SPREAD_SPEED, /* its speed from the first token to the last */
    HISTORY_SPREADS,
};

struct history_row {
    int64_t minute;                /* Unix seconds at which the minute begins */
    char service[HISTORY_SERVICE]; /* which service answered; "gateway": none did */
    char model[HISTORY_MODEL];     /* "": the request reached no model */
    char key[HISTORY_KEY];         /* "": there was no key, or it has no name */
    uint64_t numbers[HISTORY_NUMBERS];
    struct history_histogram spreads[HISTORY_SPREADS];
};

/* Zeroed memory is valid and empty. */
struct history_counts {
    struct history_row *rows; /* [n], HISTORY_ROWS when it is allocated */
    size_t n;
    uint64_t n_lost; /* requests that were dropped because all rows were in use */
};

/* Adds @numbers, which are those of one request, to the row of the present minute, @service, @model
 * and @key; NULL is "". */
void history_count(struct history_counts *counts, const char *service, const char *model,
                   const char *key, const uint64_t numbers[HISTORY_NUMBERS]);
void history_counts_done(struct history_counts *counts);
/* Answers GET HISTORY_PATH with all rows, and forgets them. */
void history_counts_send(struct history_counts *counts, struct http_request *request);
/* Copies the name of the API key from the headers of a request to @out; "" if there is none. */
void history_take_key(const struct http_request *request, char out[HISTORY_KEY]);

/* Copies row @i of @rows, the body of a message, to *ret_row. Returns false if the row is not
 * valid: texts without NUL, texts that are not UTF-8, or numbers that are too large. */
bool history_row_read(struct http_text rows, size_t i, struct history_row *ret_row);
/* Adds the numbers of @from to those of @to. */
void history_add(uint64_t to[HISTORY_NUMBERS], const uint64_t from[HISTORY_NUMBERS]);
/* Adds the counts of @from to those of @to; a count that is too large stays at the largest. */
void history_histogram_add(struct history_histogram *to, const struct history_histogram *from);
