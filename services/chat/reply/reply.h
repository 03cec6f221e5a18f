/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Describes how the answers of one request are parsed.
 *
 * A struct reply tells which tools the model may call, in which format the model writes calls, and
 * which markers surround its thinking. Parsers (parser.h) and grammars (grammar.h) are made from
 * the struct. It does not change after it was filled, and all choices of a request share it.
 */

#include <infer/tokenizer.h>
#include <jansson.h>

#include "chat/params.h"
#include "chat/reply/format.h"
#include "core/str.h"

struct reply_tool {
    const char *name;   /* borrowed from `spec` */
    json_t *spec;       /* the tool in OpenAI's format; owned reference */
    json_t *parameters; /* JSON Schema of the arguments; borrowed; NULL: any object */
    json_t *input;      /* the format of a custom tool's text; borrowed; NULL: any text */
    size_t index;       /* position in the request's array of tools */
    bool is_custom;     /* the tool takes a text instead of JSON arguments */
    bool is_strict;     /* a schema that cannot be enforced is refused */
};

struct reply {
    const struct reply_format *format;     /* NULL: no tool can be called */
    const struct thinking_marks *thinking; /* NULL: the model does not think visibly */
    bool is_open;                          /* the prompt ends within the thinking part */
    bool continues;                        /* the prompt ends within the text (prefill.h) */
    struct reply_tool *tools;              /* [n_tools] the tools that may be called */
    size_t n_tools;
    enum tool_choice choice;
    bool single;
};

/* Takes from @tools the tools that @rules permit. @tools is an array in OpenAI's format; NULL: no
 * tools. -ENOMEM. */
int reply_set_tools(struct reply *reply, json_t *tools, const struct tool_rules *rules);
/* Returns the tool of this name that may be called; NULL: there is none. */
const struct reply_tool *reply_find_tool(const struct reply *reply, const char *name, size_t len);
/* Returns whether the text of an answer can be passed on as it is. */
bool reply_is_plain(const struct reply *reply);
/* Returns whether a rendered prompt ends within the thinking part. */
bool reply_prompt_is_open(const struct thinking_marks *thinking, const char *text, size_t len);
/* Finds the special tokens that the parser must see in the text (`shown`), and the special tokens
 * that must end an answer (`stops`). Finds at most REPLY_MAX_TOKENS of each kind. */
#define REPLY_MAX_TOKENS 24
struct reply_tokens {
    int32_t shown[REPLY_MAX_TOKENS], stops[REPLY_MAX_TOKENS];
    size_t n_shown, n_stops;
};
void reply_find_tokens(const struct reply *reply, const struct inf_tokenizer *tok,
                       struct reply_tokens *ret_tokens);
void reply_done(struct reply *reply);
