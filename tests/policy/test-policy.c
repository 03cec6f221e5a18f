/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which policies the parser rejects, and which actions none of sconce's policies may allow.
 */
#include "common/confine/policy.h"

#include "lib/test.h"
#include "service-rows.h"

static const char *const services[] = {SERVICE_POLICIES};

static bool is_chat(const char *service)
{
    return strncmp(service, "chat", 4) == 0;
}

/* Returns whether a service loads drivers and caches their compiled code. A service may do so only
 * before it reports to systemd that it is ready (READY). */
static bool has_drivers(const char *service)
{
    return strncmp(service, "chat-", 5) == 0;
}

/* Returns whether memory may become executable, because drivers compile code in the process. */
static bool has_compiler(const char *service)
{
    return strcmp(service, "chat-nvidia") == 0 || strcmp(service, "chat-lavapipe") == 0;
}

/* Loads the policy of a service "t" from three texts: the system calls, a fragment "f", and the
 * files. */
static int load(const char *calls, const char *fragment, const char *files,
                struct policy **ret_policy, struct inf_err *err)
{
    static const char good[] = "paths: [{path: /f, rights: [read_dir]}]\n";
    static const char bad[] = "paths: [{path: there, rights: [read_dir]}]\n";
    const struct policy_text texts[] = {
        {"seccomp/t.yaml", calls, strlen(calls)},
        {"seccomp/fragments/f.yaml", fragment, strlen(fragment)},
        {"landlock/t.yaml", files, strlen(files)},
        {"landlock/fragments/f.yaml", good, strlen(good)},
        {"landlock/fragments/p.yaml", bad, strlen(bad)},
    };

    return policy_load(texts, 5, "t", ret_policy, err);
}

#define HEAD    "about: test\nknown: 450\nlimit: 10\nphases:\n"
#define NOTHING "about: none\n"

