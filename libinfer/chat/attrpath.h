/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads attributes of items by the paths that filters take: "a.b.0", a number, or None for the item
 * itself. */

#include "chat/jinja.h"

struct attr_path {
    struct value *parts;
    size_t n;
    bool fold;              /* strings are converted to lower case, so that comparisons ignore
                               case */
    struct value otherwise; /* default for undefined attributes; V_MISSING: there is none */
};

struct attr_path attr_path(struct jinja *j, struct value attribute, bool fold,
                           struct value otherwise);
struct value attr_get(struct jinja *j, const struct attr_path *path, struct value item);
