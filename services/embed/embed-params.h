/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the fields that requests of several kinds share. */

#include <infer/embed.h>
#include <infer/tokenizer.h>
#include <jansson.h>

#include "common/http/problem.h"
#include "embed/inputs.h"

struct params {
    const char *task;  /* task whose adapter is used; borrowed; NULL: the model's first task */
    const char *model; /* borrowed from the body; NULL: the default model */
    enum inf_cut cut;
    struct inputs_prompt prompt;
    enum inf_normalize normalize;
    uint32_t dimensions; /* 0: all */
};

/* Reads "model". */
int params_read_model(struct params *p, json_t *body, struct problem *problem);
/* Reads "task". */
int params_read_task(struct params *p, json_t *body, struct problem *problem);
/* Reads "truncate" and "truncation_direction". The first is a boolean (as in
 * text-embeddings-inference) or one of "none", "start" and "end"; the second is "left" or "right".
 * Without these fields `cut` is unchanged. */
int params_read_cut(struct params *p, json_t *body, struct problem *problem);
/* Reads "prompt_name", "prompt" and "instruction", of which at most one may be given. */
int params_read_prompt(struct params *p, json_t *body, struct problem *problem);
/* Reads "normalize", or "normalized" in Jina's API. */
int params_read_normalize(struct params *p, json_t *body, struct problem *problem);
/* Reads "dimensions". */
int params_read_dimensions(struct params *p, json_t *body, struct problem *problem);
