/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a policy from its files (see policy.h).
 *
 * The phase `start` also allows everything that the phase `serve` allows. Filters accumulate: a
 * call that the filter of `start` forbids stays forbidden in `serve`.
 */
#include "common/confine/policy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/confine/landlock.h"
#include "common/confine/policy-reader.h"
#include "core/err.h"

enum {
    POLICY_MAX_PATHS = 64,
};

static int path_path(struct reader *r, const yaml_node_t *node, void *out)
{
    struct policy_path *path = out;
    const int e = reader_text(r, node, &path->path);

    if (e == 0 && path->path[0] != '/' && strcmp(path->path, "models") != 0 &&
        strcmp(path->path, "cache") != 0 && strcmp(path->path, "blocks") != 0 &&
        strcmp(path->path, "kept") != 0 && strcmp(path->path, "here") != 0)
        return yaml_source_bad(
            &r->source, node,
            "\"%s\" is neither an absolute path nor \"models\", \"cache\", \"blocks\", "
            "\"kept\" or \"here\"",
            path->path);
    return e;
}

static int path_right(struct reader *r, const yaml_node_t *node, void *out)
{
    struct policy_path *path = out;
    const char *name;
    const int e = reader_text(r, node, &name);
    const uint64_t right = e < 0 ? 0 : landlock_right(name);
    char text[256];

    if (e < 0)
        return e;
    if (!right)
        return yaml_source_bad(&r->source, node, "unknown right \"%s\"", name);
    path->rights |= right;
    snprintf(text, sizeof(text), "%s%s%s", path->rights_text ? path->rights_text : "",
             path->rights_text ? " " : "", name);
    path->rights_text = arena_strndup(&r->policy->arena, text, strlen(text));
    return path->rights_text ? 0 : reader_no_memory(r);
}

static int path_rights(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, path_right, out);
}

static int path_why(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_text(r, node, &((struct policy_path *)out)->why);
}

static int read_path(struct reader *r, const yaml_node_t *node, void *out)
{
    static const struct reader_field fields[] = {
        {"path", path_path},
        {"rights", path_rights},
        {"why", path_why},
    };
    struct policy_path path = {0};
    const int e = reader_mapping(r, node, fields, ARRAY_SIZE(fields), &path);

    (void)out;
    if (e < 0)
        return e;
    if (!path.path || !path.rights)
        return yaml_source_bad(&r->source, node, "an entry needs path and rights");
    if (r->policy->n_paths == POLICY_MAX_PATHS)
        return yaml_source_bad(&r->source, node, "more than %d paths", POLICY_MAX_PATHS);
    if (!r->policy->paths && !(r->policy->paths = NEW(struct policy_path, POLICY_MAX_PATHS)))
        return reader_no_memory(r);
    r->policy->paths[r->policy->n_paths++] = path;
    return 0;
}

static int read_paths(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, read_path, out);
}

static int read_path_fragment(struct reader *r, const yaml_node_t *root, void *out)
{
    static const struct reader_field fields[] = {
        {"about", reader_about},
        {"paths", read_paths},
    };

    return reader_mapping(r, root, fields, ARRAY_SIZE(fields), out);
}

static int read_path_include(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *name;
    char file[128];
    int e = reader_text(r, node, &name);

    (void)out;
    if (e < 0)
        return e;
    snprintf(file, sizeof(file), "landlock/fragments/%s.yaml", name);
    e = reader_file(r, file, read_path_fragment, NULL);
    return e == -ENOENT ? yaml_source_bad(&r->source, node, "there is no fragment \"%s\"", name)
                        : e;
}

static int read_path_includes(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, read_path_include, out);
}

static int read_landlock(struct reader *r, const yaml_node_t *root, void *out)
{
    static const struct reader_field fields[] = {
        {"about", reader_about},
        {"include", read_path_includes},
        {"paths", read_paths},
    };

    return reader_mapping(r, root, fields, ARRAY_SIZE(fields), out);
}

/* Returns the first rule for the call @name; NULL: none. */
static const struct policy_rule *rule_find(const struct policy_rules *rules, const char *name)
{
    for (size_t i = 0; i < rules->n; i++)
        if (strcmp(rules->rules[i].name, name) == 0)
            return &rules->rules[i];
    return NULL;
}

