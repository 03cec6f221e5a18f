/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds out which files of the machine the unit of the chat service hides.
 *
 * The unit hides some directories. With bind mounts it makes some directories below them visible
 * again. If several rules match a path, the rule with the longest prefix applies. File modes are
 * not considered.
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

/* Returns the rules of the installed units without drop-ins. */
void sandbox_default(const struct places *places, struct sandbox *ret);
/* Returns the rules of the unit and its drop-ins, as systemd reports them; false if systemd does
 * not answer. */
bool sandbox_of_unit(struct units *units, const char *unit, struct sandbox *ret);
void sandbox_done(struct sandbox *s);

void sandbox_add(struct sandbox *s, const char *prefix, bool hides);
/* Returns whether the unit hides @path, an absolute path without links and without "." or "..". */
bool sandbox_hides(const struct sandbox *s, const char *path);
