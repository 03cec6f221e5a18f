/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Refusals that the kernel writes down: seccomp's (type 1326) and AppArmor's (type 1400). */

#include "core/macros.h"

enum audit_kind {
    AUDIT_NONE,     /* the line is about something else */
    AUDIT_SECCOMP,  /* a system call that the policy does not allow */
    AUDIT_APPARMOR, /* something that the profile does not allow */
};

struct audit_line {
    enum audit_kind kind;
    char program[64]; /* base name of exe, else comm; "sconce-chat" */
    int syscall;      /* AUDIT_SECCOMP */
    char call[40];    /* its name, or its number where this machine has no name for it */
    char what[256];   /* AUDIT_APPARMOR: "open /etc/shadow" */
};

/* Parses one message of the kernel or of auditd. */
void audit_line_parse(const char *text, struct audit_line *ret_line);
