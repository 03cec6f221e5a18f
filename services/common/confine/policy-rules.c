/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the rules about system calls from seccomp/SERVICE.yaml and its fragments.
 *
 * Rules are appended to their phase in the order of the file. The rules of a fragment take the
 * place where the file includes the fragment. A rule with a condition that has several values
 * becomes several rules, one for each value.
 */
#include "common/confine/policy-reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"

enum {
    POLICY_MAX_RULES = 512,
};

/* --- conditions --- */

/* Struct condition_entry is one entry of `args`. `in` is a list of values, each of which becomes a
 * rule; NULL: the entry has one value. */
struct condition_entry {
    struct policy_condition condition;
    bool has_arg, has_value;
    const yaml_node_t *in;
};

static int condition_arg(struct reader *r, const yaml_node_t *node, void *out)
{
    struct condition_entry *entry = out;
    int e = reader_number(r, node, &entry->condition.arg);

    if (e == 0 && entry->condition.arg > 5)
        e = yaml_source_bad(&r->source, node, "the argument must be from 0 to 5");
    entry->has_arg = true;
    return e;
}

static int condition_mask(struct reader *r, const yaml_node_t *node, void *out)
{
    struct policy_condition *c = &((struct condition_entry *)out)->condition;
    const int e = reader_text(r, node, &c->mask_text);

    if (e < 0)
        return e;
    if (!policy_constant(c->mask_text, &c->mask))
        return yaml_source_bad(&r->source, node, "\"%s\" has unknown constants", c->mask_text);
    return 0;
}

static int condition_value(struct reader *r, const yaml_node_t *node, struct policy_condition *c)
{
    const int e = reader_text(r, node, &c->value_text);

    if (e < 0)
        return e;
    c->own_pid = strcmp(c->value_text, "own_pid") == 0;
    if (!c->own_pid && !policy_constant(c->value_text, &c->value))
        return yaml_source_bad(&r->source, node, "\"%s\" has unknown constants", c->value_text);
    return 0;
}

static int condition_eq(struct reader *r, const yaml_node_t *node, void *out)
{
    struct condition_entry *entry = out;

    entry->has_value = true;
    return condition_value(r, node, &entry->condition);
}

static int condition_in(struct reader *r, const yaml_node_t *node, void *out)
{
    struct condition_entry *entry = out;

    if (node->type != YAML_SEQUENCE_NODE ||
        node->data.sequence.items.start == node->data.sequence.items.top)
        return yaml_source_bad(&r->source, node, "this must be a list of values");
    entry->in = node;
    return 0;
}

struct rule_entry {
    struct policy_rule rule;
    const yaml_node_t *in;
    size_t i_in; /* index of the condition with several values */
    const yaml_node_t *name_node;
};

static int rule_condition(struct reader *r, const yaml_node_t *node, void *out)
{
    static const struct reader_field fields[] = {
        {"arg", condition_arg},
        {"mask", condition_mask},
        {"eq", condition_eq},
        {"in", condition_in},
    };
    struct rule_entry *entry = out;
    struct policy_rule *rule = &entry->rule;
    struct condition_entry c = {.condition.mask = UINT64_MAX};
    const int e = reader_mapping(r, node, fields, ARRAY_SIZE(fields), &c);

    if (e < 0)
        return e;
    if (!c.has_arg || c.has_value == (c.in != NULL))
        return yaml_source_bad(&r->source, node,
                               "a condition has \"arg\", and either \"eq\" or \"in\"");
    if (rule->n_conditions == POLICY_MAX_CONDITIONS)
        return yaml_source_bad(&r->source, node, "a rule has at most %d conditions",
                               POLICY_MAX_CONDITIONS);
    /* libseccomp accepts only one comparison per argument. */
    for (size_t i = 0; i < rule->n_conditions; i++)
        if (rule->conditions[i].arg == c.condition.arg)
            return yaml_source_bad(&r->source, node, "argument %u has a condition already",
                                   c.condition.arg);
    if (c.in && entry->in)
        return yaml_source_bad(&r->source, node, "a rule has at most one condition with \"in\"");
    if (c.in) {
        entry->in = c.in;
        entry->i_in = rule->n_conditions;
    }
    rule->conditions[rule->n_conditions++] = c.condition;
    return 0;
}

/* --- rules --- */

static int rule_name(struct reader *r, const yaml_node_t *node, void *out)
{
    struct rule_entry *entry = out;

    entry->name_node = node;
    return reader_text(r, node, &entry->rule.name);
}

static int rule_args(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, rule_condition, out);
}

static int rule_error(struct reader *r, const yaml_node_t *node, void *out)
{
    struct policy_rule *rule = &((struct rule_entry *)out)->rule;
    const char *text;
    const int e = reader_text(r, node, &text);

    if (e < 0)
        return e;
    rule->error = policy_errno(text);
    return rule->error ? 0 : yaml_source_bad(&r->source, node, "unknown error \"%s\"", text);
}

static int rule_arch(struct reader *r, const yaml_node_t *node, void *out)
{
    struct policy_rule *rule = &((struct rule_entry *)out)->rule;
    const char *text;
    const int e = reader_text(r, node, &text);
    bool found = false;

    if (e < 0)
        return e;
    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++) {
        rule->arches[a] = strcmp(policy_arch_name(a), text) == 0;
        found |= rule->arches[a];
    }
    return found ? 0
                 : yaml_source_bad(&r->source, node,
                                   "unknown architecture \"%s\"; there are x86-64, arm64", text);
}

static int rule_why(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_text(r, node, &((struct rule_entry *)out)->rule.why);
}

static int rule_rare(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_text(r, node, &((struct rule_entry *)out)->rule.rare);
}

