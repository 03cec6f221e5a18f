/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Filling in struct inf_err. */

#include <infer/types.h>

#include "core/macros.h"

/* Writes the sentence unless @err is NULL; returns -code, so that `return err_set(…)` reads well.
 * @code is a positive errno value. Invalid UTF-8 and control characters in it become '?'. */
int err_set(struct inf_err *err, int code, const char *format, ...) PRINTF(3, 4);
/* The same with a byte offset of the input. */
int err_set_at(struct inf_err *err, int code, uint64_t offset, const char *format, ...)
    PRINTF(4, 5);
/* Puts "@prefix: " before a text that is already there. */
void err_prefix(struct inf_err *err, const char *format, ...) PRINTF(2, 3);