static void refused(const char *calls, const char *fragment, const char *files, const char *text)
{
    struct policy *policy = NULL;
    struct inf_err err = {0};
    const int r = load(calls, fragment, files, &policy, &err);

    assert_null(policy);
    assert_int_equal(r, -EINVAL);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static struct policy *loaded(const char *calls, const char *fragment, const char *files)
{
    struct policy *policy = NULL;
    struct inf_err err = {0};

    ASSERT_OK_ERR(load(calls, fragment, files, &policy, &err), err);
    return policy;
}

TEST(mistakes_are_reported_with_line_and_column)
{
    static const struct {
        const char *rules, *text;
    } cases[] = {
        {"[nothing_such]", "seccomp/t.yaml:6:13: unknown system call \"nothing_such\""},
        {"[{name: read, whi: x}]", "t.yaml:6:26: unknown key \"whi\""},
        {"[{why: x}]", "6:13: a rule needs a name"},
        {"[{name: read, name: write}]", "6:26: \"name\" is given twice"},
        {"[read, read]", "6:19: \"read\" is already given at seccomp/t.yaml:6"},
        {"[read, {name: read, error: EPERM}]", "\"read\" is already given"},
        {"[{name: read, error: EOOPS}]", "6:33: unknown error \"EOOPS\""},
        {"[{name: read, arch: mips}]", "6:32: unknown architecture \"mips\""},
        {"[epoll_wait]",
         "6:13: arm64 has no system call \"epoll_wait\"; give the rule an \"arch\""},
        {"[{name: epoll_wait, arch: arm64}]", "arm64 has no system call \"epoll_wait\""},
        {"[{name: read, args: [{arg: 6, eq: 0}]}]", "6:39: the argument must be from 0 to 5"},
        {"[{name: read, args: [{arg: 0, eq: O_WHAT}]}]", "\"O_WHAT\" has unknown constants"},
        {"[{name: read, args: [{arg: 0, mask: 1|Q, eq: 0}]}]", "\"1|Q\" has unknown"},
        {"[{name: read, args: [{arg: 0}]}]",
         "a condition has \"arg\", and either \"eq\" or \"in\""},
        {"[{name: read, args: [{eq: 0}]}]", "a condition has \"arg\", and either \"eq\" or \"in\""},
        {"[{name: read, args: [{arg: 0, eq: 1, in: [2]}]}]", "either \"eq\" or \"in\""},
        {"[{name: read, args: [{arg: 0, in: []}]}]", "this must be a list of values"},
        {"[{name: read, args: [{arg: 0, eq: 1}, {arg: 0, eq: 2}]}]", "argument 0 has a condition"},
        {"[{name: read, error: EPERM}, {name: read, args: [{arg: 0, eq: 1}]}]", "is already given"},
        {"[[read]]", "this must be a mapping"},
        {"{read: 1}", "this must be a list"},
        {"[\"\"]", "this must be a text"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char calls[400];

        snprintf(calls, sizeof(calls), HEAD "  serve:\n    allow: %s\n", cases[i].rules);
        refused(calls, NOTHING, NOTHING, cases[i].text);
    }
    refused("about: [", NOTHING, NOTHING, "seccomp/t.yaml:2:1: ");
    refused("", NOTHING, NOTHING, "the file is empty");
    refused("- x\n", NOTHING, NOTHING, "t.yaml:1:1: this must be a mapping");
    refused("about: x\n", NOTHING, NOTHING, "a policy needs \"known\", \"limit\" and \"phases\"");
    refused("known: many\n", NOTHING, NOTHING, "1:8: \"many\" is not a number");
    refused(HEAD "  idle:\n    allow: [read]\n", NOTHING, NOTHING, "5:3: unknown key \"idle\"");
    refused(HEAD "  start:\n    allow: [read]\n", NOTHING, NOTHING, "the phase `serve` is missing");
    refused(HEAD "  serve:\n    include: [g]\n", NOTHING, NOTHING,
            "6:15: there is no fragment \"g\"");
    refused(HEAD "  serve:\n    include: [f]\n", "allow: [oops]\n", NOTHING,
            "seccomp/fragments/f.yaml:1:9: unknown system call");
}

TEST(mistakes_in_paths_are_reported)
{
    static const char calls[] = HEAD "  serve:\n    allow: [read]\n";

    refused(calls, NOTHING, "paths: [{path: hence, rights: [read_file]}]\n",
            "landlock/t.yaml:1:16: \"hence\" is neither an absolute path nor \"models\"");
    refused(calls, NOTHING, "paths: [{path: /a, rights: [fly]}]\n", "unknown right \"fly\"");
    refused(calls, NOTHING, "paths: [{path: /a}]\n", "an entry needs path and rights");
    refused(calls, NOTHING, "path: /a\n", "1:1: unknown key \"path\"");
    refused(calls, NOTHING, "include: [g]\n", "landlock/t.yaml:1:11: there is no fragment \"g\"");
    refused(calls, NOTHING, "include: [p]\n",
            "landlock/fragments/p.yaml:1:16: \"there\" is neither an absolute path");
}

TEST(an_unknown_service_has_no_policy)
{
    struct policy *policy = NULL;
    struct inf_err err;

    assert_int_equal(policy_load(policy_texts, n_policy_texts, "nobody", &policy, &err), -ENOENT);
}

TEST(the_start_phase_allows_all_calls_of_the_serve_phase)
{
    struct policy *p = loaded(HEAD "  serve:\n    allow: [read, write]\n"
                                   "  start:\n    allow: [seccomp]\n",
                              NOTHING, NOTHING);

    assert_int_equal(policy_count(p, POLICY_SERVE, POLICY_X86_64), 2);
    assert_int_equal(policy_count(p, POLICY_START, POLICY_X86_64), 3);
    policy_free(p);

    /* A wider rule of the start phase replaces the narrower one. */
    p = loaded(HEAD "  serve:\n    allow: [{name: prctl, args: [{arg: 0, eq: PR_SET_NAME}]}]\n"
                    "  start:\n    allow: [prctl]\n",
               NOTHING, NOTHING);
    assert_int_equal(policy_count(p, POLICY_START, POLICY_ARM64), 1);
    policy_free(p);

    refused(HEAD "  serve:\n    allow: [prctl]\n"
                 "  start:\n    allow: [{name: prctl, args: [{arg: 0, eq: PR_SET_NAME}]}]\n",
            NOTHING, NOTHING, "the phase `start` allows less of \"prctl\" than the phase `serve`");
    refused(HEAD "  serve:\n    allow: [clone3]\n"
                 "  start:\n    allow: [{name: clone3, error: ENOSYS}]\n",
            NOTHING, NOTHING, "the phase `start` allows less of \"clone3\"");
}

TEST(a_call_may_fail_with_some_arguments_and_pass_with_others)
{
    struct policy *p =
        loaded(HEAD "  serve:\n    allow:\n"
                    "      - {name: openat, error: EACCES, args: [{arg: 2, mask: "
                    "O_CREAT, eq: O_CREAT}]}\n"
                    "      - {name: openat, args: [{arg: 2, mask: O_CREAT, eq: 0}]}\n",
               NOTHING, NOTHING);

    assert_int_equal(policy_count(p, POLICY_SERVE, POLICY_X86_64), 1);
    policy_free(p);
}

TEST(the_start_phase_takes_an_error_only_if_it_has_no_rule_for_the_call)
{
    static const char serve[] =
        HEAD "  serve:\n    allow: [{name: mmap, error: EACCES, args: [{arg: 2, eq: 7}]}, "
             "{name: mmap, args: [{arg: 2, eq: 1}]}]\n";
    const struct policy_rule *rules;
    char both[400];
    struct policy *p = loaded(serve, NOTHING, NOTHING);
    size_t n;

    policy_rules(p, POLICY_START, &n);
    assert_int_equal(n, 2);
    policy_free(p);
    snprintf(both, sizeof(both), "%s  start:\n    allow: [{name: mmap, args: [{arg: 2, eq: 5}]}]\n",
             serve);
    p = loaded(both, NOTHING, NOTHING);
    rules = policy_rules(p, POLICY_START, &n);
    assert_int_equal(n, 2);
    assert_int_equal(rules[0].error, 0);
    assert_int_equal(rules[1].error, 0);
    policy_free(p);
}

TEST(paths_of_fragments_come_first)
{
    struct policy *p = loaded(HEAD "  serve:\n    allow: [read]\n", NOTHING,
                              "include: [f]\npaths: [{path: cache, rights: [read_file]}]\n");
    size_t n;
    const struct policy_path *paths = policy_paths(p, &n);

    assert_int_equal(n, 2);
    ASSERT_STREQ(paths[0].path, "/f");
    ASSERT_STREQ(paths[1].path, "cache");
    assert_null(policy_executable(p));
    policy_free(p);
    p = loaded("executable: a reason\n" HEAD "  serve:\n    allow: [read]\n", NOTHING, NOTHING);
    ASSERT_STREQ(policy_executable(p), "a reason");
    policy_free(p);
}

TEST(several_values_become_several_rules)
{
    struct policy *p = loaded(
        HEAD "  serve:\n    allow: [{name: fcntl, args: [{arg: 1, in: [F_GETFL, F_SETFL]}]}]\n",
        NOTHING, NOTHING);
    size_t n;
    const struct policy_rule *rules = policy_rules(p, POLICY_SERVE, &n);

    assert_int_equal(n, 2);
    assert_int_equal(rules[0].conditions[0].value, 3);
    assert_int_equal(rules[1].conditions[0].value, 4);
    assert_int_equal(policy_count(p, POLICY_SERVE, POLICY_X86_64), 1);
    policy_free(p);
}

static struct policy *own(const char *service)
{
    struct policy *policy = NULL;
    struct inf_err err = {0};

    ASSERT_OK_ERR(policy_load(policy_texts, n_policy_texts, service, &policy, &err), err);
    return policy;
}

TEST(own_policies_compile_and_keep_their_limits)
{
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        struct policy *policy = own(services[i]);
        const unsigned most = strcmp(services[i], "decoder") == 0 ? 20 : 70;

        assert_int_equal(policy_executable(policy) != NULL, has_compiler(services[i]));
        assert_true(policy_limit(policy) <= most);
        for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++) {
            assert_true(policy_count(policy, POLICY_SERVE, a) <= most);
            for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++) {
                struct sock_fprog program;
                struct inf_err err = {0};

                ASSERT_OK_ERR(policy_compile(policy, p, a, &program, &err), err);
                assert_in_range(program.len, 20, 600);
                free(program.filter);
            }
        }
        policy_free(policy);
    }
}

