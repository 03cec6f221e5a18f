/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls macros, call blocks and blocks: functions of the template that return their output as text.
 */
#include <string.h>

#include "chat/jinja-ast.h"

const char *macro_name(const struct jmacro *m, size_t *ret_len)
{
    *ret_len = m->node->name ? m->node->name->len : 0;
    return m->node->name ? m->node->name->data : NULL;
}

struct value macro_attr(struct jinja *j, struct jmacro *m, const struct jstr *name)
{
    const struct node *n = m->node;

    if (jstr_is(name, "name"))
        return n->name ? val_of_jstr(n->name) : NONE;
    if (jstr_is(name, "arguments")) {
        struct value v = val_tuple(j, n->args.n);

        for (uint32_t i = 0; i < n->args.n; i++)
            v.u.l->v[i] = val_of_jstr(n->args.v[i]->name);
        return v;
    }
    if (jstr_is(name, "catch_kwargs"))
        return val_bool(n->has_kwargs);
    if (jstr_is(name, "catch_varargs"))
        return val_bool(n->has_varargs);
    if (jstr_is(name, "caller"))
        return val_bool(n->has_caller);
    if (jstr_is(name, "explicit_caller"))
        return val_bool(n->flag);
    return MISSING;
}

/* Sets the parameters from the arguments, as jinja2's Macro does. */
static void bind_args(struct jinja *j, const struct node *n, struct env *env,
                      const struct args *args)
{
    struct jdict *rest = jdict_new(j);
    bool found_caller = args->n >= n->args.n && n->flag;

    for (uint32_t i = 0; i < n->args.n && i < args->n; i++)
        env->slots[n->args.v[i]->ref.slot] = args->v[i];
    for (uint32_t k = 0; args->kw && k < args->kw->n; k++) {
        const struct jdict_entry *e = &args->kw->e[k];
        uint32_t i = (uint32_t)MIN(args->n, n->args.n);

        for (; i < n->args.n && !jstr_eq(j, n->args.v[i]->name, e->key.u.s); i++)
            jinja_charge(j, COST_CHAR);
        if (i < n->args.n)
            env->slots[n->args.v[i]->ref.slot] = e->val;
        else if (n->has_caller && !n->flag && jstr_is(e->key.u.s, "caller"))
            env->slots[n->caller_ref.slot] = e->val;
        else
            jdict_set(j, rest, e->key, e->val);
    }
    for (uint32_t i = (uint32_t)MIN(args->n, n->args.n); i < n->args.n; i++)
        found_caller = found_caller || jstr_is(n->args.v[i]->name, "caller");
    if (n->has_caller && !n->flag && !found_caller) {
        struct value *slot = &env->slots[n->caller_ref.slot];

        if (slot->kind == V_MISSING || slot->kind == V_NONE)
            *slot = undef_hint(j, "No caller defined");
    }
    if (n->has_kwargs)
        env->slots[n->kwargs_ref.slot] = (struct value){.kind = V_DICT, .u.d = rest};
    else if (rest->n)
        raise_type(j, "a macro takes no keyword argument '%.*s'", (int)rest->e[0].key.u.s->len,
                   rest->e[0].key.u.s->data);
    if (n->has_varargs) {
        const size_t n_more = args->n > n->args.n ? args->n - n->args.n : 0;
        struct value v = val_tuple(j, n_more);

        for (size_t i = 0; i < n_more; i++)
            v.u.l->v[i] = args->v[n->args.n + i];
        env->slots[n->varargs_ref.slot] = v;
    } else if (args->n > n->args.n) {
        raise_type(j, "a macro takes not more than %u argument(s)", n->args.n);
    }
}

static void set_defaults(struct jinja *j, const struct node *n, struct env *env)
{
    const uint32_t first = n->args.n - n->kw.n;

    for (uint32_t i = 0; i < n->args.n; i++) {
        struct value *slot = &env->slots[n->args.v[i]->ref.slot];

        if (slot->kind != V_MISSING)
            continue;
        if (i >= first)
            *slot = eval(j, env, n->kw.v[i - first]);
        else
            *slot = undef_hint(j, "a parameter was not provided");
    }
}

static void call_enter(struct jinja *j)
{
    if (++j->n_macros > JINJA_MAX_MACROS)
        jinja_raise(j, EPROTO, "maximum recursion depth exceeded");
    jinja_enter(j);
}

/* Runs the body, ends the call, and returns the output of the body. */
static struct value call_leave(struct jinja *j, const struct node *n, struct env *env)
{
    struct jbuf b = {0}, *const out = j->out;

    j->out = &b;
    exec_body(j, env, &n->body);
    j->out = out;
    jinja_leave(j);
    j->n_macros--;
    return jbuf_value(j, &b);
}

struct value macro_call(struct jinja *j, struct jmacro *m, const struct args *args)
{
    const struct node *n = m->node;
    struct env *env = env_new(j, m->env, n->func);

    call_enter(j);
    bind_args(j, n, env, args);
    scope_enter(j, env, &n->scope);
    set_defaults(j, n, env);
    return call_leave(j, n, env);
}

struct value run_callblock(struct jinja *j, struct env *env, const struct node *n)
{
    struct jmacro *m = JNEW(j, struct jmacro);
    const struct value caller = {.kind = V_MACRO, .u.macro = m};
    struct args args = {0};
    struct value callee;

    *m = (struct jmacro){.node = n, .env = env};
    if (!n->a) /* a generation block only marks its content */
        return macro_call(j, m, &args);
    callee = eval(j, env, n->a->a);
    eval_args(j, env, n->a, &args);
    if (!args.kw)
        args.kw = jdict_new(j);
    if (jdict_get_cstr(j, args.kw, "caller"))
        raise_type(j, "got multiple values for keyword argument 'caller'");
    jdict_set(j, args.kw, val_cstr(j, "caller"), caller);
    return call_value(j, callee, &args);
}

static void set_self(struct jinja *j, const struct node *n, struct env *env)
{
    if (n->has_self)
        env->slots[n->self_ref.slot] = (struct value){.kind = V_SELF, .u.p = env->ctx};
    if (n->has_super)
        env->slots[n->super_ref.slot] = undef_hint(j, "there is no parent block");
}

struct value block_call(struct jinja *j, struct jblock *block)
{
    const struct node *n = block->node;
    struct env *env = env_new(j, NULL, n->func);

    env->ctx = block->ctx;
    call_enter(j);
    set_self(j, n, env);
    scope_enter(j, env, &n->scope);
    return call_leave(j, n, env);
}

struct value self_block(struct jinja *j, struct value self, const struct jstr *name)
{
    const struct nodes *blocks = &j->tmpl->blocks;

    jinja_charge(j, blocks->n * COST_CHAR);
    for (uint32_t i = 0; i < blocks->n; i++)
        if (jstr_eq(j, blocks->v[i]->name, name)) {
            struct jblock *b = JNEW(j, struct jblock);

            *b = (struct jblock){.node = blocks->v[i], .ctx = self.u.p};
            return (struct value){.kind = V_BLOCK, .u.block = b};
        }
    return MISSING;
}

void run_root(struct jinja *j, struct context *ctx)
{
    const struct node *n = j->tmpl->root;
    struct env *env = env_new(j, NULL, n->func);

    env->ctx = ctx;
    set_self(j, n, env);
    scope_enter(j, env, &n->scope);
    exec_body(j, env, &n->body);
}
