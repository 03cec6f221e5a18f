/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes prompts that ask a model to fill in the middle of a text
 *
 * Models for code are trained with special tokens before the text in front of the gap, before the
 * text behind it, and where the middle begins.
 */

#include "chat/generation.h"

/* All members are JSON strings except @extra, and may be NULL. */
struct fim_input {
    const json_t *prefix, *suffix;
    const json_t *middle; /* how the middle begins */
    const json_t *extra;  /* array of {"filename", "text"}: other files */
    const char *field;    /* the field that asks for it, for errors; static; NULL: the endpoint */
    uint32_t room;        /* tokens of the answer, for which the context keeps room; 0: a quarter of
                             the context */
};

/* Returns whether the model has the tokens for this. */
bool fim_is_known(const struct inf_model *model);
/* Adds the prompt to g->prompts. If the context is too small, the prefix loses its beginning, the
 * suffix its end, and the extra files are left out. Refuses models without these tokens. */
int fim_prepare(struct generation *g, const struct fim_input *input, struct problem *problem);
