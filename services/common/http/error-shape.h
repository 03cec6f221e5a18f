/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares how the APIs write errors: as the body of an answer, and within a stream.
 *
 * A shape is the format of one API's errors. Each route names its shape (routes.h). A request gets
 * the shape of its route as soon as the route is known, so that every part that refuses the request
 * answers in the format of its API.
 */

#include <stdint.h>

#include "core/str.h"

struct api_error {
    int status;
    const char *code;  /* code for programs; NULL: none */
    const char *param; /* the field of the request; NULL: none */
    const char *message;
    uint64_t n_prompt_tokens, n_ctx; /* set if a prompt does not fit into the context; else 0 */
};

/* All strings are static. */
struct error_shape {
    /* Appends the JSON object. -ENOMEM. */
    int (*put)(struct str *out, const struct api_error *error);
    /* In a stream, an error is one event, which consists of `head`, the JSON object and `tail`.
     * Every event of a stream ends with `tail`. */
    const char *head, *tail;
    const char *start; /* the bytes that begin an error event, and no other event */
    /* Appends the JSON object of an error in a stream. NULL: it is the same as in a body, and `put`
     * appends it. */
    int (*put_event)(struct str *out, const struct api_error *error);
};

extern const struct error_shape errors_openai;    /* {"error":{"message","type","param","code"}} */
extern const struct error_shape errors_responses; /* errors_openai; in streams, events "error" */
extern const struct error_shape errors_anthropic; /* {"type":"error","error":{"type","message"}} */
extern const struct error_shape errors_ollama;    /* {"error":"message"}, one line per event */
extern const struct error_shape errors_llama;     /* {"error":{"code":400,"message","type"}} */
extern const struct error_shape errors_tei;       /* {"error":"message","error_type"} */

/* Appends the event of an error. -ENOMEM. */
int error_shape_put_event(const struct error_shape *shape, struct str *out,
                          const struct api_error *error);
