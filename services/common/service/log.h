/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Logs messages of a service: to the journal with fields, or as lines to stderr.
 *
 * Prompts and answers are never logged. All functions may be called from any thread.
 */

#include <syslog.h>

#include "core/macros.h"

/* Opens the log. @name is static and becomes the field SCONCE_SERVICE. The variable
 * SCONCE_LOG=debug|info|warning|error sets the level. */
void log_open(const char *name);
void log_msg(int priority, const char *format, ...) PRINTF(2, 3);

/* MESSAGE_ID= of messages that matter to administrators; units/sconce.catalog explains them. */
#define LOG_ID_MISCONFIGURED "7b89ee8353354d37bfe31db8ac91c257"
#define LOG_ID_MODEL_LOADED  "ab7558eb85a44ae5b018ef39c5447726"
#define LOG_ID_MODEL_FAILED  "5f165bc3d65a4697bc53f4e834d625ee"
#define LOG_ID_UNANSWERED    "fd221858ece44a6c8f9fc372fbaea14e"

/* Works like log_msg(), and adds the field MESSAGE_ID and, if @model is not NULL, the field
 * SCONCE_MODEL. */
void log_event(const char *id, int priority, const char *model, const char *format, ...)
    PRINTF(4, 5);

struct log_access {
    const char *id; /* x-request-id */
    const char *method, *path;
    int status; /* 499: the client left before its answer began */
    uint64_t bytes, duration_usec;
    const char *note;  /* "client left", or NULL */
    const char *trace; /* trace id of the W3C header traceparent, or NULL */
    const char *key;   /* name of the API key of the request, or NULL */
    bool is_inner;     /* the gateway sent the request and logs it, so this service logs it only at
                          debug level */
};

/* Logs one line per request, at level info, or warning if the status is 500 or above. */
void log_request(const struct log_access *access);

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_WARNING, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)
