/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts into which an answer is split for the APIs of the chat service */

#include "core/macros.h"

enum piece_kind {
    PIECE_TEXT,
    PIECE_REASONING, /* what the model thinks before its answer */
    PIECE_CALL,      /* a call of a tool begins */
    PIECE_ARGUMENTS, /* a part of the JSON text of the last call's arguments */
    PIECE_INPUT,     /* a part of the last call's input, if the tool takes a text ("custom") */
};

/* A piece of an answer. Pieces come in the order in which the model wrote them. */
struct piece {
    enum piece_kind kind;
    const char *text; /* whole code points; PIECE_CALL: the name of the tool */
    size_t len;
    const char *id; /* PIECE_CALL: the id of the call */
    bool is_custom; /* PIECE_CALL: the tool takes a text, so PIECE_INPUT follows instead of
                       PIECE_ARGUMENTS */
};
