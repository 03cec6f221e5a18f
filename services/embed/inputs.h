/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The texts of a request, and how they shall be read
 *
 * Strings are borrowed from the body, which must outlive them.
 */

#include <infer/tokenizer.h>
#include <jansson.h>

#include "common/http/problem.h"

/* Either a text or tokens. */
struct input {
    const char *text;
    size_t len;
    const json_t *tokens; /* array of ids, one at least; NULL: a text */
};

struct inputs {
    struct input *items; /* [n] */
    size_t n;
    const char *param; /* the field they came from; static */
    bool is_list;      /* it was an array of them */
};

enum { INPUTS_NAME = 128 };

/* Bytes of one text: making tokens of it may take forty times as many. */
#define INPUTS_MAX_TEXT ((size_t)4 << 20)

/* At most one of them is set. */
struct inputs_prompt {
    const char *name, *text, *instruction;
};

void inputs_done(struct inputs *inputs);
/* Refuses a text that is longer than that, by its name @at. */
int inputs_check_text(const char *at, size_t len, struct problem *problem);
/* What messages call item @i: "input[3]". */
void inputs_name(const struct inputs *inputs, size_t i, char ret_name[INPUTS_NAME]);

/* A string, an array of strings, an array of token ids, or an array of those, as OpenAI's `input`;
 * for a string in an array may stand an object with a "text", as Jina has it. @max: of items.
 * @param is kept. All fill the problem and return -EINVAL. */
int inputs_read(struct inputs *inputs, json_t *value, const char *param, size_t max,
                struct problem *problem);
/* A string or an array of strings. @may_be_empty: the strings, not the array. */
int inputs_read_texts(struct inputs *inputs, json_t *value, const char *param, size_t max,
                      bool may_be_empty, struct problem *problem);
/* Strings, or objects with a "text". */
int inputs_read_documents(struct inputs *inputs, json_t *value, const char *param, size_t max,
                          struct problem *problem);