/* Returns whether a service writes into a directory of its own. */
static bool has_directory(const char *service)
{
    return strcmp(service, "cache") == 0 || strcmp(service, "keep") == 0 ||
           strcmp(service, "history") == 0 || strcmp(service, "store") == 0;
}

static const struct policy_condition *condition_of(const struct policy_rule *rule, unsigned arg)
{
    for (size_t i = 0; i < rule->n_conditions; i++)
        if (rule->conditions[i].arg == arg)
            return &rule->conditions[i];
    return NULL;
}

/* Returns whether a service needs a call that is forbidden to services in general. For example, the
 * cache, history and keep services change their own files. The store service changes models. Chat,
 * the gateway and the store service connect to others. Services that load models open files. */
static bool is_its_task(const char *service, const char *name)
{
    static const struct {
        const char *service, *name;
    } rows[] = {
        {"cache", "unlink"},       {"cache", "unlinkat"}, {"cache", "ftruncate"},
        {"cache", "openat"},       {"cache", "mkdirat"},  {"chat", "connect"},
        {"chat", "memfd_create"},  {"chat", "ftruncate"}, {"chat", "openat"},
        {"gateway", "connect"},    {"embed", "openat"},   {"audio", "openat"},
        {"audio", "memfd_create"}, {"keep", "openat"},    {"keep", "unlink"},
        {"keep", "unlinkat"},      {"keep", "ftruncate"}, {"keep", "memfd_create"},
        {"history", "openat"},     {"history", "unlink"}, {"history", "unlinkat"},
        {"history", "ftruncate"},  {"store", "connect"},  {"store", "openat"},
        {"store", "mkdirat"},      {"store", "unlink"},   {"store", "unlinkat"},
        {"store", "renameat2"},    {"store", "linkat"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(is_chat(service) ? "chat" : service, rows[i].service) == 0 &&
            strcmp(name, rows[i].name) == 0)
            return true;
    return false;
}

/* Returns whether only policies with drivers may have a rule. Such rules allow opening device
 * nodes, mapping machine code from files, compiling machine code (NVIDIA's driver and lavapipe
 * only), and writing the cache before READY. */
static bool is_of_drivers(const char *service, enum policy_phase phase,
                          const struct policy_rule *rule)
{
    const struct policy_condition *c = condition_of(rule, 2), *flags = condition_of(rule, 3);
    const bool executable = c && c->mask == UINT64_MAX && c->value == 5 /* PROT_READ|PROT_EXEC */;

    if (!has_drivers(service))
        return false;
    if (strcmp(rule->name, "openat") == 0 && c)
        return phase == POLICY_START ? (c->mask & 020000000) && !(c->value & 020000000)
                                     : (c->mask & 020001103) == 020001103 && c->value == 2;
    if (has_compiler(service) && executable && strcmp(rule->name, "mprotect") == 0)
        return true;
    if (strcmp(service, "chat-lavapipe") == 0 && executable)
        return true;
    return strcmp(rule->name, "mmap") == 0 && executable && phase == POLICY_START && flags &&
           flags->mask == 0x21 /* MAP_ANONYMOUS|MAP_SHARED */ && flags->value == 0;
}

/* Returns whether a rule allows a call that only the decoder's parent process needs: to create a
 * child process for a sound file, to kill it, or to have the kernel kill it when the parent ends.
 */
static bool is_of_children(const char *service, enum policy_phase phase,
                           const struct policy_rule *rule)
{
    static const struct {
        const char *name;
        unsigned arg;
        uint64_t value;
    } calls[] = {
        {"clone", 0, 0x1200011 /* fork() */},
        {"kill", 1, 9 /* SIGKILL */},
        {"prctl", 0, 1 /* PR_SET_PDEATHSIG */},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct policy_condition *c = condition_of(rule, calls[i].arg);

        if (strcmp(rule->name, calls[i].name) == 0 && c && c->mask == UINT64_MAX &&
            c->value == calls[i].value)
            return strcmp(service, "decoder") == 0 && phase == POLICY_START;
    }
    return false;
}

/* Checks that a rule allows certain calls with conditions only. */
static void check_rule(const char *service, const struct policy_rule *rule)
{
    static const struct {
        const char *name;
        unsigned arg;
        uint64_t mask, value;
    } needed[] = {
        {"mmap", 2, 4 /* PROT_EXEC */, 0},
        {"mprotect", 2, 4, 0},
        {"socket", 0, UINT64_MAX, 1 /* AF_UNIX */},
        {"clone", 0, UINT64_MAX, 0x3d0f00 /* a thread */},
        {"openat", 2, 3 /* O_ACCMODE */, 0 /* O_RDONLY */},
        {"openat", 2, 0100 /* O_CREAT */, 0},
        {"openat", 2, 01000 /* O_TRUNC */, 0},
        {"openat", 2, 020000000 /* O_TMPFILE */, 0},
        {"prctl", 0, UINT64_MAX, 15 /* PR_SET_NAME */},
    };

    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        const struct policy_condition *c = condition_of(rule, needed[i].arg);

        if (strcmp(rule->name, needed[i].name) != 0)
            continue;
        /* The service writes its own files; Landlock restricts the directories. */
        if (has_directory(service) && strcmp(rule->name, "openat") == 0 &&
            needed[i].mask != 020000000)
            continue;
        if (!c || (c->mask & needed[i].mask) != needed[i].mask ||
            (c->value & needed[i].mask) != needed[i].value)
            fail_msg("%s: %s is allowed too widely", service, rule->name);
    }
    if (strcmp(rule->name, "tgkill") == 0 &&
        (!condition_of(rule, 0) || !condition_of(rule, 0)->own_pid))
        fail_msg("%s: tgkill reaches other processes", service);
    if ((strcmp(rule->name, "fcntl") == 0 || strcmp(rule->name, "ioctl") == 0) &&
        !condition_of(rule, 1))
        fail_msg("%s: %s without a command", service, rule->name);
}

