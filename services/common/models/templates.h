/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds chat templates for models that have none: built-in templates, and templates in files.
 *
 * A built-in template has the name of a widespread form of prompts. It renders the roles system,
 * user and assistant, and knows no tools.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    TEMPLATES_MAX_FILE = 1 << 20, /* in bytes */
};

struct template_row {
    const char *name;
    const char *text; /* in Jinja, as <infer/chat.h> describes it */
    const char *stop; /* the text with which the next message begins, or with which an answer ends;
                         it ends answers of models that have no token for it; NULL: none */
};

/* Returns the built-in template of that name, or NULL. */
const struct template_row *template_find(const char *name);
/* Returns the names of all built-in templates as "a, b, c", for messages. */
const char *template_names(void);
/* Returns the @i-th built-in template; NULL past the last one. */
const struct template_row *template_at(size_t i);
/* Loads the template @what: the name of a built-in one, or the path of a file. The caller frees
 * *ret_text. -ENOENT: neither exists; -ENOMEM, or the error of the file. */
int template_load(const char *what, char **ret_text, struct inf_err *reterr);
