/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Attributes as filters name them: "a.b.0", a number, or None for the item itself. */

#include "chat/jinja.h"

struct attr_path {
    struct value *parts;
    size_t n;
    bool fold;              /* strings in lower case, to compare them without case */
    struct value otherwise; /* for what is undefined on the way; V_MISSING: nothing */
};

struct attr_path attr_path(struct jinja *j, struct value attribute, bool fold,
                           struct value otherwise);
struct value attr_get(struct jinja *j, const struct attr_path *path, struct value item);
/* Sorts stably by keys of the same count. */
void sort_by_keys(struct jinja *j, struct value *items, struct value *keys, size_t n, bool reverse);
