/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses the kernel's audit messages about seccomp (type 1326) and AppArmor (type 1400). */

#include "core/macros.h"

enum refusal_kind {
    REFUSAL_NONE,     /* the line is about something else */
    REFUSAL_SYSCALL,  /* a system call that the policy does not allow */
    REFUSAL_APPARMOR, /* an access that the AppArmor profile does not allow */
};

struct audit_line {
    enum refusal_kind kind;
    char program[64]; /* base name of exe=, or comm= if there is no exe=: "sconce-chat" */
    int syscall;      /* for REFUSAL_SYSCALL: number of the call */
    char call[40];    /* its name, or its number if libseccomp has no name for it */
    char what[256];   /* for REFUSAL_APPARMOR: "open /etc/shadow" */
};

/* Parses one message of the kernel or of auditd. */
void audit_line_parse(const char *text, struct audit_line *ret_line);
