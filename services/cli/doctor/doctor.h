/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared declarations of the checks of `sconce doctor`
 *
 * A check examines one thing and adds findings. It changes nothing, starts nothing, and needs no
 * privileges; what it cannot examine without them becomes a finding of its own. A finding carries a
 * command that repairs the fault and can be run as printed.
 */

#include "cli/cli.h"
#include "cli/machine/places.h"

struct config;
struct units;

enum finding_kind {
    FINDING_BROKEN, /* something does not work */
    FINDING_ADVICE, /* it works, but could work better, or will stop working soon */
    FINDING_UNSEEN, /* it could not be checked */
};

struct finding {
    enum finding_kind kind;
    const char *check; /* static: "doors" */
    char *what;        /* one line */
    char *command;     /* repairs the fault; NULL: no command does */
};

/* A service manager, the system's or the user's, with its files and configuration */
struct doctor_side {
    struct places places;
    struct units *units;   /* NULL: the manager does not answer */
    struct config *config; /* NULL: it is invalid */
    bool used;             /* its sockets are open, or should be */
    bool masked;           /* its target is masked; doctor_managers() reports this */
};

enum {
    DOCTOR_MAX_SIDES = 2,
};

struct doctor {
    struct doctor_side sides[DOCTOR_MAX_SIDES]; /* the sides to check */
    size_t n_sides;
    bool other_door; /* a socket answers that no manager opened: `sconce serve` */
    bool deep;
    struct finding *findings;
    size_t n_findings;
};

/* Adds a finding. @what and, unless NULL, @command are copied; control characters become blanks.
 * Use doctor_quote() for every word in @command that comes from outside. */
void doctor_tell(struct doctor *d, enum finding_kind kind, const char *check, const char *command,
                 const char *what, ...) PRINTF(5, 6);
/* Formats a text in a ring of static buffers, for commands. */
const char *doctor_text(const char *format, ...) PRINTF(1, 2);
/* Quotes @word for a shell, in one of these buffers. */
const char *doctor_quote(const char *word);
/* The systemctl command for @side: "systemctl --user", "systemctl" or "sudo systemctl". */
const char *doctor_systemctl(const struct doctor_side *side);
/* "sudo " if @side is the system's and this process is not root, else "". */
const char *doctor_sudo(const struct doctor_side *side);
/* A command that opens an editor at the place of an error "FILE.yaml:LINE:COLUMN: text"; NULL: the
 * text contains no
 * place. */
const char *doctor_edit(const struct doctor_side *side, const char *text);
/* The owner of @side: "your" or "the machine's". */
const char *doctor_whose(const struct doctor_side *side);

/* The checks, in the order in which they run */
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
void doctor_question(struct doctor *d); /* --deep: starts the services */
