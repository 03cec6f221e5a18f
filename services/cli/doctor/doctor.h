/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the checks of `sconce doctor` share
 *
 * A check looks at one thing and adds findings. It changes nothing, wakes nothing, and needs no
 * rights; what it could not see without them it says. Findings carry the command that mends them,
 * which can be run as it stands.
 */

#include "cli/cli.h"
#include "cli/machine/places.h"

struct config;
struct units;

enum finding_kind {
    FINDING_BROKEN, /* something does not work */
    FINDING_ADVICE, /* it works, but not as well as it could, or not for long */
    FINDING_UNSEEN, /* could not be looked at */
};

struct finding {
    enum finding_kind kind;
    const char *check; /* static: "doors" */
    char *what;        /* one line */
    char *command;     /* what mends it; NULL: no command does */
};

/* One manager and what belongs to it. */
struct doctor_side {
    struct places places;
    struct units *units;   /* NULL: it does not answer */
    struct config *config; /* NULL: it is wrong */
    bool used;             /* its doors are open, or should be */
    bool masked;           /* its target is; doctor_managers() tells it */
};

enum {
    DOCTOR_MAX_SIDES = 2,
};

struct doctor {
    struct doctor_side sides[DOCTOR_MAX_SIDES]; /* those that are looked at */
    size_t n_sides;
    bool other_door; /* a door that no manager holds answers: `sconce serve` */
    bool deep;
    struct finding *findings;
    size_t n_findings;
};

/* @what and, unless NULL, @command are copied; control characters become blanks. Words from
 * outside stand in commands only by doctor_quote(). */
void doctor_tell(struct doctor *d, enum finding_kind kind, const char *check, const char *command,
                 const char *what, ...) PRINTF(5, 6);
/* printf to a ring of static buffers, for commands. */
const char *doctor_text(const char *format, ...) PRINTF(1, 2);
/* @word for a shell, in one of these buffers. */
const char *doctor_quote(const char *word);
/* "systemctl --user " or "sudo systemctl " as it must be typed here. */
const char *doctor_systemctl(const struct doctor_side *side);
/* "sudo " when @side is the system's and we are not root. */
const char *doctor_sudo(const struct doctor_side *side);
/* What opens an editor where "FILE.yaml:LINE:COLUMN: text" points; NULL: the text names no place.
 */
const char *doctor_edit(const struct doctor_side *side, const char *text);
/* "your" or "the machine's". */
const char *doctor_whose(const struct doctor_side *side);

/* The checks, in the order of reading. */
void doctor_install(struct doctor *d);
void doctor_managers(struct doctor *d);
void doctor_config(struct doctor *d);
void doctor_keys(struct doctor *d);
void doctor_doors(struct doctor *d);
void doctor_versions(struct doctor *d);
void doctor_models(struct doctor *d);
void doctor_devices(struct doctor *d);
void doctor_kernel(struct doctor *d);
void doctor_disks(struct doctor *d);
void doctor_journal(struct doctor *d);
void doctor_question(struct doctor *d); /* --deep: wakes the services */
