/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of Anthropic's Messages API, version 2023-06-01 with the beta fields that agents
 * send.
 *
 * An unsupported field is refused with an error that names its path. A few fields are accepted
 * although they have no effect. docs/http-api.md lists these fields.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"

/* Settings that are not in the body. */
struct anthropic_rules {
    bool counts;          /* the prompt is only counted: `max_tokens` is not required */
    bool drops_countdown; /* the rules of canonical.h apply */
};

/* Settings of the body that only the answer needs. */
struct anthropic_wishes {
    bool hides_thinking; /* thinking blocks are empty */
};

/* Reads a whole body. Strings of @params are borrowed from @body. */
int anthropic_body_read(json_t *body, const struct anthropic_rules *rules, struct params *params,
                        struct conversation *conversation, struct anthropic_wishes *wishes,
                        struct problem *problem);

/* Read parts of a body (anthropic-messages.c, anthropic-tools.c, anthropic-prefill.c).
 * anthropic_prefill_read() finds out whether the answer continues the last message. It needs
 * @params and the messages that the other functions have read. */
int anthropic_messages_read(json_t *body, const struct anthropic_rules *rules,
                            struct conversation *conversation, struct problem *problem);
int anthropic_tools_read(json_t *body, struct params *params, struct conversation *conversation,
                         struct problem *problem);
int anthropic_prefill_read(json_t *body, const struct params *params,
                           struct conversation *conversation, struct problem *problem);

/* Adds to a schema the bounds that its description contains (anthropic-bounds.c). Does the same for
 * all schemas within this schema. -ENOMEM. */
int anthropic_bounds_restore(json_t *schema);

/* Write the path of a field or of an item, for errors. @prefix is the path of the object or array
 * that contains the field or item. Long paths are cut. */
#define ANTHROPIC_PATH 128
void anthropic_path(char out[ANTHROPIC_PATH], const char *prefix, const char *name);
void anthropic_item(char out[ANTHROPIC_PATH], const char *prefix, size_t index);
/* Find the field @name of the object at the path @prefix. The field must be a string. The second
 * function also requires that the field exists. *ret_value is borrowed; NULL: the field is
 * absent. */
int anthropic_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                     struct problem *problem);
int anthropic_need_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                          struct problem *problem);
/* Refuses fields of the object at the path @prefix that are not in @names (NULL-terminated), and a
 * `cache_control` that is not an object. */
int anthropic_known(json_t *object, const char *prefix, const char *const *names,
                    struct problem *problem);