TEST(no_policy_of_ours_allows_forbidden_calls)
{
    static const char *const never[] = {
        "execve",
        "execveat",
        "ptrace",
        "process_vm_readv",
        "kill",
        "tkill",
        "fork",
        "vfork",
        "clone3",
        "bind",
        "listen",
        "unshare",
        "setns",
        "mount",
        "bpf",
        "io_uring_setup",
        "userfaultfd",
        "perf_event_open",
        "keyctl",
        "chmod",
        "fchmodat",
        "unlink",
        "unlinkat",
        "renameat2",
        "mkdirat",
        "linkat",
        "symlinkat",
        "truncate",
        "ftruncate",
        "open",
        "creat",
        "openat2",
        "connect",
        "memfd_create",
        "openat",
        "pidfd_open",
        "pidfd_getfd",
        "setuid",
        "personality",
        "name_to_handle_at",
        "open_by_handle_at",
        "landlock_restrict_self",
    };

    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        struct policy *policy = own(services[i]);

        for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++) {
            size_t n;
            const struct policy_rule *rules = policy_rules(policy, p, &n);

            for (size_t k = 0; k < n; k++) {
                if (rules[k].error)
                    continue;
                if (is_of_drivers(services[i], p, &rules[k]) ||
                    is_of_children(services[i], p, &rules[k]))
                    continue;
                for (size_t j = 0; j < sizeof(never) / sizeof(never[0]); j++)
                    if (strcmp(rules[k].name, never[j]) == 0 &&
                        !is_its_task(services[i], never[j]) &&
                        !(has_drivers(services[i]) && p == POLICY_START &&
                          strncmp(never[j], "unlink", 6) == 0))
                        fail_msg("%s: %s is allowed", services[i], never[j]);
                check_rule(services[i], &rules[k]);
            }
        }
        policy_free(policy);
    }
}

