/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Fills in struct inf_err. */

#include <infer/types.h>

#include "core/macros.h"

/* Sets the code and the text of @err; does nothing if @err is NULL. Returns -code, for use as
 * `return err_set(…)`. @code is a positive errno value. Invalid UTF-8 becomes '?', and control
 * characters become spaces. */
int err_set(struct inf_err *err, int code, const char *format, ...) PRINTF(3, 4);
/* Like err_set(), with the byte offset of the error in the input. */
int err_set_at(struct inf_err *err, int code, uint64_t offset, const char *format, ...)
    PRINTF(4, 5);
/* Puts the formatted text and ": " before the text that @err already has. */
void err_prefix(struct inf_err *err, const char *format, ...) PRINTF(2, 3);
