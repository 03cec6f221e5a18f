/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares schemas for test-schema.c, with texts that they permit and texts that they do not
 * permit. */

#include <stddef.h>

struct text_case {
    const char *schema;
    const char *yes[12], *no[12]; /* end with NULL */
};

struct error_case {
    const char *schema, *message;
};

extern const struct text_case text_cases[];
extern const size_t n_text_cases;
extern const struct error_case error_cases[];
extern const size_t n_error_cases;
