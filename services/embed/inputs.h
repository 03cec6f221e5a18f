/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the texts of a request.
 *
 * Strings are borrowed from the body, which must outlive them.
 */

#include <infer/tokenizer.h>
#include <jansson.h>

#include "common/http/problem.h"

/* Struct input is either a text or an array of token ids. */
struct input {
    const char *text;
    size_t len;
    const json_t *tokens; /* non-empty array of ids; NULL: a text */
};

struct inputs {
    struct input *items; /* [n] */
    size_t n;
    const char *param; /* name of the field that had the texts; static */
    bool is_list;      /* the field was an array */
};

enum { INPUTS_NAME = 128 };

/* Maximum size of one text in bytes; tokenizing may need forty times as much memory. */
#define INPUTS_MAX_TEXT ((size_t)4 << 20)

/* The prompt that a request chooses: the name of one of the model's prompts, the text of a prompt,
 * or an instruction. At most one of them is set. */
struct inputs_prompt {
    const char *name, *text, *instruction;
};

void inputs_done(struct inputs *inputs);
/* Refuses a text that is longer than INPUTS_MAX_TEXT. @at: the text's name in error messages. */
int inputs_check_text(const char *at, size_t len, struct problem *problem);
/* Writes the name of item @i for error messages: "input[3]". */
void inputs_name(const struct inputs *inputs, size_t i, char ret_name[INPUTS_NAME]);

/* Reads a string, an array of strings, an array of token ids, or an array of such arrays, as in
 * OpenAI's `input`. Instead of a string, an array may have an object with a "text", as in Jina's
 * API. @max: largest number of items. @param must be static. On failure this function and the next
 * two fill in the problem and return -EINVAL. */
int inputs_read(struct inputs *inputs, json_t *value, const char *param, size_t max,
                struct problem *problem);
/* Reads a string or an array of strings. @may_be_empty: strings may be empty; the array may not. */
int inputs_read_texts(struct inputs *inputs, json_t *value, const char *param, size_t max,
                      bool may_be_empty, struct problem *problem);
/* Reads strings, or objects with a "text". */
int inputs_read_documents(struct inputs *inputs, json_t *value, const char *param, size_t max,
                          struct problem *problem);
