/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes why requests fail (see problem.h).
 *
 * The texts may contain pieces of a client's request. They are truncated to the size of their
 * fields, and the JSON writer escapes them.
 */
#include "common/http/problem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/http/api-error.h"

int problem_set(struct problem *problem, int status, const char *code, const char *param,
                const char *format, ...)
{
    va_list ap;

    problem->status = status;
    problem->code = code;
    problem->retry_sec = 0;
    problem->n_prompt_tokens = problem->n_ctx = 0;
    snprintf(problem->param, sizeof(problem->param), "%s", param ? param : "");
    va_start(ap, format);
    vsnprintf(problem->message, sizeof(problem->message), format, ap);
    va_end(ap);
    return -EINVAL;
}

int problem_no_memory(struct problem *problem)
{
    return problem_set(problem, 503, "out_of_memory", NULL, "Out of memory.");
}

void problem_send(const struct problem *problem, struct http_request *request)
{
    api_error_answer(request,
                     &(struct api_error){.status = problem->status,
                                         .code = problem->code,
                                         .param = problem->param[0] ? problem->param : NULL,
                                         .message = problem->message,
                                         .n_prompt_tokens = problem->n_prompt_tokens,
                                         .n_ctx = problem->n_ctx},
                     problem->retry_sec);
}
