/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the seccomp filters of every architecture with an interpreter of the few BPF instructions
 * that they use. The decisions of the filters must match the rules, also for architectures other
 * than this machine's.
 */
#include <linux/seccomp.h>
#include <sys/mman.h>

#include "common/confine/policy.h"
#include "lib/test.h"
#include "service-rows.h"

static const char *const services[] = {SERVICE_POLICIES};

enum {
    NUMBERS = 700, /* more than the largest system call number of any kernel */
};

static uint32_t load(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t word;

    assert_true(offset % 4 == 0 && offset + 4 <= sizeof(*data));
    memcpy(&word, (const char *)data + offset, sizeof(word));
    return word;
}

static uint32_t run(const struct sock_fprog *program, const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < program->len; pc++) {
        const struct sock_filter *i = &program->filter[pc];
        bool yes;

        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            a = load(data, i->k);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            continue;
        case BPF_RET | BPF_K:
            return i->k;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            yes = a == i->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            yes = a > i->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            yes = a >= i->k;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            yes = a & i->k;
            break;
        default:
            fail_msg("instruction %zu has code %x", pc, i->code);
            return 0;
        }
        pc += yes ? i->jt : i->jf;
    }
    fail_msg("the program ends without a result");
    return 0;
}

struct filter {
    const struct policy_rule *rules;
    size_t n;
    enum policy_arch arch;
    unsigned known;
    struct sock_fprog program;
};

static bool holds(const struct policy_rule *rule, const struct seccomp_data *data)
{
    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct policy_condition *c = &rule->conditions[i];
        const uint64_t value = c->own_pid ? (uint64_t)getpid() : c->value;

        if ((data->args[c->arg] & c->mask) != value)
            return false;
    }
    return true;
}

static uint32_t expected(const struct filter *f, const struct seccomp_data *data)
{
    if (data->nr > (int)f->known)
        return SECCOMP_RET_ERRNO | ENOSYS;
    for (size_t i = 0; i < f->n; i++)
        if (f->rules[i].arches[f->arch] &&
            policy_call_number(f->rules[i].name, f->arch) == data->nr && holds(&f->rules[i], data))
            return f->rules[i].error ? SECCOMP_RET_ERRNO | (uint32_t)f->rules[i].error
                                     : SECCOMP_RET_ALLOW;
    return SECCOMP_RET_KILL_PROCESS;
}

static void decide(const struct filter *f, const struct seccomp_data *data)
{
    const uint32_t is = run(&f->program, data), should = expected(f, data);

    if (is != should)
        fail_msg("call %d (%llx, %llx, %llx) on %s: %x instead of %x", data->nr, data->args[0],
                 data->args[1], data->args[2], policy_arch_name(f->arch), is, should);
}

/* Tries the arguments that a rule allows, and each argument with one bit changed. */
static void try_rule(const struct filter *f, const struct policy_rule *rule)
{
    struct seccomp_data data = {.nr = policy_call_number(rule->name, f->arch),
                                .arch = policy_arch_token(f->arch)};

    for (size_t i = 0; i < rule->n_conditions; i++)
        data.args[rule->conditions[i].arg] =
            rule->conditions[i].own_pid ? (uint64_t)getpid() : rule->conditions[i].value;
    decide(f, &data);
    for (unsigned arg = 0; arg < 6; arg++)
        for (unsigned bit = 0; bit < 64; bit++) {
            struct seccomp_data other = data;

            other.args[arg] ^= UINT64_C(1) << bit;
            decide(f, &other);
        }
}

static void try_filter(const struct filter *f)
{
    for (int nr = 0; nr < NUMBERS; nr++)
        for (int ones = 0; ones < 2; ones++) {
            struct seccomp_data data = {.nr = nr, .arch = policy_arch_token(f->arch)};

            memset(data.args, ones ? 0xff : 0, sizeof(data.args));
            decide(f, &data);
        }
    for (size_t i = 0; i < f->n; i++)
        if (f->rules[i].arches[f->arch])
            try_rule(f, &f->rules[i]);
}

TEST(filters_decide_as_rules_say)
{
    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        struct policy *policy = NULL;
        struct inf_err err = {0};

        ASSERT_OK_ERR(policy_load(policy_texts, n_policy_texts, services[s], &policy, &err), err);
        for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++)
            for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++) {
                struct filter f = {.arch = a, .known = policy_known(policy)};

                f.rules = policy_rules(policy, p, &f.n);
                ASSERT_OK_ERR(policy_compile(policy, p, a, &f.program, &err), err);
                try_filter(&f);
                free(f.program.filter);
            }
        policy_free(policy);
    }
}