static int rule_append(struct reader *r, const struct policy_rule *rule)
{
    struct policy_rules *rules = r->rules;

    if (rules->n == POLICY_MAX_RULES || ARRAY_GROW(rules->rules, rules->cap, rules->n + 1) < 0)
        return reader_no_memory(r);
    rules->rules[rules->n++] = *rule;
    return 0;
}

/* Checks that the rule's architectures have the call, and that no earlier rule conflicts with
 * it. */
static int rule_check(struct reader *r, const struct rule_entry *entry)
{
    const struct policy_rule *rule = &entry->rule;
    bool known = false;

    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++)
        known |= policy_call_number(rule->name, a) >= 0;
    if (!known)
        return yaml_source_bad(&r->source, entry->name_node, "unknown system call \"%s\"",
                               rule->name);
    for (enum policy_arch a = 0; a < POLICY_N_ARCHES; a++)
        if (rule->arches[a] && policy_call_number(rule->name, a) < 0)
            return yaml_source_bad(&r->source, entry->name_node,
                                   "%s has no system call \"%s\"; give the rule an \"arch\"",
                                   policy_arch_name(a), rule->name);
    for (size_t i = 0; i < r->rules->n; i++) {
        const struct policy_rule *other = &r->rules->rules[i];

        if (strcmp(other->name, rule->name) == 0 && (!rule->n_conditions || !other->n_conditions))
            return yaml_source_bad(&r->source, entry->name_node,
                                   "\"%s\" is already given at %s:%zu", rule->name, other->file,
                                   other->line);
    }
    return 0;
}

static int read_rule(struct reader *r, const yaml_node_t *node, void *out)
{
    static const struct reader_field fields[] = {
        {"name", rule_name}, {"args", rule_args}, {"error", rule_error},
        {"arch", rule_arch}, {"why", rule_why},   {"rare", rule_rare},
    };
    struct rule_entry entry = {
        .rule = {.file = r->source.name, .line = node->start_mark.line + 1, .arches = {true, true}},
    };
    yaml_node_item_t *item;
    int e;

    (void)out;
    e = node->type == YAML_SCALAR_NODE
            ? rule_name(r, node, &entry)
            : reader_mapping(r, node, fields, ARRAY_SIZE(fields), &entry);
    if (e < 0)
        return e;
    if (!entry.rule.name)
        return yaml_source_bad(&r->source, node, "a rule needs a name");
    e = rule_check(r, &entry);
    if (e < 0 || !entry.in)
        return e < 0 ? e : rule_append(r, &entry.rule);
    for (item = entry.in->data.sequence.items.start; item < entry.in->data.sequence.items.top;
         item++) {
        e = condition_value(r, yaml_document_get_node(r->source.doc, *item),
                            &entry.rule.conditions[entry.i_in]);
        if (e == 0)
            e = rule_append(r, &entry.rule);
        if (e < 0)
            return e;
    }
    return 0;
}

static int read_allow(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, read_rule, out);
}

static int read_fragment(struct reader *r, const yaml_node_t *root, void *out)
{
    static const struct reader_field fields[] = {
        {"about", reader_about},
        {"allow", read_allow},
    };

    return reader_mapping(r, root, fields, ARRAY_SIZE(fields), out);
}

static int read_include_one(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *name;
    char file[128];
    int e = reader_text(r, node, &name);

    if (e < 0)
        return e;
    snprintf(file, sizeof(file), "seccomp/fragments/%s.yaml", name);
    e = reader_file(r, file, read_fragment, out);
    return e == -ENOENT ? yaml_source_bad(&r->source, node, "there is no fragment \"%s\"", name)
                        : e;
}

static int read_include(struct reader *r, const yaml_node_t *node, void *out)
{
    return reader_list(r, node, read_include_one, out);
}

static int read_phase(struct reader *r, const yaml_node_t *node, enum policy_phase phase)
{
    static const struct reader_field fields[] = {
        {"include", read_include},
        {"allow", read_allow},
    };

    r->rules = &r->policy->phases[phase];
    return reader_mapping(r, node, fields, ARRAY_SIZE(fields), NULL);
}

static int read_start(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return read_phase(r, node, POLICY_START);
}

static int read_serve(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return read_phase(r, node, POLICY_SERVE);
}

static int read_phases(struct reader *r, const yaml_node_t *node, void *out)
{
    static const struct reader_field fields[] = {
        {"start", read_start},
        {"serve", read_serve},
    };
    const int e = reader_mapping(r, node, fields, ARRAY_SIZE(fields), out);

    if (e == 0 && r->policy->phases[POLICY_SERVE].n == 0)
        return yaml_source_bad(&r->source, node, "the phase `serve` is missing");
    return e;
}

static int read_known(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return reader_number(r, node, &r->policy->known);
}

static int read_limit(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return reader_number(r, node, &r->policy->limit);
}

static int read_executable(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return reader_text(r, node, &r->policy->executable);
}

static int read_network(struct reader *r, const yaml_node_t *node, void *out)
{
    (void)out;
    return reader_text(r, node, &r->policy->network);
}

int policy_read_seccomp(struct reader *r, const yaml_node_t *root, void *out)
{
    static const struct reader_field fields[] = {
        {"about", reader_about},         {"known", read_known},     {"limit", read_limit},
        {"executable", read_executable}, {"network", read_network}, {"phases", read_phases},
    };
    const int e = reader_mapping(r, root, fields, ARRAY_SIZE(fields), out);

    if (e == 0 && (!r->policy->known || !r->policy->limit || !r->policy->phases[POLICY_SERVE].n))
        return yaml_source_bad(&r->source, root,
                               "a policy needs \"known\", \"limit\" and \"phases\"");
    return e;
}
