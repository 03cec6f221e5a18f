/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The formats in which families of models write calls of tools, and the markers of their thinking
 *
 * A format is one row of a table in formats.c. The chat template of a model decides which row is
 * used (reply_format_find()). docs/tools.md lists the rows.
 */

#include "core/macros.h"

struct reply_parser;

/* The result of a step of a parser. */
enum step {
    STEP_AGAIN, /* the step consumed text, or changed the state */
    STEP_MORE,  /* the step needs more text */
    STEP_FAIL,  /* the text is not a call; a step cannot fail after the API got the call's name */
    STEP_DONE,  /* the calls ended */
};

/* The form in which a call is written, for the grammar. */
enum call_body {
    BODY_OBJECT, /* a JSON object with the name and the arguments */
    BODY_ARRAY,  /* a JSON array of such objects */
    BODY_NAMED,  /* the name, then the arguments as a JSON object */
    BODY_XML,    /* the name, then each argument between markers */
    BODY_GEMMA,  /* call:NAME{key:value}, strings between <|"|> */
    BODY_PYTHON, /* [name(key=value)] */
    BODY_HARMONY,
};

/* The markers of a format; NULL: the format has none at this place. Whitespace around the markers
 * is skipped. */
struct call_marks {
    const char *open;      /* before all calls */
    const char *call;      /* before each name */
    const char *name_end;  /* after each name */
    const char *key;       /* BODY_XML: before the name of an argument */
    const char *key_end;   /* BODY_XML: after the name of an argument */
    const char *value;     /* BODY_XML: before the value, if the format has such a marker */
    const char *value_end; /* BODY_XML: after the value */
    const char *call_end;  /* after the arguments */
    const char *close;     /* after all calls */
    const char *newline;   /* BODY_NAMED: the grammar expects this text before and after `name_end`,
                              and before `call_end`; NULL: no text */
    bool surrounds;        /* each call has its own `open` and `close` */
    bool trims;            /* BODY_XML: line feeds at the beginning and at the end of a value do not
                              belong to it */
    bool typed;            /* BODY_XML: an attribute says whether a value is a string */
};

/* The form of the ids of calls. */
enum id_style {
    ID_CALL, /* call_ and 24 letters and digits */
    ID_NINE, /* 9 letters and digits */
    ID_KIMI, /* functions.NAME:N, as the model writes it */
};

struct reply_format {
    const char *name;
    const char *needles[3]; /* a template has this format if its source contains all these texts */
    const char *or_needle;  /* or if its source contains this text; NULL: none */
    const char *openers[4]; /* texts with which calls begin */
    bool bare;              /* calls also begin with "{" (BODY_OBJECT) or "[" (BODY_PYTHON), but
                               only at the beginning of an answer */
    enum call_body body;
    struct call_marks marks;
    enum id_style ids;
    const char *argument_key; /* BODY_OBJECT, BODY_ARRAY: the name of the arguments */
    const char *stops[3];     /* tokens that end an answer, even if the model's files do not say
                                 so */
    enum step (*step)(struct reply_parser *p); /* reads a call; p->pos is at its opener */
    const char *shown[10]; /* further special tokens that the parser needs to see */
};

/* The markers around the thinking of a family of models. */
struct thinking_marks {
    const char *open, *close;
    const char *needle; /* a template whose source contains this text has these markers */
};

/* Returns the format of the calls that a template with this source writes; NULL: none is known. */
const struct reply_format *reply_format_find(const char *source);
/* Returns the row with this name; NULL: there is none. */
const struct reply_format *reply_format_named(const char *name);
/* Returns row @i of the table; NULL: the table has fewer rows. */
const struct reply_format *reply_format_at(size_t i);
/* Returns the markers of the thinking of a template with this source; NULL: none. */
const struct thinking_marks *thinking_find(const char *source);
