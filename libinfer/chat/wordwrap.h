/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "chat/jinja.h"

/* Python's textwrap.wrap() of one line, with tabs and other whitespace kept: a list of lines. */
struct value wordwrap(struct jinja *j, struct jstr *s, int64_t width, bool break_long,
                      bool hyphens);
