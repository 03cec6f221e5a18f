/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a generation's messages to the prompt that its model's chat template makes of them. */

#include "common/http/problem.h"

struct generation;

/* Reads and checks messages, documents and template variables. */
int template_read(struct generation *g, struct problem *problem);
/* The caller frees *ret_text. */
int template_render(struct generation *g, char **ret_text, size_t *ret_len,
                    struct problem *problem);