/* Returns whether a service may write a path. A service with GPU drivers may write device nodes of
 * GPUs and its cache of compiled kernels. The cache service may write its blocks, the history and
 * keep services may write their files, and the store service may write the store, which is its
 * working directory. */
static bool may_write(const char *service, const struct policy_path *path)
{
    static const uint64_t node = 2 /* write_file */ | 4 | 1 << 15 /* ioctl_dev */;

    if (!has_drivers(service))
        return (strcmp(service, "cache") == 0 && strcmp(path->path, "blocks") == 0) ||
               (strcmp(service, "keep") == 0 && strcmp(path->path, "kept") == 0) ||
               (strcmp(service, "history") == 0 && strcmp(path->path, "history") == 0) ||
               (strcmp(service, "store") == 0 && strcmp(path->path, "here") == 0);
    return strcmp(path->path, "cache") == 0 ||
           ((path->rights & ~node) == 0 && strncmp(path->path, "/dev/", 5) == 0);
}

TEST(files_are_read_only)
{
    static const uint64_t reading = 4 /* read_file */ | 8 /* read_dir */;

    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        struct policy *policy = own(services[i]);
        size_t n;
        const struct policy_path *paths = policy_paths(policy, &n);

        if (!is_chat(services[i]) && strcmp(services[i], "embed") != 0 &&
            strcmp(services[i], "audio") != 0 && strcmp(services[i], "store") != 0)
            assert_int_equal(n, has_directory(services[i]));
        for (size_t k = 0; k < n; k++)
            if ((paths[k].rights & ~reading) && !may_write(services[i], &paths[k]))
                fail_msg("%s: %s may be changed", services[i], paths[k].path);
        policy_free(policy);
    }
}

