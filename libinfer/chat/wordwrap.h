/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wraps words for the filter |wordwrap.
 */

#include "chat/jinja.h"

/* Does what Python's textwrap.wrap() does with one line, but keeps tabs and other whitespace.
 * Returns a list of lines. */
struct value wordwrap(struct jinja *j, struct jstr *s, int64_t width, bool break_long,
                      bool hyphens);
