/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of an answer, as the APIs of the chat service get them. */

#include "core/macros.h"

enum piece_kind {
    PIECE_TEXT,
    PIECE_REASONING, /* what the model thinks before its answer */
    PIECE_CALL,      /* a call of a tool begins */
    PIECE_ARGUMENTS, /* text of the JSON object of the last call's arguments */
    PIECE_INPUT,     /* text of the input of the last call, whose tool takes a text ("custom") */
};

/* A piece of an answer, in the order in which the model wrote it. */
struct piece {
    enum piece_kind kind;
    const char *text; /* whole code points; PIECE_CALL: the name of the tool */
    size_t len;
    const char *id; /* PIECE_CALL: the id of the call */
    bool is_custom; /* PIECE_CALL: the tool takes a text; PIECE_INPUT follows, not
                       PIECE_ARGUMENTS */
};
