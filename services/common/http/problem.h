/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a request cannot be answered: a status, a code for programs, a field, and a sentence. */

#include "core/macros.h"

struct http_request;

struct problem {
    int status;
    const char *code; /* static */
    char param[128];  /* the field, "messages[2].content"; "" for none */
    char message[512];
    unsigned retry_sec;
};

/* Fills it; returns -EINVAL, so that `return problem_set(…)` reads well. @param may be NULL. */
int problem_set(struct problem *problem, int status, const char *code, const char *param,
                const char *format, ...) PRINTF(5, 6);
/* 503: there is no memory. -EINVAL as well. */
int problem_no_memory(struct problem *problem);
void problem_send(const struct problem *problem, struct http_request *request);
