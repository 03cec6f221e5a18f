/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prompts: texts that models expect before a text
 *
 * Many models were trained with different prompts before queries and documents. Directories of
 * sentence-transformers have them in config_sentence_transformers.json: "prompts", and
 * "default_prompt_name" for texts without a given prompt. The prompts of jina-embeddings-v4,
 * "query" and "passage", are only in its code.
 */

#include <infer/types.h>
#include <jansson.h>

#include "common/http/problem.h"

struct inputs_prompt;

/* Reads the file's object. *ret_prompts is NULL if @path is a file or has no such file, and there
 * are no built-in prompts for @arch. -EBADMSG, -ENOMEM. */
int prompts_read(const char *path, const char *arch, json_t **ret_prompts, struct inf_err *reterr);
/* Returns the name of the model's prompt for queries, or for documents; NULL: none. */
const char *prompts_find(const json_t *prompts, bool query);
/* Returns the prompt for a request, which the caller frees; NULL: none. @prompts may be NULL. */
int prompts_choose(json_t *prompts, const struct inputs_prompt *wanted, char **ret_text,
                   struct problem *problem);
