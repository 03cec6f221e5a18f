/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Policies: which system calls and which files a service may use, and when
 *
 * seccomp/NAME.yaml lists calls by phase, most of them by including seccomp/fragments/NAME.yaml;
 * landlock/NAME.yaml lists paths, and includes landlock/fragments/NAME.yaml. A service has the
 * policy of its name, and may have others for what it can be configured to do. docs/security.md
 * tells the form. A policy is read whole or not at all: unknown keys, calls, constants and rights
 * are errors with file, line and column.
 */

#include <infer/types.h>
#include <linux/filter.h>

#include "core/macros.h"

/* Files by their names below policy/. */
struct policy_text {
    const char *name, *text;
    size_t len;
};

extern const struct policy_text policy_texts[]; /* those that were embedded at build */
extern const size_t n_policy_texts;

enum policy_phase {
    POLICY_START, /* from the configuration's end to READY; has all that POLICY_SERVE has */
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

/* (argument & mask) == value */
struct policy_condition {
    unsigned arg;
    uint64_t mask, value;
    bool own_pid;                       /* value is the id of this process */
    const char *mask_text, *value_text; /* as written; mask_text is NULL without a mask */
};

/* A call, allowed (or failing) when all conditions hold. Several rules may have the same name; no
 * two of them, one of which allows, are for the same arguments. */
struct policy_rule {
    const char *name;
    int error; /* 0: allowed; else it fails with this errno value */
    bool arches[POLICY_N_ARCHES];
    struct policy_condition conditions[POLICY_MAX_CONDITIONS];
    size_t n_conditions;
    const char *why, *rare; /* or NULL; rare: why no ordinary run calls it */
    const char *file;
    size_t line;
};

struct policy_path {
    /* Absolute, and may be a pattern of glob(7); or "models": all model directories and what they
     * link to; or "cache": the directory of compiled kernels; or "blocks": that
     * of kept KV blocks. */
    const char *path;
    uint64_t rights; /* LANDLOCK_ACCESS_FS_* */
    const char *rights_text, *why;
};

struct policy;

/* @texts is borrowed during the call. -ENOENT: no policy of that name; -EINVAL; -ENOMEM. */
int policy_load(const struct policy_text *texts, size_t n_texts, const char *name,
                struct policy **ret_policy, struct inf_err *reterr);
struct policy *policy_free(struct policy *policy);
DEFINE_CLEANUP(struct policy *, policy_free);

/* One sentence about the calls, and one about the files. */
const char *policy_about(const struct policy *policy);
const char *policy_about_files(const struct policy *policy);
/* Why memory may become executable; NULL: it may not. */
const char *policy_executable(const struct policy *policy);
/* How many different calls the last phase may allow, by its own word. */
unsigned policy_limit(const struct policy *policy);
/* The highest call number that the policy's author knew; later ones get ENOSYS. */
unsigned policy_known(const struct policy *policy);
const struct policy_rule *policy_rules(const struct policy *policy, enum policy_phase phase,
                                       size_t *ret_n);
const struct policy_path *policy_paths(const struct policy *policy, size_t *ret_n);
/* How many different calls are allowed. */
unsigned policy_count(const struct policy *policy, enum policy_phase phase, enum policy_arch arch);

const char *policy_phase_name(enum policy_phase phase);
const char *policy_arch_name(enum policy_arch arch);
/* -ENOTSUP: policies say nothing about this machine's. */
int policy_arch_native(enum policy_arch *ret_arch);
uint32_t policy_arch_token(enum policy_arch arch); /* SCMP_ARCH_* */
/* The number of a call; negative: it does not exist there. */
int policy_call_number(const char *name, enum policy_arch arch);

/* "O_RDONLY|O_CLOEXEC", "0x3" …; the same on all architectures here. */
bool policy_constant(const char *text, uint64_t *ret_value);
/* An errno value by name; 0: unknown. */
int policy_errno(const char *name);

/*
 * The filter of one phase for seccomp(2). Calls that no rule allows kill the process, calls above
 * policy_known() get ENOSYS, and so nothing of other ABIs of the machine (32 bits, x32) is allowed.
 * The caller frees ret_program->filter.
 */
int policy_compile(const struct policy *policy, enum policy_phase phase, enum policy_arch arch,
                   struct sock_fprog *ret_program, struct inf_err *reterr);
