/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce policy: shows and checks the policies of the services, which are compiled into them
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/policy/file.h"
#include "cli/policy/report.h"
#include "core/err.h"

static const char help[] =
    "Usage: sconce policy explain SERVICE [--phase start|serve] [--arch x86-64|arm64] [--json]\n"
    "       sconce policy check [SERVICE]...\n"
    "Shows what a service may do, and checks policies. SERVICE is a service, for its built-in "
    "policy,\n"
    "or a file FILE.yaml.\n\n"
    "  explain              print every allowed system call with its conditions and reason, and\n"
    "                       the files\n"
    "  check                compile each policy for each architecture, and count its calls\n\n"
    "  --phase PHASE        start (before the service is ready) or serve (the default)\n"
    "  --arch ARCH          the filter of this architecture instead of the machine's\n"
    "  --json               print a JSON object\n";

/* Extracts the service's name; false if @text is not the policy of a service. */
static bool service_name(const struct policy_text *text, char *name, size_t size)
{
    static const char prefix[] = "seccomp/", end[] = ".yaml";
    const size_t skip = sizeof(prefix) - 1, n = strlen(text->name);

    if (strncmp(text->name, prefix, skip) != 0 || strchr(text->name + skip, '/') ||
        n < skip + sizeof(end))
        return false;
    snprintf(name, size, "%.*s", (int)(n - skip - (sizeof(end) - 1)), text->name + skip);
    return true;
}

static void service_names(char *names, size_t size)
{
    char name[64];
    size_t len = 0;

    names[0] = 0;
    for (size_t i = 0; i < n_policy_texts; i++)
        if (service_name(&policy_texts[i], name, sizeof(name)) && len < size)
            len += (size_t)snprintf(names + len, size - len, "%s%s", len ? ", " : "", name);
}

static int policy_open(const char *service, struct policy **ret_policy)
{
    struct inf_err err = {0};
    char names[256];
    const bool is_file = strchr(service, '/') || strchr(service, '.');
    const int r = is_file ? policy_file_load(service, ret_policy, &err)
                          : policy_load(policy_texts, n_policy_texts, service, ret_policy, &err);

    if (r == -ENOENT && !is_file) {
        service_names(names, sizeof(names));
        return cli_error("policy", "there is no policy \"%s\"; there are %s", service, names);
    }
    return r < 0 ? cli_error("policy", "%s", err.text) : CLI_OK;
}

static int check_arch(const char *service, const struct policy *policy, enum policy_arch arch)
{
    const unsigned serving = policy_count(policy, POLICY_SERVE, arch);
    struct sock_fprog programs[POLICY_N_PHASES] = {0};
    struct inf_err err = {0};
    int r = 0;

    for (enum policy_phase p = 0; r == 0 && p < POLICY_N_PHASES; p++)
        r = policy_compile(policy, p, arch, &programs[p], &err);
    if (r < 0)
        r = cli_error("policy", "%s on %s: %s", service, policy_arch_name(arch), err.text);
    else if (serving > policy_limit(policy))
        r = cli_error("policy", "%s on %s: %u calls when serving, more than %u", service,
                      policy_arch_name(arch), serving, policy_limit(policy));
    else
        printf(
            "%-13s %-7s %3u calls to start, %2u of at most %u to serve; %u and %u instructions\n",
            service, policy_arch_name(arch), policy_count(policy, POLICY_START, arch), serving,
            policy_limit(policy), programs[POLICY_START].len, programs[POLICY_SERVE].len);
    for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++)
        free(programs[p].filter);
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static int policy_check(const char *service)
{
    _cleanup_(policy_freep) struct policy *policy = NULL;
    int status = policy_open(service, &policy);

    for (enum policy_arch a = 0; policy && a < POLICY_N_ARCHES; a++)
        if (check_arch(service, policy, a) != CLI_OK)
            status = CLI_FAILED;
    return status;
}

static int check_all(void)
{
    char name[64];
    int status = CLI_OK;

    for (size_t i = 0; i < n_policy_texts; i++)
        if (service_name(&policy_texts[i], name, sizeof(name)) && policy_check(name) != CLI_OK)
            status = CLI_FAILED;
    return status;
}

static int policy_explain(struct policy_view *view, bool json)
{
    _cleanup_(policy_freep) struct policy *policy = NULL;
    int r = policy_open(view->service, &policy);
    json_t *object;

    if (r != CLI_OK)
        return r;
    view->policy = policy;
    if (!json) {
        policy_print(view);
        return CLI_OK;
    }
    object = policy_json(view);
    r = json_dumpf(object, stdout, JSON_INDENT(2));
    json_decref(object);
    putchar('\n');
    return r == 0 ? CLI_OK : CLI_FAILED;
}

static bool parse_phase(const char *text, enum policy_phase *ret)
{
    for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++)
        if (strcmp(policy_phase_name(p), text) == 0) {
            *ret = p;
            return true;
        }
    return false;
}

static bool parse_arch(const char *text, enum policy_arch *ret)
{
    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++)
        if (strcmp(policy_arch_name(a), text) == 0) {
            *ret = a;
            return true;
        }
    return false;
}

int verb_policy(int argc, char **argv)
{
    static const struct option options[] = {
        {"phase", required_argument, NULL, 'p'},
        {"arch", required_argument, NULL, 'a'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct policy_view view = {.phase = POLICY_SERVE};
    bool json = false;
    int c, status = CLI_OK;

    if (policy_arch_native(&view.arch) < 0)
        view.arch = POLICY_X86_64;
    while ((c = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (c == 'h')
            return cli_help(help);
        if (c == 'p' && !parse_phase(optarg, &view.phase))
            return cli_usage("policy", "--phase must be start or serve");
        if (c == 'a' && !parse_arch(optarg, &view.arch))
            return cli_usage("policy", "--arch must be x86-64 or arm64");
        if (c == 'j')
            json = true;
        if (c == '?')
            return cli_usage("policy", "wrong option");
    }
    argc -= optind;
    argv += optind;
    if (argc == 2 && strcmp(argv[0], "explain") == 0) {
        view.service = argv[1];
        return policy_explain(&view, json);
    }
    if (argc == 0 || strcmp(argv[0], "check") != 0)
        return cli_usage("policy", "`explain SERVICE` or `check` is required");
    if (argc == 1)
        return check_all();
    for (int i = 1; i < argc; i++)
        if (policy_check(argv[i]) != CLI_OK)
            status = CLI_FAILED;
    return status;
}
