/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines rights, which say what a request may do.
 *
 * Each route of the gateway needs one right. A request has the rights of the API key that it
 * presents, or those of the user at the other end of the unix socket.
 */

#include <infer/types.h>

#include "core/macros.h"

enum right {
    RIGHT_INFER = 1 << 0,   /* use models, and list them */
    RIGHT_MANAGE = 1 << 1,  /* change something: load, pull, delete, set up; read the history */
    RIGHT_OBSERVE = 1 << 2, /* see the total activity of all clients: counts, speeds, states */
};

enum {
    RIGHTS_ALL = RIGHT_INFER | RIGHT_MANAGE | RIGHT_OBSERVE,
    /* A key without a rights= field has these rights, which older versions gave to every key. */
    RIGHTS_UNSTATED = RIGHT_INFER | RIGHT_OBSERVE,
    RIGHTS_TEXT_SIZE = 32,
};

#define RIGHTS_LIST "infer, manage, observe"

/* Returns the word for one right, such as "observe". */
const char *right_name(enum right right);
/* Returns the right that a word of @len bytes means; 0: none. */
unsigned right_find(const char *word, size_t len);
/* Parses a set such as "infer,observe": words separated by one comma; duplicates are allowed.
 * -EINVAL: there is no word, or a word is not the name of a right. */
int rights_parse(const char *text, size_t len, unsigned *ret_rights);
/* Writes a set in the form that rights_parse() reads. */
void rights_print(unsigned rights, char ret_text[RIGHTS_TEXT_SIZE]);
