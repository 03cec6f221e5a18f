/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which files of the machine the chat service can see
 *
 * Its unit hides some trees and binds some directories back: of two rules for a path the longer one
 * wins. Modes of files are another matter.
 */

#include "core/macros.h"

struct places;
struct units;

enum {
    SANDBOX_MAX_RULES = 256,
};

struct sandbox_rule {
    char *prefix;
    bool hides;
};

struct sandbox {
    struct sandbox_rule rules[SANDBOX_MAX_RULES];
    size_t n_rules;
};

/* What our units say, without anybody's drop-ins. */
void sandbox_default(const struct places *places, struct sandbox *ret);
/* What the manager says of the unit, drop-ins included; false when it does not answer. */
bool sandbox_of_unit(struct units *units, const char *unit, struct sandbox *ret);
void sandbox_done(struct sandbox *s);

void sandbox_add(struct sandbox *s, const char *prefix, bool hides);
/* @path: absolute, without links and dots. */
bool sandbox_hides(const struct sandbox *s, const char *path);
