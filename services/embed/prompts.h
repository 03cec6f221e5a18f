/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A prompt is a text that a model expects before the text of a request.
 *
 * Many models were trained with different prompts before queries and documents. In the format of
 * sentence-transformers, prompts are in the file config_sentence_transformers.json: the object
 * "prompts" maps names to prompts, and "default_prompt_name" names the prompt for requests that
 * choose none. The prompts "query" and "passage" of jina-embeddings-v4 are only in that model's
 * code, so they are built in here.
 */

#include <infer/types.h>
#include <jansson.h>

#include "common/http/problem.h"

struct inputs_prompt;

/* Reads config_sentence_transformers.json in the directory @path, and adds the built-in prompts for
 * @arch. *ret_prompts is NULL if there are no prompts. Returns 0, -EBADMSG or -ENOMEM. */
int prompts_read(const char *path, const char *arch, json_t **ret_prompts, struct inf_err *reterr);
/* Returns the name of the model's prompt for queries, or for documents; NULL: none. */
const char *prompts_find(const json_t *prompts, bool query);
/* Returns the prompt for a request, which the caller frees; NULL: none. @prompts may be NULL. */
int prompts_choose(json_t *prompts, const struct inputs_prompt *wanted, char **ret_text,
                   struct problem *problem);
