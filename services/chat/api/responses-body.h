/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of OpenAI's Responses API, POST /v1/responses.
 *
 * The functions need no model and no other service, so that fuzzers can call them. An unsupported
 * field is refused with an error that names the field. A few fields are accepted although they have
 * no effect. docs/http-api.md lists these fields.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"
#include "core/str.h"

/* The contents of a body that struct params and struct conversation cannot hold. */
struct responses_body {
    json_t *instructions;   /* string; NULL: none */
    json_t *input;          /* array of items */
    json_t *references;     /* array: ids of items of type "item_reference"; NULL: none */
    json_t *previous;       /* string: previous_response_id; NULL: none */
    json_t *conversation;   /* string: id of a conversation; NULL: none */
    json_t *namespaces;     /* object: maps the full names of tools of namespaces to [namespace,
                               name] */
    struct str echo;        /* the fields that the response repeats: ,"NAME":VALUE… */
    bool store, must_store; /* must_store: the body has "store": true */
    bool summarizes;        /* reasoning is shown as a summary */
    bool with_logprobs;
};

/* Reads a body. @conversation gets only the items that are in the body. The caller frees @ret_body
 * with responses_body_done(), even after a failure. */
int responses_body_read(json_t *json, struct responses_body *ret_body, struct params *params,
                        struct conversation *conversation, struct problem *problem);
void responses_body_done(struct responses_body *body);

/* responses-items.c: replaces the messages of @conversation by the instructions, the items of
 * @context (an array; NULL: none) and the items of the body. @references maps the ids in items of
 * type "item_reference" to items; NULL: items of this type are skipped. */
int responses_items_read(const struct responses_body *body, json_t *context, json_t *references,
                         struct conversation *conversation, struct problem *problem);
/* Returns the full name of a tool of a namespace, a new string. NULL: out of memory. */
json_t *responses_full_name(const char *space, const char *name);

/* responses-tools.c: reads tools, tool_choice and parallel_tool_calls. */
int responses_tools_read(json_t *json, struct responses_body *body, struct params *params,
                         struct conversation *conversation, struct problem *problem);
