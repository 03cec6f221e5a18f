/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads the chat template for `sconce render` from a model, a tokenizer_config.json or a .jinja
 * file.
 */

#include "cli/cli.h"

struct inf_chat_template;

struct template_source {
    struct inf_chat_template *tmpl;
    char *bos_token, *eos_token, *unk_token, *pad_token; /* NULL: the source does not name it */
};

/* Fills @ret, which the caller has set to zero; prints errors itself. @template replaces the
 * template of the model @name: the name of a built-in one, or a file. NULL: that of the model's
 * manifest, else the model's own. */
int template_source_open(const char *verb, const struct cli_models *m, const char *name,
                         const char *template, struct template_source *ret);
void template_source_done(struct template_source *s);
