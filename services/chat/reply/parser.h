/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splits the text of one answer into reasoning, text and calls of tools.
 *
 * The parser takes the text in parts of any length. If consecutive pieces of the same kind are
 * joined, the result does not depend on how the text was divided into parts. If each part consists
 * of whole code points, so does each piece.
 *
 * Whitespace between reasoning and answer, and around calls, is dropped. A text that begins like a
 * call becomes pieces of text if its syntax is wrong or no tool has the name of the call. If an
 * answer is cut within a call after the end of the name, the arguments stay incomplete. If the
 * answer is cut before the end of the name, the call is left out.
 */

#include "chat/reply/piece.h"
#include "chat/reply/reply.h"
#include "core/str.h"

#define PARSER_MAX_NESTING 64
#define PARSER_MAX_HEAD    ((size_t)32 << 10) /* maximum size up to the end of a call's name */
#define PARSER_MAX_CALLS   1024

/* Takes the pieces. The text of a piece is borrowed until the function returns. If the function
 * returns a negative number, the parser stops and returns this number. */
struct piece_sink {
    int (*take)(void *data, const struct piece *piece);
    void *data;
};

enum parser_state {
    PARSER_START,
    PARSER_REASONING,
    PARSER_TEXT,
    PARSER_CALL,
};

/* The state of a reader of literals (literal.h). */
struct literal {
    int state;
    char delimiter; /* the quote around the current string: ' or ", or < for <|"|> */
    bool escaped;
    uint8_t depth;
    char stack[PARSER_MAX_NESTING]; /* the closing brackets that are still missing */
};

/* The members are private to the parser's files. */
struct reply_parser {
    const struct reply *reply; /* borrowed */
    struct piece_sink sink;
    enum parser_state state;
    struct str in;    /* text that was not given to the sink yet */
    size_t pos;       /* bytes of `in` that are done */
    size_t scanned;   /* bytes of `in` that were searched for a marker */
    size_t mark;      /* where the opener of a possible call begins */
    size_t back;      /* where the whitespace before `mark` begins */
    bool trims_start; /* whitespace that comes next is dropped */
    bool in_call;     /* the name of the current call was given to the sink */
    bool ended;       /* no more text comes */
    bool is_cut;      /* a limit ended the text, not the model */
    bool not_bare;    /* a bare call cannot begin any more, because the answer has begun */
    bool thinks;      /* harmony: the current message is reasoning */
    bool drops;       /* the current call is not permitted, and is left out */
    int step;         /* the state of the format's own parser */
    const struct reply_tool *tool; /* the tool of the current call */
    size_t n_calls;

    struct str run; /* the piece that is being joined */
    enum piece_kind run_kind;
    int error; /* the first error of the sink or of memory */

    /* The arguments of the current call */
    int depth; /* JSON: open brackets */
    bool in_string, escaped;
    size_t n_arguments; /* XML: number of arguments so far */
    struct str key;     /* XML: the name of the current argument */
    unsigned types;     /* XML: the types that the schema permits for this argument */
    bool is_streamed;   /* XML: the value is a string, and is passed on while it comes */
    struct literal literal;
    uint8_t custom; /* state of the reader of a custom tool's input */
    uint8_t n_hex;
    uint32_t code, surrogate;
    bool is_array;      /* the objects of the calls are in an array */
    struct str channel; /* harmony: the header of the current message */
};

void reply_parser_init(struct reply_parser *p, const struct reply *reply, struct piece_sink sink);
/* Parses the next part of the text. Returns 0, -ENOMEM, or the negative result of the sink. */
int reply_parser_feed(struct reply_parser *p, const char *text, size_t len);
/* Ends the text. @is_cut: a limit ended the text, not the model. */
int reply_parser_finish(struct reply_parser *p, bool is_cut);
/* Returns whether the next byte of the text would belong to the thinking part. */
bool reply_parser_is_thinking(const struct reply_parser *p);
/* Returns whether the answer called a tool. */
bool reply_parser_has_calls(const struct reply_parser *p);
void reply_parser_done(struct reply_parser *p);
