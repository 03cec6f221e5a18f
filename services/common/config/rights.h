/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a request may do
 *
 * Each route of the gateway needs one right. A request has those of the API key that it shows, or
 * those of the user at the other end of the unix socket.
 */

#include <infer/types.h>

#include "core/macros.h"

enum right {
    RIGHT_INFER = 1 << 0,   /* ask models, and see which there are */
    RIGHT_MANAGE = 1 << 1,  /* change something: load, pull, delete, set up */
    RIGHT_OBSERVE = 1 << 2, /* see what all clients together do: counts, speeds, states */
};

enum {
    RIGHTS_ALL = RIGHT_INFER | RIGHT_MANAGE | RIGHT_OBSERVE,
    /* Of a key whose rights nobody stated: what every key could do before keys had rights. */
    RIGHTS_UNSTATED = RIGHT_INFER | RIGHT_OBSERVE,
    RIGHTS_TEXT_SIZE = 32,
};

#define RIGHTS_LIST "infer, manage, observe"

/* The word for one right, as "observe". */
const char *right_name(enum right right);
/* The right that a word of @len bytes means; 0: none. */
unsigned right_find(const char *word, size_t len);
/* Reads a set, as "infer,observe": words with one comma between them, each any number of times.
 * -EINVAL: no word, or one that means no right. */
int rights_parse(const char *text, size_t len, unsigned *ret_rights);
/* Writes a set as rights_parse() reads it. */
void rights_print(unsigned rights, char ret_text[RIGHTS_TEXT_SIZE]);
