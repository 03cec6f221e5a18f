/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes prompts that ask a model to fill in the middle of a text.
 *
 * Models for code are trained with three special tokens. One comes before the text that precedes
 * the gap (the prefix), one before the text that follows the gap (the suffix), and one before the
 * text that fills the gap (the middle).
 */

#include "chat/generation.h"

/* The JSON values may be NULL. All of them except @extra are strings. */
struct fim_input {
    const json_t *prefix, *suffix;
    const json_t *middle; /* the text with which the middle begins */
    const json_t *extra;  /* array of further files: {"filename", "text"} */
    const char *field;    /* the name of the request's field that asks for a middle, for errors;
                             static; NULL: all requests to the endpoint ask for a middle */
    uint32_t room;        /* tokens of the context that are reserved for the answer; 0: a quarter of
                             the context */
};

/* Returns whether the model has the three special tokens. */
bool fim_is_known(const struct inf_model *model);
/* Adds the prompt to g->prompts. If the context is too small, cuts off the beginning of the prefix
 * and the end of the suffix, and leaves out extra files. Refuses models without the special
 * tokens. */
int fim_prepare(struct generation *g, const struct fim_input *input, struct problem *problem);
