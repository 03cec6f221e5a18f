/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What models want to read before a text
 *
 * Many were trained with other words before queries than before documents. Directories of
 * sentence-transformers name them in config_sentence_transformers.json: "prompts", and
 * "default_prompt_name" for texts of which nothing is said.
 */

#include <infer/types.h>
#include <jansson.h>

#include "common/problem.h"

struct inputs_prompt;

/* The file's object; *ret_prompts is NULL where @path is a file or has no such file. -EBADMSG. */
int prompts_read(const char *path, json_t **ret_prompts, struct inf_err *reterr);
/* The words for a request; the caller frees *ret_text, which is NULL for none. @prompts may be
 * NULL. */
int prompts_choose(json_t *prompts, const struct inputs_prompt *wanted, char **ret_text,
                   struct problem *problem);
