/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From rules to a program for the kernel
 *
 * libseccomp compiles the rules; what they do not allow is killed. It has no comparison of call
 * numbers, so a prologue that sends calls above policy_known() to ENOSYS stands before its program:
 * a C library that tries a new call first must find its old way, and not its end.
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
    /* Numbers from here on are those of x32, which libseccomp's program kills. */
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
    /* The number is this machine's; libseccomp translates it for the filter's architecture. */
    return seccomp_rule_add_array(ctx, action, seccomp_syscall_resolve_name(rule->name),
                                  (unsigned)rule->n_conditions, compare);
}

static int fill(scmp_filter_ctx ctx, const struct policy *policy, enum policy_phase phase,
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
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
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
 * libseccomp's program, which it gives to a descriptor alone. A pipe, for units may forbid files in
 * memory; it does not block: a program that does not fit is an error.
 */
static int compile(scmp_filter_ctx ctx, struct sock_filter **ret_program, size_t *ret_n)
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
    /* A full pipe may have cut it. */
    if (got == room)
        return -E2BIG;
    *ret_program = STEAL(program);
    *ret_n = (size_t)got / sizeof(*program);
    return 0;
}

/* The compiled program behind our prologue. */
static int export(scmp_filter_ctx ctx, unsigned known, enum policy_arch arch,
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

    r = compile(ctx, &compiled, &n_compiled);
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
    r = fill(ctx, policy, phase, arch, reterr);
    if (r == 0) {
        r = export(ctx, policy_known(policy), arch, ret_program);
        if (r < 0)
            err_set(reterr, -r, "cannot compile the system call filter: %s", strerror(-r));
    }
    seccomp_release(ctx);
    return r;
}
