/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the expressions of a template. */
#include <string.h>

#include "chat/jinja-ast.h"

static struct value eval_name(struct jinja *j, struct env *env, const struct node *n)
{
    const struct value v = *env_at(env, n->ref);

    return v.kind == V_MISSING ? undef_name(j, val_of_jstr(n->name)) : v;
}

static struct value eval_items(struct jinja *j, struct env *env, const struct node *n)
{
    struct value v = n->type == N_LIST ? val_list(j, n->args.n) : val_tuple(j, n->args.n);

    for (uint32_t i = 0; i < n->args.n; i++)
        v.u.l->v[i] = eval(j, env, n->args.v[i]);
    return v;
}

static struct value eval_dict(struct jinja *j, struct env *env, const struct node *n)
{
    struct value d = val_dict(j);

    for (uint32_t i = 0; i < n->args.n; i++) {
        const struct value key = eval(j, env, n->args.v[i]);

        jdict_set(j, d.u.d, key, eval(j, env, n->kw.v[i]));
    }
    return d;
}

static bool compare_op(struct jinja *j, enum cmp_op op, struct value a, struct value b)
{
    bool nan;
    int c;

    switch (op) {
    case CMP_EQ:
        return val_eq(j, a, b);
    case CMP_NE:
        return !val_eq(j, a, b);
    case CMP_IN:
        return val_contains(j, b, a);
    case CMP_NOTIN:
        return !val_contains(j, b, a);
    default:
        c = val_cmp(j, a, b, &nan);
        return !nan && (op == CMP_LT   ? c < 0
                        : op == CMP_LE ? c <= 0
                        : op == CMP_GT ? c > 0
                                       : c >= 0);
    }
}

static struct value eval_compare(struct jinja *j, struct env *env, const struct node *n)
{
    struct value a = eval(j, env, n->a);

    for (uint32_t i = 0; i < n->args.n; i++) {
        const struct value b = eval(j, env, n->args.v[i]->a);

        if (!compare_op(j, n->args.v[i]->op, a, b))
            return val_bool(false);
        a = b;
    }
    return val_bool(true);
}

static struct value eval_concat(struct jinja *j, struct env *env, const struct node *n)
{
    struct value *v = JARRAY(j, struct value, n->args.n), s;

    for (uint32_t i = 0; i < n->args.n; i++)
        v[i] = eval(j, env, n->args.v[i]);
    s = val_to_str(j, v[0]);
    for (uint32_t i = 1; i < n->args.n; i++)
        s = val_concat(j, s, val_to_str(j, v[i]));
    return s;
}

static struct value opt_eval(struct jinja *j, struct env *env, const struct node *n)
{
    return n ? eval(j, env, n) : NONE;
}

static struct value eval_getitem(struct jinja *j, struct env *env, const struct node *n)
{
    const struct value obj = eval(j, env, n->a);

    if (n->b->type == N_SLICE) {
        const struct value start = opt_eval(j, env, n->b->a), stop = opt_eval(j, env, n->b->b);

        return op_slice(j, obj, start, stop, opt_eval(j, env, n->b->c));
    }
    return op_getitem(j, obj, eval(j, env, n->b));
}

static void add_kw(struct jinja *j, struct args *args, struct value key, struct value v)
{
    if (key.kind != V_STR)
        raise_type(j, "keywords must be strings");
    if (!args->kw)
        args->kw = jdict_new(j);
    if (jdict_get_str(j, args->kw, key.u.s))
        raise_type(j, "got multiple values for keyword argument '%.*s'",
                   (int)MIN(key.u.s->len, (size_t)80), key.u.s->data);
    jdict_set(j, args->kw, key, v);
}

