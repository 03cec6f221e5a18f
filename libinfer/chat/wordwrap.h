/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Word wrapping for the filter |wordwrap.
 */

#include "chat/jinja.h"

/* Python's textwrap.wrap() for one line, keeping tabs and other whitespace. Returns a list of
 * lines. */
struct value wordwrap(struct jinja *j, struct jstr *s, int64_t width, bool break_long,
                      bool hyphens);
