/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of a service: to the journal with fields when it listens, else one line on stderr
 *
 * Prompts and answers are never logged. Any thread may log.
 */

#include <syslog.h>

#include "core/macros.h"

/* @name is static and becomes the field SCONCE_SERVICE. Reads SCONCE_LOG=debug|info|warning|error.
 */
void log_open(const char *name);
void log_msg(int priority, const char *format, ...) PRINTF(2, 3);

struct log_access {
    const char *id; /* x-request-id */
    const char *method, *path;
    int status; /* 0: the client left before the answer began */
    uint64_t bytes, duration_usec;
    const char *note; /* "client left", or NULL */
};

/* One line per request, at info. */
void log_request(const struct log_access *access);

#define log_error(...) log_msg(LOG_ERR, __VA_ARGS__)
#define log_warn(...)  log_msg(LOG_WARNING, __VA_ARGS__)
#define log_info(...)  log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)
