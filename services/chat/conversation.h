/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A conversation: the messages of a request, in the same form for all APIs
 *
 * An API reads its body into a conversation once. Chat templates read the conversation. Strings are
 * JSON strings, to which the conversation owns references, so that long texts are not copied.
 */

#include <jansson.h>

#include "core/macros.h"
#include "core/str.h"

/* Limit, in bytes, of the memory that the parsed arguments of all calls in one request take. */
#define CONVERSATION_MAX_ARGUMENTS ((size_t)32 << 20)

enum message_role {
    ROLE_SYSTEM,
    ROLE_DEVELOPER,
    ROLE_USER,
    ROLE_ASSISTANT,
    ROLE_TOOL,
    ROLE_FUNCTION,
    N_ROLES,
};

/* A call of a tool, in a message of the assistant. */
struct tool_call {
    json_t *id;        /* string, or NULL */
    json_t *name;      /* string */
    json_t *arguments; /* an object, or a string that is not the text of an object; NULL: none */
};

struct message {
    enum message_role role;
    json_t *text;      /* string; NULL: the message has no text */
    json_t *name;      /* string: the name of the speaker or of the tool; or NULL */
    json_t *call_id;   /* string: the id of a call, if this message is the result of the call; or
                          NULL */
    json_t *reasoning; /* string: what the assistant thought before its answer; or NULL */
    struct tool_call *calls;
    size_t n_calls;
};

struct conversation {
    struct message *messages;
    size_t n_messages, messages_cap;
    json_t *tools;       /* array in OpenAI's format; NULL: none */
    json_t *documents;   /* array; NULL: none */
    json_t *variables;   /* object with further variables of the template; NULL: none */
    json_t *settings;    /* object with variables that the template must read, or the request is
                            refused; NULL: none */
    bool continues;      /* the answer continues the last message, which is the assistant's */
    bool has_past;       /* tokens of an earlier conversation come before the messages */
    bool adds_no_prompt; /* the prompt ends after the last message, without the start of an
                            answer */
};

/* Returns the name of a role in OpenAI's API and in templates. */
const char *message_role_name(enum message_role role);
/* Appends an empty message, which belongs to the conversation. NULL: out of memory. */
struct message *conversation_add(struct conversation *c);
/* Frees what a message holds. */
void message_done(struct message *m);
/* Appends a call. Takes over the references @id, @name and @arguments, even on failure. -ENOMEM. */
int message_add_call(struct message *m, json_t *id, json_t *name, json_t *arguments);
/* Reads the arguments of a call, which templates expect as an object. *ret_arguments is a new
 * reference: the object that @text contains, or @text if it contains no object. *room is the memory
 * that the object may take, see json_parse_within(). -E2BIG, -ENOMEM. */
int message_parse_arguments(json_t *text, size_t *room, json_t **ret_arguments);
/* Sets a variable that the template must read. Keeps its own reference to @value. -ENOMEM. */
int conversation_set(struct conversation *c, const char *name, json_t *value);
/* Appends the messages as a JSON array in OpenAI's format. Leaves out a message that the answer
 * continues. @reasoning is the field in which the template expects what the assistant thought.
 * -ENOMEM. */
int conversation_put_messages(const struct conversation *c, const char *reasoning, struct str *out);
/* Returns the message that an answer continues; NULL: none. */
const struct message *conversation_continued(const struct conversation *c);
void conversation_done(struct conversation *c);