/* Adds to the rules of the phase `start` the rules that only the phase `serve` has. A rule of
 * `serve` that makes a call fail is not appended if `start` has a rule for this call, because
 * `start` may allow a call that fails in `serve`. If a call must fail in both phases although
 * `start` has a rule for it, the policy lists the failing rule in `start`, too. */
static int merge_phases(struct policy *policy, struct inf_err *reterr)
{
    struct policy_rules *start = &policy->phases[POLICY_START];
    const struct policy_rules *serve = &policy->phases[POLICY_SERVE];
    struct policy_rules sum = {.cap = start->n + serve->n};

    sum.rules = NEW(struct policy_rule, sum.cap);
    if (!sum.rules)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < start->n; i++)
        sum.rules[sum.n++] = start->rules[i];
    for (size_t i = 0; i < serve->n; i++) {
        const struct policy_rule *rule = &serve->rules[i];
        const struct policy_rule *wider = rule_find(start, rule->name);

        if (wider && !rule->error &&
            (wider->error || (wider->n_conditions && !rule->n_conditions))) {
            free(sum.rules);
            return err_set(reterr, EINVAL,
                           "%s:%zu: the phase `start` allows less of \"%s\" than the phase "
                           "`serve` (%s:%zu)",
                           wider->file, wider->line, rule->name, rule->file, rule->line);
        }
        if (!wider || (wider->n_conditions && !rule->error))
            sum.rules[sum.n++] = *rule;
    }
    free(start->rules);
    *start = sum;
    return 0;
}

int policy_load(const struct policy_text *texts, size_t n_texts, const char *name,
                struct policy **ret_policy, struct inf_err *reterr)
{
    _cleanup_(policy_freep) struct policy *policy = NEW(struct policy, 1);
    struct reader r = {
        .policy = policy, .texts = texts, .n_texts = n_texts, .source.reterr = reterr};
    char file[128];
    int e;

    if (!policy)
        return err_set(reterr, ENOMEM, "out of memory");
    snprintf(file, sizeof(file), "seccomp/%s.yaml", name);
    e = reader_file(&r, file, policy_read_seccomp, &policy->about);
    if (e == 0) {
        snprintf(file, sizeof(file), "landlock/%s.yaml", name);
        e = reader_file(&r, file, read_landlock, &policy->about_files);
    }
    if (e == 0)
        e = merge_phases(policy, reterr);
    if (e < 0)
        return e;
    *ret_policy = STEAL(policy);
    return 0;
}

struct policy *policy_free(struct policy *policy)
{
    if (!policy)
        return NULL;
    for (enum policy_phase p = 0; p < POLICY_N_PHASES; p++)
        free(policy->phases[p].rules);
    free(policy->paths);
    arena_done(&policy->arena);
    free(policy);
    return NULL;
}

const char *policy_about(const struct policy *policy)
{
    return policy->about;
}

const char *policy_about_files(const struct policy *policy)
{
    return policy->about_files;
}

const char *policy_executable(const struct policy *policy)
{
    return policy->executable;
}

const char *policy_network(const struct policy *policy)
{
    return policy->network;
}

unsigned policy_limit(const struct policy *policy)
{
    return policy->limit;
}

unsigned policy_known(const struct policy *policy)
{
    return policy->known;
}

const struct policy_rule *policy_rules(const struct policy *policy, enum policy_phase phase,
                                       size_t *ret_n)
{
    *ret_n = policy->phases[phase].n;
    return policy->phases[phase].rules;
}

const struct policy_path *policy_paths(const struct policy *policy, size_t *ret_n)
{
    *ret_n = policy->n_paths;
    return policy->paths;
}

unsigned policy_count(const struct policy *policy, enum policy_phase phase, enum policy_arch arch)
{
    const struct policy_rules *rules = &policy->phases[phase];
    unsigned n = 0;

    for (size_t i = 0; i < rules->n; i++) {
        const struct policy_rule *rule = &rules->rules[i];

        bool counted = rule->error || !rule->arches[arch];

        /* A call with several rules counts once. */
        for (size_t k = 0; k < i && !counted; k++)
            counted = !rules->rules[k].error && strcmp(rules->rules[k].name, rule->name) == 0;
        n += !counted;
    }
    return n;
}
