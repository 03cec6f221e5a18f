/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sets of code points, for classes of regular expressions. */

#include "grammar/builder.h"

/* A struct of zeros is the empty set. */
struct set {
    struct grammar_range *ranges; /* in any order; may overlap */
    size_t n, cap;
};

#define SET_LAST 0x10ffffu

void set_done(struct set *s);
/* -ENOMEM; -E2BIG: the set has too many ranges. */
int set_add(struct set *s, uint32_t first, uint32_t last);
int set_add_set(struct set *s, const struct set *other);
/* Replaces the set by its complement. */
int set_invert(struct set *s);
/* Adds to each letter its upper and its lower case (simple mappings). */
int set_fold(struct set *s);
/* Adds all code points with a property of ECMA-262 that utf8proc knows: a general category ("Lu",
 * "L", "Letter", also after "General_Category=" or "gc="), "Any", "ASCII" or "Assigned". -EINVAL:
 * any other. */
int set_add_property(struct set *s, const char *name, size_t len);
/* Adds the characters of \d, \s or \w in ECMA-262, or with @unicode those in Rust. */
int set_add_escape(struct set *s, char escape, bool unicode);
grammar_node set_node(const struct set *s, struct grammar_builder *b);
