/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shows the history of requests (an answer of GET /v1/history) as a table or as an image. */

#include <jansson.h>

#include "core/macros.h"

struct str;

/* The periods of a table or an image. */
enum usage_step { USAGE_TOTAL = 0, USAGE_HOUR = 3600, USAGE_DAY = 86400 };

/* Prints a table of @data, the rows of the answer. @by lists the names of its first columns, such
 * as "model", and ends with NULL. */
void usage_print(const json_t *data, enum usage_step step, const char *const *by);
/* Adds the fields tokens_per_second and first_token_seconds to each row. -ENOMEM. */
int usage_add_speeds(json_t *data);
/* Draws the rows of a history by model with periods of @step from @from to @to (Unix seconds).
 * @offset: seconds by which local time is ahead of UTC. -ENOMEM. */
int usage_plot(const json_t *data, int64_t from, int64_t to, enum usage_step step, int64_t offset,
               struct str *out);
