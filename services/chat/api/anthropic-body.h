/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of Anthropic's Messages API, version 2023-06-01 with the beta fields that agents
 * send
 *
 * A field that is not supported is refused by an error that names its path, except for a few fields
 * that are accepted without effect. docs/http-api.md lists them.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"

/* These settings are not in the body. */
struct anthropic_rules {
    bool counts;          /* the prompt is only counted: `max_tokens` is not required */
    bool drops_countdown; /* the rules of canonical.h apply */
};

/* The parts of a body that the answer depends on. */
struct anthropic_wishes {
    bool hides_thinking; /* thinking blocks are empty */
};

/* Reads a whole body. Strings of @params are borrowed from it. */
int anthropic_body_read(json_t *body, const struct anthropic_rules *rules, struct params *params,
                        struct conversation *conversation, struct anthropic_wishes *wishes,
                        struct problem *problem);

/* The parts of it: anthropic-messages.c, anthropic-tools.c, anthropic-prefill.c. The last part
 * reads
 * @params and the messages that the other parts have read. */
int anthropic_messages_read(json_t *body, const struct anthropic_rules *rules,
                            struct conversation *conversation, struct problem *problem);
int anthropic_tools_read(json_t *body, struct params *params, struct conversation *conversation,
                         struct problem *problem);
int anthropic_prefill_read(json_t *body, const struct params *params,
                           struct conversation *conversation, struct problem *problem);

/* Sets the bounds in a schema that are in its descriptions, and in those of the schemas within it.
 * -ENOMEM. */
int anthropic_bounds_restore(json_t *schema);

/* Write the path of a field, and of an item, of the value at the path @prefix, for errors. Long
 * paths are cut. */
#define ANTHROPIC_PATH 128
void anthropic_path(char out[ANTHROPIC_PATH], const char *prefix, const char *name);
void anthropic_item(char out[ANTHROPIC_PATH], const char *prefix, size_t index);
/* Finds the field @name of the object at the path @prefix, which must be a string (and, for the
 * second function, be there). *ret_value is borrowed; NULL: absent. */
int anthropic_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                     struct problem *problem);
int anthropic_need_string(json_t *object, const char *prefix, const char *name, json_t **ret_value,
                          struct problem *problem);
/* Refuses fields of the object at the path @prefix that are not in @names (NULL-terminated), and a
 * `cache_control` that is not an object. */
int anthropic_known(json_t *object, const char *prefix, const char *const *names,
                    struct problem *problem);
