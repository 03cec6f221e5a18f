/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes how long an answer took, in the form of llama-server's field `timings`. */

#include "chat/generation.h"

/* Appends {"cache_n":…,"prompt_n":…,"prompt_ms":…,…,"predicted_per_second":…} for the choice @c, up
 * to now. -ENOMEM. */
int timings_put(const struct choice *c, struct str *out);
/* Appends {"total":…,"cache":…,"processed":…,"time_ms":…}: how much of a prompt was computed. */
int timings_put_progress(const struct prompt *prompt, struct str *out);
