/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports a policy as text or JSON (see report.h).
 *
 * The text lists each allowed system call with its conditions and reason, and then says what
 * happens to all other calls.
 */
#include "cli/policy/report.h"

#include <stdio.h>
#include <string.h>

#include "core/str.h"

enum {
    NAME_WIDTH = 18,
};

/* Returns whether two rules come from the same entry of a file, and so differ only in one value.
 * The report prints such rules in one line. */
static bool same_entry(const struct policy_rule *a, const struct policy_rule *b)
{
    return a->file == b->file && a->line == b->line && strcmp(a->name, b->name) == 0;
}

static const char *value_text(const struct policy_condition *c)
{
    return c->own_pid ? "the process's own id" : c->value_text;
}

static void put_condition(const struct policy_rule *rules, size_t n, size_t i, struct str *out)
{
    const struct policy_condition *c = &rules[0].conditions[i];

    str_printf(out, "%sargument %u", i ? " and " : "", c->arg);
    if (c->mask_text)
        str_printf(out, " & (%s)", c->mask_text);
    str_printf(out, " is %s", value_text(c));
    for (size_t k = 1; k < n; k++)
        if (strcmp(value_text(&rules[k].conditions[i]), value_text(c)) != 0)
            str_printf(out, " or %s", value_text(&rules[k].conditions[i]));
}

static void print_entry(const struct policy_rule *rules, size_t n)
{
    _cleanup_str_ struct str text = {0};
    const char *why = rules->why ? rules->why : rules->rare;

    if (rules->error)
        str_puts(&text, strerrorname_np(rules->error));
    for (size_t i = 0; i < rules->n_conditions; i++)
        put_condition(rules, n, i, &text);
    if (why)
        str_printf(&text, "%s%s", text.len ? ": " : "", why);
    printf("  %-*s %s\n", NAME_WIDTH, rules->name, text.data ? text.data : "");
}

static void print_rules(const struct policy_view *view, bool errors)
{
    size_t n;
    const struct policy_rule *rules = policy_rules(view->policy, view->phase, &n);

    for (size_t i = 0; i < n;) {
        size_t end = i + 1;

        while (end < n && same_entry(&rules[i], &rules[end]))
            end++;
        if (rules[i].arches[view->arch] && (rules[i].error != 0) == errors)
            print_entry(&rules[i], end - i);
        i = end;
    }
}

static void print_files(const struct policy *policy)
{
    size_t n;
    const struct policy_path *paths = policy_paths(policy, &n);

    printf("\nFiles (Landlock, from the start on): %s\n", policy_about_files(policy));
    for (size_t i = 0; i < n; i++)
        printf("  %-*s %s%s%s\n", NAME_WIDTH, paths[i].path, paths[i].rights_text,
               paths[i].why ? ": " : "", paths[i].why ? paths[i].why : "");
    printf("  any other          EACCES, for every access right that the kernel supports\n"
           "  TCP                EACCES for bind and connect (Linux 6.7)\n"
           "  other processes    no signals, no abstract sockets (Linux 6.12)\n");
}

void policy_print(const struct policy_view *view)
{
    const struct policy *policy = view->policy;

    printf("%s: %s\n\n", view->service, policy_about(policy));
    printf("System calls of the phase %s on %s: %u are allowed (at most %u when serving)\n",
           policy_phase_name(view->phase), policy_arch_name(view->arch),
           policy_count(policy, view->phase, view->arch), policy_limit(policy));
    print_rules(view, false);
    printf("\nRefused\n");
    print_rules(view, true);
    printf("  %-*s ENOSYS, if its number is above %u\n", NAME_WIDTH, "any newer one",
           policy_known(policy));
    printf("  %-*s kills the process; so does a call of another ABI (32 bits, x32)\n", NAME_WIDTH,
           "any other");
    print_files(policy);
    if (policy_executable(policy))
        printf("\nAlso: no new privileges, and no core dumps. Memory may become executable: %s\n",
               policy_executable(policy));
    else
        printf("\nAlso: no new privileges, no core dumps, and no memory can become executable "
               "(Linux 6.3)\n");
}

static json_t *rule_json(const struct policy_rule *rule, enum policy_arch arch)
{
    json_t *conditions = json_array();

    for (size_t i = 0; i < rule->n_conditions; i++) {
        const struct policy_condition *c = &rule->conditions[i];

        json_array_append_new(
            conditions, json_pack("{s:i, s:I, s:I, s:b, s:s?, s:s}", "arg", (int)c->arg, "mask",
                                  (json_int_t)c->mask, "value", (json_int_t)c->value, "own_pid",
                                  c->own_pid, "mask_text", c->mask_text, "text", c->value_text));
    }
    return json_pack("{s:s, s:i, s:s?, s:o, s:s?, s:s?, s:s, s:I}", "name", rule->name, "number",
                     policy_call_number(rule->name, arch), "error",
                     rule->error ? strerrorname_np(rule->error) : NULL, "conditions", conditions,
                     "why", rule->why, "rare", rule->rare, "file", rule->file, "line",
                     (json_int_t)rule->line);
}

json_t *policy_json(const struct policy_view *view)
{
    const struct policy *policy = view->policy;
    json_t *calls = json_array(), *files = json_array();
    size_t n;
    const struct policy_rule *rules = policy_rules(policy, view->phase, &n);
    const struct policy_path *paths;

    for (size_t i = 0; i < n; i++)
        if (rules[i].arches[view->arch])
            json_array_append_new(calls, rule_json(&rules[i], view->arch));
    paths = policy_paths(policy, &n);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(files, json_pack("{s:s, s:s, s:s?}", "path", paths[i].path, "rights",
                                               paths[i].rights_text, "why", paths[i].why));
    return json_pack(
        "{s:s, s:s?, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "service", view->service,
        "executable", policy_executable(policy), "phase", policy_phase_name(view->phase), "arch",
        policy_arch_name(view->arch), "about", policy_about(policy), "allowed",
        (int)policy_count(policy, view->phase, view->arch), "limit", (int)policy_limit(policy),
        "known", (int)policy_known(policy), "calls", calls, "files", files);
}
