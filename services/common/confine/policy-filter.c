/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles policy rules to seccomp filters.
 *
 * libseccomp compiles the rules; a call that they do not allow kills the process. libseccomp cannot
 * compare call numbers, so this file puts a prologue before libseccomp's program. The prologue
 * returns ENOSYS for calls above policy_known(): a C library that tries a new call first must be
 * able to fall back to the old one.
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>

#include <linux/seccomp.h>

#include "common/confine/policy.h"
#include "core/err.h"

enum {
    /* Call numbers from here on belong to the ABI x32; libseccomp's program kills a process that
     * uses such a number. */
    FILTER_X32_BIT = 0x40000000,
};

static int add_rule(scmp_filter_ctx ctx, const struct policy_rule *rule)
{
    struct scmp_arg_cmp compare[POLICY_MAX_CONDITIONS];
    const uint32_t action = rule->error ? SCMP_ACT_ERRNO(rule->error) : SCMP_ACT_ALLOW;

    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct policy_condition *c = &rule->conditions[i];

        compare[i] = (struct scmp_arg_cmp){
            .arg = c->arg,
            .op = SCMP_CMP_MASKED_EQ,
            .datum_a = c->mask,
            .datum_b = c->own_pid ? (uint64_t)getpid() : c->value,
        };
    }
    /* This is the call's number on this machine. libseccomp converts it to the number on the
     * architecture of the filter. */
    return seccomp_rule_add_array(ctx, action, seccomp_syscall_resolve_name(rule->name),
                                  (unsigned)rule->n_conditions, compare);
}

static int filter_fill(scmp_filter_ctx ctx, const struct policy *policy, enum policy_phase phase,
                       enum policy_arch arch, struct inf_err *reterr)
{
    const uint32_t token = policy_arch_token(arch);
    const struct policy_rule *rules;
    size_t n;
    int r = 0;

    if (token != seccomp_arch_native()) {
        r = seccomp_arch_add(ctx, token);
        if (r == 0)
            r = seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE);
    }
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree, not a list */
    if (r < 0)
        return err_set(reterr, -r, "libseccomp: %s", strerror(-r));
    rules = policy_rules(policy, phase, &n);
    for (size_t i = 0; i < n; i++) {
        if (!rules[i].arches[arch])
            continue;
        r = add_rule(ctx, &rules[i]);
        if (r < 0)
            return err_set(reterr, -r, "%s:%zu: libseccomp refuses the rule for \"%s\": %s",
                           rules[i].file, rules[i].line, rules[i].name, strerror(-r));
    }
    return 0;
}

/*
 * Exports libseccomp's program, which libseccomp writes only to a descriptor. The descriptor is a
 * pipe, because units may forbid memfds. Writes to the pipe do not block, so a program that does
 * not fit is an error.
 */
static int filter_compile(scmp_filter_ctx ctx, struct sock_filter **ret_program, size_t *ret_n)
{
    _cleanup_free_ struct sock_filter *program = NULL;
    _cleanup_close_ int from = -1, to = -1;
    int fds[2], r;
    ssize_t got;
    int room;

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    from = fds[0];
    to = fds[1];
    room = fcntl(to, F_GETPIPE_SZ);
    if (room < 0)
        return -errno;
    r = seccomp_export_bpf(ctx, to);
    if (r < 0)
        return r;
    program = malloc((size_t)room);
    if (!program)
        return -ENOMEM;
    got = read(from, program, (size_t)room);
    if (got < 0)
        return -errno;
    /* If the pipe is full, the program may be truncated. */
    if (got == room)
        return -E2BIG;
    *ret_program = STEAL(program);
    *ret_n = (size_t)got / sizeof(*program);
    return 0;
}

/* Returns the prologue followed by the compiled program. */
static int filter_export(scmp_filter_ctx ctx, unsigned known, enum policy_arch arch,
                         struct sock_fprog *ret_program)
{
    const struct sock_filter prologue[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, policy_arch_token(arch), 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FILTER_X32_BIT, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, known, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    _cleanup_free_ struct sock_filter *compiled = NULL;
    struct sock_filter *program;
    size_t n_compiled = 0, n;
    int r;

    r = filter_compile(ctx, &compiled, &n_compiled);
    if (r < 0)
        return r;
    n = n_compiled + ARRAY_SIZE(prologue);
    if (n > BPF_MAXINSNS)
        return -E2BIG;
    program = NEW(struct sock_filter, n);
    if (!program)
        return -ENOMEM;
    memcpy(program, prologue, sizeof(prologue));
    memcpy(program + ARRAY_SIZE(prologue), compiled, n_compiled * sizeof(*compiled));
    *ret_program = (struct sock_fprog){.len = (unsigned short)n, .filter = program};
    return 0;
}

int policy_compile(const struct policy *policy, enum policy_phase phase, enum policy_arch arch,
                   struct sock_fprog *ret_program, struct inf_err *reterr)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int r;

    if (!ctx)
        return err_set(reterr, ENOTSUP,
                       "libseccomp cannot start: the kernel has no seccomp filters, or a filter "
                       "around this process forbids the system call seccomp");
    r = filter_fill(ctx, policy, phase, arch, reterr);
    if (r == 0) {
        r = filter_export(ctx, policy_known(policy), arch, ret_program);
        if (r < 0)
            err_set(reterr, -r, "cannot compile the system call filter: %s", strerror(-r));
    }
    seccomp_release(ctx);
    return r;
}
