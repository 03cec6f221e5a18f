/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares what the checks of `sconce doctor` share.
 *
 * A check examines one thing and adds findings. It changes nothing, starts nothing, and needs no
 * privileges. If a check needs privileges that this process lacks, it adds a finding that says so.
 * If a command repairs the fault, the finding has this command, which can be run as printed.
 */

#include "cli/cli.h"
#include "cli/machine/places.h"

struct config;
struct units;

enum finding_kind {
    FINDING_BROKEN, /* something does not work */
    FINDING_ADVICE, /* something works, but could work better, or will stop working soon */
    FINDING_UNSEEN, /* something could not be checked */
};

struct finding {
    enum finding_kind kind;
    const char *check; /* a literal: the name of the check, such as "keys" */
    char *what;        /* one line for people */
    char *command;     /* repairs the fault; NULL: no command does */
};

/* A "side" (struct doctor_side) is one service manager, the system's or the user's, with its files
 * and configuration. */
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
    bool other_door; /* no service manager opened a socket, but a gateway of `sconce serve` listens
                      */
    bool deep;
    struct finding *findings;
    size_t n_findings;
};

/* Adds a finding. @what and, unless NULL, @command are copied; control characters become blanks.
 * Use doctor_quote() for every word in @command that does not come from this program. */
void doctor_tell(struct doctor *d, enum finding_kind kind, const char *check, const char *command,
                 const char *what, ...) PRINTF(5, 6);
/* Formats a text in a ring of static buffers, for commands. */
const char *doctor_text(const char *format, ...) PRINTF(1, 2);
/* Quotes @word for a shell, in one of the buffers of doctor_text(). */
const char *doctor_quote(const char *word);
/* Returns the systemctl command for @side: "systemctl --user", "systemctl" or "sudo systemctl". */
const char *doctor_systemctl(const struct doctor_side *side);
/* Returns "sudo " if @side is the system's and this process is not root, else "". */
const char *doctor_sudo(const struct doctor_side *side);
/* Returns a command that opens an editor at the place of an error "FILE.yaml:LINE:COLUMN: text";
 * NULL: the text contains no place. */
const char *doctor_edit(const struct doctor_side *side, const char *text);
/* Returns the owner of @side for messages: "your" or "the machine's". */
const char *doctor_whose(const struct doctor_side *side);

/* Declares the checks, in the order in which they run. */
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
