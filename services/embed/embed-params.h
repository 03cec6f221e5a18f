/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Fields that requests of several kinds share. */

#include <infer/embed.h>
#include <infer/tokenizer.h>
#include <jansson.h>

#include "common/http/problem.h"
#include "embed/inputs.h"

struct params {
    const char *task;  /* that a model is adapted to; borrowed; NULL: its first */
    const char *model; /* borrowed from the body; NULL: the default one */
    enum inf_cut cut;
    struct inputs_prompt prompt;
    enum inf_normalize normalize;
    uint32_t dimensions; /* 0: all */
};

/* "model" */
int params_read_model(struct params *p, json_t *body, struct problem *problem);
/* "task" */
int params_read_task(struct params *p, json_t *body, struct problem *problem);
/* "truncate": a boolean (TEI's), or "none", "start", "end"; "truncation_direction": "left",
 * "right". Without a word the cut stays as it is. */
int params_read_cut(struct params *p, json_t *body, struct problem *problem);
/* "prompt_name", "prompt", "instruction": one of them at most. */
int params_read_prompt(struct params *p, json_t *body, struct problem *problem);
/* "normalize", which Jina's clients call "normalized". */
int params_read_normalize(struct params *p, json_t *body, struct problem *problem);
/* "dimensions" */
int params_read_dimensions(struct params *p, json_t *body, struct problem *problem);
