/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the functions that the files of the parser share. */

#include "chat/reply/parser.h"

enum match {
    MATCH_NO,
    MATCH_PART, /* the text ends before the marker is complete */
    MATCH_FULL,
};

bool parser_is_space(char c);
/* Compares the text at byte @at with @marker. */
enum match parser_match(const struct reply_parser *p, size_t at, const char *marker);
/* Does what parser_match() does at p->pos, and consumes a marker that matches completely. */
enum match parser_take(struct reply_parser *p, const char *marker);
/* Consumes whitespace. Returns whether text remains. */
bool parser_skip_space(struct reply_parser *p);
/* Returns the length of the name at byte @at; 0: there is none. *ret_is_whole is false if the text
 * ends with the name, which may then become longer. */
size_t parser_name(const struct reply_parser *p, size_t at, bool *ret_is_whole);
/*
 * Searches the text for any of @markers. Gives the sink the text before the marker, as pieces of
 * @kind. Returns the index of the marker. p->pos is then at the marker, and p->back at the
 * whitespace before it. Returns -1 if no marker came yet. With @trims_end, the sink does not get
 * whitespace before a marker.
 */
int parser_scan(struct reply_parser *p, const char *const *markers, size_t n, enum piece_kind kind,
                bool trims_end);

void parser_emit(struct reply_parser *p, enum piece_kind kind, const char *text, size_t len);
/* Begins a call. @id is the id that the model wrote; NULL: none. Returns false if no tool has this
 * name. */
bool parser_begin_call(struct reply_parser *p, const char *name, size_t len, const char *id,
                       size_t id_len);
/* Ends a call. A further call may begin at p->pos. */
void parser_end_call(struct reply_parser *p);
/* Gives the sink a part of the JSON text of the arguments. */
void parser_arguments(struct reply_parser *p, const char *text, size_t len);
void parser_fail(struct reply_parser *p, int error);

/* Consumes a JSON object or array, and gives the sink its text as arguments. p->depth must be 0
 * before the first call. Returns STEP_DONE when the object or array is complete. */
enum step parser_json(struct reply_parser *p);

/* Readers of calls, for the rows of formats.c. */
enum step call_json_step(struct reply_parser *p);
enum step call_xml_step(struct reply_parser *p);
enum step call_literal_step(struct reply_parser *p);
enum step call_harmony_step(struct reply_parser *p);
/* Makes the parser begin within the text of a message. */
void call_harmony_begin_text(struct reply_parser *p);
