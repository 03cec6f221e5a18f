/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends a question to the keep service, and waits for the answer. The thread of the event loop must
 * not do this. */

#include "common/wire/keep-protocol.h"

struct keep_question {
    const char *method;
    struct http_text target; /* path and query */
    const char *tenant, *id;
    struct http_text body;
};

/* Sends a question to the socket at @path. *ret_status is the status of the answer, and its body,
 * JSON, is appended to @body. Negative: there was no answer; -ENOENT, -ECONNREFUSED: nothing
 * listens there. */
int keep_client_ask(const char *path, const struct keep_question *question, struct str *body,
                    int *ret_status);

/* Writes the counters of this process, and the numbers that the last answer of the service had. May
 * be called from any thread. */
void keep_client_metrics(struct str *out);
