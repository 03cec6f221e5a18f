/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What models want to read before a text
 *
 * Many were trained with other words before queries than before documents. Directories of
 * sentence-transformers name them in config_sentence_transformers.json: "prompts", and
 * "default_prompt_name" for texts of which nothing is said. Those of jina-embeddings-v4 stand in
 * its code alone: "query" and "passage".
 */

#include <infer/types.h>
#include <jansson.h>

#include "common/http/problem.h"

struct inputs_prompt;

/* The file's object; *ret_prompts is NULL where @path is a file or has no such file, and @arch has
 * no words of its own. -EBADMSG, -ENOMEM. */
int prompts_read(const char *path, const char *arch, json_t **ret_prompts, struct inf_err *reterr);
/* Which of the words before queries, or before what is searched, the model has; NULL: none. */
const char *prompts_find(const json_t *prompts, bool query);
/* The words for a request; the caller frees *ret_text, which is NULL for none. @prompts may be
 * NULL. */
int prompts_choose(json_t *prompts, const struct inputs_prompt *wanted, char **ret_text,
                   struct problem *problem);