void eval_args(struct jinja *j, struct env *env, const struct node *n, struct args *ret)
{
    struct value rest = MISSING;

    *ret = (struct args){.n = n->args.n};
    if (n->args.n)
        ret->v = JARRAY(j, struct value, n->args.n);
    for (uint32_t i = 0; i < n->args.n; i++)
        ret->v[i] = eval(j, env, n->args.v[i]);
    if (n->dyn_args)
        rest = val_to_list(j, eval(j, env, n->dyn_args));
    for (uint32_t i = 0; i < n->kw.n; i++)
        add_kw(j, ret, val_of_jstr(n->kw.v[i]->name), eval(j, env, n->kw.v[i]->a));
    if (rest.kind != V_MISSING && rest.u.l->n) {
        struct value *all = JARRAY(j, struct value, ret->n + rest.u.l->n);

        if (ret->n)
            memcpy(all, ret->v, ret->n * sizeof(*all));
        memcpy(all + ret->n, rest.u.l->v, rest.u.l->n * sizeof(*all));
        ret->v = all;
        ret->n += rest.u.l->n;
    }
    if (n->dyn_kw) {
        const struct value d = eval(j, env, n->dyn_kw);

        if (d.kind != V_DICT)
            raise_type(j, "argument after ** must be a mapping, not %s", val_type(d));
        for (uint32_t i = 0; i < d.u.d->n; i++)
            add_kw(j, ret, d.u.d->e[i].key, d.u.d->e[i].val);
    }
}

static struct value eval_call(struct jinja *j, struct env *env, const struct node *n)
{
    const struct value callee = eval(j, env, n->a);
    struct args args;

    eval_args(j, env, n, &args);
    j->line = n->line;
    return call_value(j, callee, &args);
}

static struct value eval_filter(struct jinja *j, struct env *env, const struct node *n)
{
    const struct value in = eval(j, env, n->a);
    struct args args;

    eval_args(j, env, n, &args);
    j->line = n->line;
    if (!n->fn)
        jinja_raise(j, EPROTO, "No %s named '%.*s' found.", n->type == N_TEST ? "test" : "filter",
                    (int)MIN(n->name->len, (size_t)80), n->name->data);
    return call_builtin(j, n->fn, in, &args);
}

static struct value eval_node(struct jinja *j, struct env *env, const struct node *n)
{
    struct value a;

    switch (n->type) {
    case N_DATA:
    case N_CONST:
        return n->val;
    case N_NAME:
        return eval_name(j, env, n);
    case N_TUPLE:
    case N_LIST:
        return eval_items(j, env, n);
    case N_DICT:
        return eval_dict(j, env, n);
    case N_COND:
        if (val_truth(j, eval(j, env, n->a)))
            return eval(j, env, n->b);
        if (n->c)
            return eval(j, env, n->c);
        return undef_hint(j, "the inline if-expression evaluated to false and no else section "
                             "was defined.");
    case N_OR:
        a = eval(j, env, n->a);
        return val_truth(j, a) ? a : eval(j, env, n->b);
    case N_AND:
        a = eval(j, env, n->a);
        return val_truth(j, a) ? eval(j, env, n->b) : a;
    case N_NOT:
        return val_bool(!val_truth(j, eval(j, env, n->a)));
    case N_COMPARE:
        return eval_compare(j, env, n);
    case N_BINARY:
        a = eval(j, env, n->a);
        return op_binary(j, n->op, a, eval(j, env, n->b));
    case N_CONCAT:
        return eval_concat(j, env, n);
    case N_NEG:
    case N_POS:
        return op_negate(j, eval(j, env, n->a), n->type == N_NEG);
    case N_GETATTR:
        return op_getattr(j, eval(j, env, n->a), n->name);
    case N_GETITEM:
        return eval_getitem(j, env, n);
    case N_CALL:
        return eval_call(j, env, n);
    default:
        assert(n->type == N_FILTER || n->type == N_TEST);
        return eval_filter(j, env, n);
    }
}

struct value eval(struct jinja *j, struct env *env, const struct node *n)
{
    struct value v;

    jinja_step(j, 1);
    jinja_enter(j);
    v = eval_node(j, env, n);
    jinja_leave(j);
    return v;
}
