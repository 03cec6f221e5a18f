/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Attribute paths as filters take them: "a.b.0", a number, or None for the item itself. */

#include "chat/jinja.h"

struct attr_path {
    struct value *parts;
    size_t n;
    bool fold;              /* convert strings to lower case, to compare without case */
    struct value otherwise; /* default for undefined attributes; V_MISSING: none */
};

struct attr_path attr_path(struct jinja *j, struct value attribute, bool fold,
                           struct value otherwise);
struct value attr_get(struct jinja *j, const struct attr_path *path, struct value item);
