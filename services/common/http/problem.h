/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes why a request cannot be answered: with a status, a code for programs, a field, and a
 * sentence. */

#include <stdint.h>

#include "core/macros.h"

struct http_request;

struct problem {
    int status;
    const char *code; /* static */
    char param[128];  /* the field, such as "messages[2].content"; "": none */
    char message[512];
    unsigned retry_sec;
    uint64_t n_prompt_tokens, n_ctx; /* set if a prompt does not fit into the context; else 0 */
};

/* Fills @problem and returns -EINVAL, for `return problem_set(…)`. @param may be NULL. */
int problem_set(struct problem *problem, int status, const char *code, const char *param,
                const char *format, ...) PRINTF(5, 6);
/* Fills @problem for the case that memory ran out: the answer has the status 503. Returns -EINVAL,
 * as problem_set() does. */
int problem_no_memory(struct problem *problem);
void problem_send(const struct problem *problem, struct http_request *request);
