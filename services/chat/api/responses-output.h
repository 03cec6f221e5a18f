/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of a response: its items, the response object, and the events of a stream
 *
 * The output is made of pieces (chat/reply/piece.h). A piece that does not continue the last item
 * ends that item and begins another one. The functions need neither a model nor a connection, so
 * that unit tests can call them. The format is that of OpenAI's Responses API of 2026-11.
 */

#include <jansson.h>

#include "chat/chat-api.h"
#include "common/http/request-id.h"
#include "core/str.h"

enum output_kind { OUTPUT_REASONING, OUTPUT_MESSAGE, OUTPUT_FUNCTION_CALL, OUTPUT_CUSTOM_CALL };

struct output_item {
    enum output_kind kind;
    char id[REQUEST_ID_SIZE];
    char *call_id;       /* calls only: the id of the call */
    struct str name;     /* calls only: the full name of the tool */
    struct str text;     /* reasoning, text, arguments or input */
    struct str logprobs; /* elements of a JSON array */
    const char *status;  /* "in_progress", "completed" or "incomplete" */
};

struct output_usage {
    uint64_t n_input, n_cached, n_output, n_reasoning;
};

struct output {
    /* The caller sets these fields before the first event. Strings are borrowed. */
    const char *id, *model;
    int64_t created;
    const char *echo;   /* fields that repeat the request: ,"NAME":VALUE…; may be NULL */
    json_t *namespaces; /* maps the full names of tools to [namespace, name]; may be NULL */
    bool store;         /* the response will be kept */
    bool summarizes;    /* reasoning is written as a summary */
    bool streams;

    struct output_item *items;
    size_t n_items, items_cap;
    struct str logprobs; /* elements of a JSON array, which belong to text that the parser still
                            holds back */
    /* Fields that llama-server adds to OpenAI's events: ,"NAME":VALUE… The caller sets them, and
     * the next events include them. */
    struct str extras;
    uint64_t n_events;
    bool is_cut; /* the answer reached its limit of tokens */
    struct output_usage usage;
    bool has_usage;
    const char *error_code, *error; /* why the response failed; NULL: it did not */
};

/* The following functions write events to @out if the output streams. -ENOMEM. */

/* Writes the first events. */
int output_begin(struct output *o, struct str *out);
/* Writes an event that has no other contents than the fields in `extras`. */
int output_progress(struct output *o, struct str *out);
int output_piece(struct output *o, const struct piece *piece, struct str *out);
/* Ends the last item. @is_cut: the answer reached its limit of tokens. */
int output_finish(struct output *o, bool is_cut, struct str *out);
/* Writes the last event, or the response if the output does not stream. */
int output_end(struct output *o, struct str *out);
/* Writes the last event of a failed response. o->error says why it failed. */
int output_fail(struct output *o, struct str *out);

/* responses-object.c */

/* Writes an item. */
int output_put_item(const struct output *o, const struct output_item *item, struct str *out);
/* Writes the content part of a message or of reasoning. @is_empty: leaves out the text. */
int output_put_part(const struct output *o, const struct output_item *item, bool is_empty,
                    struct str *out);
/* Writes the response object; @status is static. */
int output_put_response(const struct output *o, const char *status, struct str *out);
/* Returns "completed" or "incomplete", the status of a response that did not fail. */
const char *output_status(const struct output *o);
void output_done(struct output *o);
