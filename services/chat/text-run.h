/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Joins many pieces to one text of a message, in time that is linear in their total length.
 *
 * A run extends one JSON string. The string is out of date until the run ends.
 */

#include <jansson.h>

#include "core/str.h"

/* Zeroed memory is a run that extends nothing. */
struct text_run {
    json_t **text; /* the string that the run extends; NULL: none */
    struct str joined;
};

/* Appends @separator and the string @piece to *@text, which may be NULL. If *@text is empty, only
 * @piece is appended. If @run extends a text other than @text, this function first calls
 * text_run_end(). The pointer @text must stay valid until the run ends. -ENOMEM. */
int text_run_add(struct text_run *run, json_t **text, const char *separator, json_t *piece);
/* Brings the text up to date. -ENOMEM. */
int text_run_end(struct text_run *run);
void text_run_done(struct text_run *run);
