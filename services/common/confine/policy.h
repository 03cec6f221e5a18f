/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loads policies, which say what system calls and files a service may use in each phase.
 *
 * seccomp/NAME.yaml lists calls by phase. Most calls are in fragments, files with calls that
 * several policies include: seccomp/fragments/NAME.yaml. landlock/NAME.yaml lists paths, and
 * includes landlock/fragments/NAME.yaml. A service has the policy of its name, and may have others
 * for optional features. docs/security.md describes the format. A policy with any error is
 * rejected: unknown keys, calls, constants and rights are errors with file, line and column.
 */

#include <infer/types.h>
#include <linux/filter.h>

#include "core/macros.h"

/* Struct policy_text is an embedded file. Its name is its path below policy/. */
struct policy_text {
    const char *name, *text;
    size_t len;
};

extern const struct policy_text policy_texts[]; /* embedded at build */
extern const size_t n_policy_texts;

enum policy_phase {
    POLICY_START, /* lasts from the end of reading the configuration until the service is ready;
                     allows all that POLICY_SERVE allows */
    POLICY_SERVE,
    POLICY_N_PHASES,
};

enum policy_arch {
    POLICY_X86_64,
    POLICY_ARM64,
    POLICY_N_ARCHES,
};

enum {
    POLICY_MAX_CONDITIONS = 3,
};

/* Struct policy_condition demands that (argument & mask) == value. */
struct policy_condition {
    unsigned arg;
    uint64_t mask, value;
    bool own_pid;                       /* value is the id of this process */
    const char *mask_text, *value_text; /* as written; mask_text is NULL without a mask */
};

/* Struct policy_rule allows a call, or makes it fail, if all conditions hold. Several rules may
 * have the same name, but a rule that allows the call must not match the same arguments as another
 * rule of this name. */
struct policy_rule {
    const char *name;
    int error; /* 0: the call is allowed; else the errno value with which it fails */
    bool arches[POLICY_N_ARCHES];
    struct policy_condition conditions[POLICY_MAX_CONDITIONS];
    size_t n_conditions;
    const char *why, *rare; /* why: the reason for which the call is needed; rare: the reason for
                               which a normal run does not make it; NULL: no reason is given */
    const char *file;
    size_t line;
};

struct policy_path {
    /* An absolute path, which may be a pattern of glob(7), or one of six words. "models" stands
     * for all model directories and the targets of their links. "cache" stands for the directory of
     * compiled kernels, and "blocks" for the directory of stored KV blocks. "kept" stands for the
     * directory of the keep service if the configuration makes this service write to disk, and for
     * no directory otherwise; "history" stands for that of the history service unless the
     * configuration switches the history off. "here" stands for the working directory at the start.
     */
    const char *path;
    uint64_t rights; /* LANDLOCK_ACCESS_FS_* */
    const char *rights_text, *why;
};

struct policy;

/* Borrows @texts during the call. -ENOENT: there is no policy @name; -EINVAL; -ENOMEM. */
int policy_load(const struct policy_text *texts, size_t n_texts, const char *name,
                struct policy **ret_policy, struct inf_err *reterr);
struct policy *policy_free(struct policy *policy);
DEFINE_CLEANUP(struct policy *, policy_free);

/* Return a sentence about what the policy allows: policy_about() about calls, and
 * policy_about_files() about files. */
const char *policy_about(const struct policy *policy);
const char *policy_about_files(const struct policy *policy);
/* Returns the reason why memory may become executable; NULL: it may not. */
const char *policy_executable(const struct policy *policy);
/* Returns the reason why the process may connect to other machines; NULL: it may not. */
const char *policy_network(const struct policy *policy);
/* Returns the policy's own limit for the number of different calls in the phase `serve`. */
unsigned policy_limit(const struct policy *policy);
/* Returns the highest call number that the policy's author knew; calls above it get ENOSYS. */
unsigned policy_known(const struct policy *policy);
const struct policy_rule *policy_rules(const struct policy *policy, enum policy_phase phase,
                                       size_t *ret_n);
const struct policy_path *policy_paths(const struct policy *policy, size_t *ret_n);
/* Returns the number of different calls that @phase allows. */
unsigned policy_count(const struct policy *policy, enum policy_phase phase, enum policy_arch arch);

const char *policy_phase_name(enum policy_phase phase);
const char *policy_arch_name(enum policy_arch arch);
/* -ENOTSUP: policies do not cover the architecture of this machine. */
int policy_arch_native(enum policy_arch *ret_arch);
uint32_t policy_arch_token(enum policy_arch arch); /* SCMP_ARCH_* */
/* Returns the number of a call; negative: @arch does not have the call. */
int policy_call_number(const char *name, enum policy_arch arch);

/* Reads constants such as "O_RDONLY|O_CLOEXEC" or "0x3", which are the same on all
 * architectures. */
bool policy_constant(const char *text, uint64_t *ret_value);
/* Returns the errno value with a name such as "EPERM"; 0: unknown. */
int policy_errno(const char *name);

/*
 * Compiles the filter of one phase for seccomp(2). Calls that no rule allows kill the process, and
 * calls above policy_known() get ENOSYS. Calls through the machine's other ABIs (32 bits, x32) kill
 * the process too. The caller frees ret_program->filter.
 */
int policy_compile(const struct policy *policy, enum policy_phase phase, enum policy_arch arch,
                   struct sock_fprog *ret_program, struct inf_err *reterr);
