/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the state of a parser, which its files share. */

#include "chat/reply/parser.h"

enum match {
    MATCH_NO,
    MATCH_PART, /* the text ends before the marker does */
    MATCH_FULL,
};

bool parser_is_space(char c);
/* Compares the text at byte @at with @marker. */
enum match parser_match(const struct reply_parser *p, size_t at, const char *marker);
/* As parser_match() at p->pos, and consumes a marker that matches. */
enum match parser_take(struct reply_parser *p, const char *marker);
/* Consumes whitespace. Returns whether text remains. */
bool parser_skip_space(struct reply_parser *p);
/* Returns the length of the name at byte @at; 0: there is none. *ret_is_whole is false if the text
 * ends with it. */
size_t parser_name(const struct reply_parser *p, size_t at, bool *ret_is_whole);
/*
 * Gives the text up to the first of @markers to the sink as @kind. Returns the number of the
 * marker, which p->pos then points to (p->back to the whitespace before it), or -1: none came yet.
 * With @trims_end, whitespace before a marker is not given.
 */
int parser_scan(struct reply_parser *p, const char *const *markers, size_t n, enum piece_kind kind,
                bool trims_end);

void parser_emit(struct reply_parser *p, enum piece_kind kind, const char *text, size_t len);
/* Begins a call. @id is NULL if the parser makes it. False: no tool has this name. */
bool parser_begin_call(struct reply_parser *p, const char *name, size_t len, const char *id,
                       size_t id_len);
/* Ends a call. What follows may be a further call, which begins at p->pos. */
void parser_end_call(struct reply_parser *p);
/* Gives a part of the JSON text of the arguments to the sink. */
void parser_arguments(struct reply_parser *p, const char *text, size_t len);
void parser_fail(struct reply_parser *p, int error);

/* Consumes a JSON object or array, and gives it to the sink as arguments. p->depth is 0 at first.
 * STEP_DONE: it is complete. */
enum step parser_json(struct reply_parser *p);

/* Readers of calls, for the rows of formats.c. */
enum step call_json_step(struct reply_parser *p);
enum step call_xml_step(struct reply_parser *p);
enum step call_literal_step(struct reply_parser *p);
enum step call_harmony_step(struct reply_parser *p);
/* Makes the parser begin within the text of a message. */
void call_harmony_begin_text(struct reply_parser *p);