/* Returns whether the filter of @service must deny a call of mmap() with @flags, or of mprotect()
 * (@flags is NULL). No memory is both writable and executable. Drivers with a compiler may make
 * memory executable, with exactly one protection. mmap() may map files as code, but no shared
 * memory, except for lavapipe. */
static bool is_denied(const char *service, uint64_t prot, const __u64 *flags)
{
    const bool compiled = prot == (PROT_READ | PROT_EXEC);

    if (!(prot & PROT_EXEC) || (prot & PROT_WRITE))
        return prot & PROT_EXEC;
    if (strcmp(service, "chat-lavapipe") == 0)
        return !compiled;
    if (!flags)
        return strcmp(service, "chat-nvidia") != 0 || !compiled;
    return *flags & MAP_SHARED;
}

/* Tries mmap() with the protection @prot and with all combinations of flags that matter, and
 * mprotect(). */
static void try_protection(const struct filter *f, const char *service, uint64_t prot)
{
    static const unsigned flags[] = {MAP_SHARED, MAP_PRIVATE, MAP_FIXED, MAP_ANONYMOUS,
                                     MAP_DENYWRITE};
    const int numbers[] = {policy_call_number("mmap", f->arch),
                           policy_call_number("mprotect", f->arch)};

    for (unsigned i = 0; i < 2u << ARRAY_SIZE(flags); i++) {
        struct seccomp_data data = {.nr = numbers[i & 1], .arch = policy_arch_token(f->arch)};

        data.args[2] = prot;
        for (unsigned k = 0; k < ARRAY_SIZE(flags); k++)
            if (i >> 1 & 1u << k)
                data.args[3] |= flags[k];
        decide(f, &data);
        if (is_denied(service, prot, i & 1 ? NULL : &data.args[3]) &&
            run(&f->program, &data) == SECCOMP_RET_ALLOW)
            fail_msg("%s: %s allows protection %llx with the flags %llx", service,
                     (i & 1) ? "mprotect" : "mmap", data.args[2], data.args[3]);
    }
}

TEST(no_memory_is_writable_and_executable)
{
    static const uint64_t more[] = {0, PROT_GROWSDOWN, PROT_GROWSUP, 8 /* PROT_SEM */,
                                    UINT64_C(1) << 32};

    for (size_t s = 0; s < sizeof(services) / sizeof(services[0]); s++) {
        struct policy *policy = NULL;
        struct inf_err err = {0};

        ASSERT_OK_ERR(policy_load(policy_texts, n_policy_texts, services[s], &policy, &err), err);
        for (unsigned i = 0; i < POLICY_N_PHASES * POLICY_N_ARCHES; i++) {
            const enum policy_phase phase = i % POLICY_N_PHASES;
            struct filter f = {.arch = i / POLICY_N_PHASES, .known = policy_known(policy)};

            f.rules = policy_rules(policy, phase, &f.n);
            ASSERT_OK_ERR(policy_compile(policy, phase, f.arch, &f.program, &err), err);
            for (uint64_t k = 0; k < 8 * ARRAY_SIZE(more); k++)
                try_protection(&f, services[s], k % 8 | more[k / 8]);
            free(f.program.filter);
        }
        policy_free(policy);
    }
}

TEST(other_architectures_are_killed)
{
    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++) {
        struct policy *policy = NULL;
        struct sock_fprog program;
        struct inf_err err = {0};

        ASSERT_OK_ERR(policy_load(policy_texts, n_policy_texts, "chat", &policy, &err), err);
        ASSERT_OK_ERR(policy_compile(policy, POLICY_SERVE, a, &program, &err), err);
        for (int nr = 0; nr < NUMBERS; nr++) {
            struct seccomp_data data = {.nr = nr,
                                        .arch = policy_arch_token((a + 1) % POLICY_N_ARCHES)};

            assert_int_equal(run(&program, &data), SECCOMP_RET_KILL_PROCESS);
            data.arch = 0x40000003; /* i386 */
            assert_int_equal(run(&program, &data), SECCOMP_RET_KILL_PROCESS);
            if (a != POLICY_X86_64)
                continue;
            data = (struct seccomp_data){.nr = nr | 0x40000000, .arch = policy_arch_token(a)};
            assert_int_equal(run(&program, &data), SECCOMP_RET_KILL_PROCESS);
        }
        free(program.filter);
        policy_free(policy);
    }
}

RUN_TESTS(cmocka_unit_test(filters_decide_as_rules_say),
          cmocka_unit_test(no_memory_is_writable_and_executable),
          cmocka_unit_test(other_architectures_are_killed))
