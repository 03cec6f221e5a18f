/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of the machine that the chat service can see
 *
 * Its unit hides some trees and binds some directories back. If several rules match a path, the
 * longest one applies. File modes are not considered.
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

/* The rules of the installed units without drop-ins. */
void sandbox_default(const struct places *places, struct sandbox *ret);
/* The rules of the unit as systemd reports them, including drop-ins; false if systemd does not
 * answer. */
bool sandbox_of_unit(struct units *units, const char *unit, struct sandbox *ret);
void sandbox_done(struct sandbox *s);

void sandbox_add(struct sandbox *s, const char *prefix, bool hides);
/* Whether the unit hides @path, which is absolute, without links and dots. */
bool sandbox_hides(const struct sandbox *s, const char *path);