/* Returns whether a rule allows a call with a certain value of its first argument. */
static bool allows(const struct policy *policy, const char *name, uint64_t value)
{
    size_t n;
    const struct policy_rule *rules = policy_rules(policy, POLICY_START, &n);

    for (size_t i = 0; i < n; i++) {
        const struct policy_condition *c = condition_of(&rules[i], 0);

        if (!rules[i].error && strcmp(rules[i].name, name) == 0 &&
            (!c || (value & c->mask) == c->value))
            return true;
    }
    return false;
}

/* The program that fetches may connect, and writes only where it is started. The process that
 * verifies has the store and no network. None of them starts programs or listens. */
TEST(programs_that_fetch_have_the_rights_of_their_task)
{
    static const char *const programs[] = {PROGRAM_POLICIES};
    static const char *const never[] = {"execve", "execveat", "fork",   "vfork",  "clone",
                                        "clone3", "bind",     "listen", "ptrace", "kill"};

    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct policy *policy = own(programs[i]);
        const bool fetches = strcmp(programs[i], "fetch") == 0;
        size_t n;
        const struct policy_path *paths = policy_paths(policy, &n);

        assert_int_equal(policy_network(policy) != NULL, fetches);
        assert_null(policy_executable(policy));
        assert_true(policy_limit(policy) <= 60);
        for (unsigned family = 1; family < 20; family++)
            assert_int_equal(allows(policy, "socket", family),
                             fetches && (family == 2 /* AF_INET */ || family == 10));
        for (size_t k = 0; k < sizeof(never) / sizeof(never[0]); k++)
            assert_false(allows(policy, never[k], 17));
        for (size_t k = 0; k < n; k++)
            assert_true(strcmp(paths[k].path, "here") == 0 || !(paths[k].rights & ~UINT64_C(12)));
        policy_free(policy);
    }
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        struct policy *policy = own(services[i]);

        assert_null(policy_network(policy));
        policy_free(policy);
    }
}

RUN_TESTS(cmocka_unit_test(programs_that_fetch_have_the_rights_of_their_task),
          cmocka_unit_test(mistakes_are_reported_with_line_and_column),
          cmocka_unit_test(mistakes_in_paths_are_reported),
          cmocka_unit_test(an_unknown_service_has_no_policy),
          cmocka_unit_test(the_start_phase_allows_all_calls_of_the_serve_phase),
          cmocka_unit_test(a_call_may_fail_with_some_arguments_and_pass_with_others),
          cmocka_unit_test(the_start_phase_takes_an_error_only_if_it_has_no_rule_for_the_call),
          cmocka_unit_test(paths_of_fragments_come_first),
          cmocka_unit_test(several_values_become_several_rules),
          cmocka_unit_test(own_policies_compile_and_keep_their_limits),
          cmocka_unit_test(no_policy_of_ours_allows_forbidden_calls),
          cmocka_unit_test(files_are_read_only))
