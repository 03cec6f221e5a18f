/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the sampling parameters that are used with a model if the user gives none. */

#include "common/models/sampling.h"

struct cli_models;
struct inf_model;

/* Sets the parameters that @s lacks: from the manifest of the model @name, from @model's own files,
 * and from the configuration, in this order. If @sources is not NULL, it gets the source of each
 * parameter. Prints errors itself, and returns the exit status. */
int cli_sampling(const char *verb, const struct cli_models *m, const char *name,
                 const struct inf_model *model, struct inf_sampling *s,
                 enum sampling_source sources[N_SAMPLING_KEYS]);
