/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executes statements. Output goes to the buffer j->out; while a statement captures the output of
 * its body, j->out is a buffer of the statement. Scopes are entered and left exactly as in the code
 * that jinja2 generates.
 */
#include <string.h>

#include "chat/jinja-ast.h"

struct env *env_new(struct jinja *j, struct env *up, const struct func *fn)
{
    struct env *env = JNEW(j, struct env);

    env->up = up;
    env->slots = JARRAY(j, struct value, fn->n_slots); /* zero is V_MISSING */
    env->ctx = up ? up->ctx : NULL;
    return env;
}

struct value *env_at(struct env *env, struct ref ref)
{
    while (ref.hops-- > 0)
        env = env->up;
    return &env->slots[ref.slot];
}

static struct value context_find(struct jinja *j, const struct context *ctx, struct jstr *name)
{
    const struct value *v;

    for (; ctx; ctx = ctx->parent) {
        v = jdict_get_str(j, ctx->vars, name);
        if (v)
            return *v;
    }
    v = jdict_get_str(j, j->globals, name);
    return v ? *v : MISSING;
}

void scope_enter(struct jinja *j, struct env *env, const struct scope *s)
{
    jinja_charge(j, s->n_loads * COST_CHAR * 2); /* includes the cost of leaving the scope */
    for (uint32_t i = 0; i < s->n_loads; i++) {
        const struct load *l = &s->loads[i];

        if (l->action == LOAD_RESOLVE)
            env->slots[l->slot] = context_find(j, env->ctx, l->name);
        else if (l->action == LOAD_ALIAS)
            env->slots[l->slot] = *env_at(env, l->from);
        else if (l->action == LOAD_UNDEF)
            env->slots[l->slot] = MISSING;
    }
}

static void scope_leave(struct env *env, const struct scope *s)
{
    for (uint32_t i = 0; i < s->n_loads; i++)
        env->slots[s->loads[i].slot] = MISSING;
}

static void assign_tuple(struct jinja *j, struct env *env, const struct nodes *targets,
                         struct value v)
{
    struct jiter *it = iter_new(j, v);
    struct value *items = JARRAY(j, struct value, targets->n), more;
    uint32_t n = 0;

    while (n < targets->n && iter_next(j, it, &items[n]))
        n++;
    if (n < targets->n)
        raise_value(j, "not enough values to unpack (expected %u, got %u)", targets->n, n);
    if (iter_next(j, it, &more))
        raise_value(j, "too many values to unpack (expected %u)", n);
    for (uint32_t i = 0; i < n; i++)
        assign(j, env, targets->v[i], items[i]);
}

void assign(struct jinja *j, struct env *env, const struct node *target, struct value v)
{
    struct value *at;

    if (target->type == N_TUPLE) {
        assign_tuple(j, env, &target->args, v);
        return;
    }
    at = env_at(env, target->ref);
    if (target->type == N_NAME) {
        *at = v;
        return;
    }
    if (at->kind != V_NS)
        jinja_raise(j, EPROTO, "cannot assign attribute on non-namespace object");
    if (target->val.u.s->data[0] == '_')
        jinja_raise(j, EPROTO, "a namespace stores no names that begin with an underscore");
    jdict_set(j, at->u.d, target->val, v);
}

/* Puts the variables of an assignment at the template's top level into the context, where blocks
 * can see them. */
static void export_names(struct jinja *j, struct env *env, const struct node *target)
{
    if (target->type == N_TUPLE)
        for (uint32_t i = 0; i < target->args.n; i++)
            export_names(j, env, target->args.v[i]);
    else if (target->type == N_NAME)
        jdict_set(j, env->ctx->vars, val_of_jstr(target->name), *env_at(env, target->ref));
}

static void check_namespaces(struct jinja *j, struct env *env, const struct node *target)
{
    if (target->type == N_TUPLE)
        for (uint32_t i = 0; i < target->args.n; i++)
            check_namespaces(j, env, target->args.v[i]);
    else if (target->type == N_NSREF && env_at(env, target->ref)->kind != V_NS)
        jinja_raise(j, EPROTO, "cannot assign attribute on non-namespace object");
}

static void exec_assign(struct jinja *j, struct env *env, const struct node *n)
{
    check_namespaces(j, env, n->a);
    assign(j, env, n->a, eval(j, env, n->b));
    if (n->export)
        export_names(j, env, n->a);
}

/* Runs a body, and writes its output to @b. */
static enum flow capture_body(struct jinja *j, struct env *env, const struct nodes *body,
                              struct jbuf *b)
{
    struct jbuf *const out = j->out;
    enum flow flow;

    j->out = b;
    flow = exec_body(j, env, body);
    j->out = out;
    return flow;
}

static struct value apply_captured(struct jinja *j, struct env *env, const struct node *filter,
                                   struct value text)
{
    struct args args;
    struct value in;

    if (!filter)
        return text;
    in = apply_captured(j, env, filter->a, text);
    eval_args(j, env, filter, &args);
    j->line = filter->line;
    if (!filter->fn)
        jinja_raise(j, EPROTO, "No filter named '%.*s' found.", (int)filter->name->len,
                    filter->name->data);
    return call_builtin(j, filter->fn, in, &args);
}

/* Outputs the result of a filter block or call block. The result must be text; other values are not
 * converted to text. */
static void put_text(struct jinja *j, struct value v)
{
    const struct jstr *s = arg_str(j, v);

    jbuf_add(j, j->out, s->data, s->len);
}

static enum flow exec_capture(struct jinja *j, struct env *env, const struct node *n)
{
    const struct node *filter = n->type == N_ASSIGNBLOCK ? n->b : n->a;
    struct jbuf b = {0};
    struct value v;
    enum flow flow;

    scope_enter(j, env, &n->scope);
    flow = capture_body(j, env, &n->body, &b);
    if (flow != FLOW_NEXT)
        return flow;
    v = apply_captured(j, env, filter, jbuf_value(j, &b));
    if (n->type == N_ASSIGNBLOCK) {
        check_namespaces(j, env, n->a);
        assign(j, env, n->a, v);
        if (n->export)
            export_names(j, env, n->a);
    } else {
        put_text(j, v);
    }
    scope_leave(env, &n->scope);
    return FLOW_NEXT;
}

static enum flow exec_with(struct jinja *j, struct env *env, const struct node *n)
{
    enum flow flow;

    scope_enter(j, env, &n->scope);
    for (uint32_t i = 0; i < n->args.n; i++)
        assign(j, env, n->args.v[i], eval(j, env, n->kw.v[i]));
    flow = exec_body(j, env, &n->body);
    if (flow == FLOW_NEXT)
        scope_leave(env, &n->scope);
    return flow;
}

static enum flow exec_scope(struct jinja *j, struct env *env, const struct node *n)
{
    enum flow flow;

    scope_enter(j, env, &n->scope);
    flow = exec_body(j, env, &n->body);
    if (flow == FLOW_NEXT)
        scope_leave(env, &n->scope);
    return flow;
}

static enum flow exec_if(struct jinja *j, struct env *env, const struct node *n)
{
    if (val_truth(j, eval(j, env, n->a)))
        return exec_body(j, env, &n->body);
    for (uint32_t i = 0; i < n->args.n; i++)
        if (val_truth(j, eval(j, env, n->args.v[i]->a)))
            return exec_body(j, env, &n->args.v[i]->body);
    return exec_body(j, env, &n->els);
}

/* ---- loops ---- */

struct loop_filter {
    const struct node *node;
    struct env *env;
    bool entered;
};

static struct value target_value(struct jinja *j, struct env *env, const struct node *target)
{
    struct value v;

    if (target->type != N_TUPLE)
        return *env_at(env, target->ref);
    v = val_tuple(j, target->args.n);
    for (uint32_t i = 0; i < target->args.n; i++)
        v.u.l->v[i] = target_value(j, env, target->args.v[i]);
    return v;
}

static bool filter_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct loop_filter *f = it->data;
    struct value item;

    if (!f->entered)
        scope_enter(j, f->env, &f->node->scope2);
    f->entered = true;
    while (iter_next(j, it->in, &item)) {
        assign(j, f->env, f->node->target2, item);
        if (val_truth(j, eval(j, f->env, f->node->c))) {
            *ret = target_value(j, f->env, f->node->target2);
            return true;
        }
    }
    return false;
}

static struct value loop_items(struct jinja *j, struct env *env, const struct node *n,
                               struct value items)
{
    struct loop_filter *f;

    if (!n->c)
        return items;
    f = JNEW(j, struct loop_filter);
    f->node = n;
    f->env = env_new(j, env, n->func2);
    return val_iter(iter_generator(j, filter_next, iter_new(j, items), f));
}

static bool loop_peek(struct jinja *j, struct jloop *l)
{
    return l->after.kind != V_MISSING || iter_next(j, l->it, &l->after);
}

static bool loop_next(struct jinja *j, struct jloop *l, struct value *ret)
{
    if (!loop_peek(j, l))
        return false;
    l->index0++;
    l->before = l->current;
    *ret = l->current = l->after;
    l->after = MISSING;
    return true;
}

int64_t loop_index(const struct jloop *l)
{
    return l->index0 + 1;
}

struct value *loop_changed(struct jloop *l)
{
    return &l->changed;
}

int64_t loop_length(struct jinja *j, struct jloop *l)
{
    if (l->length < 0)
        l->length = val_len(j, l->iterable);
    if (l->length < 0) {
        const struct value rest = val_to_list(j, val_iter(l->it));

        l->it = iter_new(j, rest);
        l->length = (int64_t)rest.u.l->n + loop_index(l) + (l->after.kind != V_MISSING);
    }
    return l->length;
}

struct value loop_attr(struct jinja *j, struct jloop *l, const struct jstr *name)
{
    if (jstr_is(name, "index"))
        return val_int(l->index0 + 1);
    if (jstr_is(name, "index0"))
        return val_int(l->index0);
    if (jstr_is(name, "first"))
        return val_bool(l->index0 == 0);
    if (jstr_is(name, "last"))
        return val_bool(!loop_peek(j, l));
    if (jstr_is(name, "length"))
        return val_int(loop_length(j, l));
    if (jstr_is(name, "revindex"))
        return val_int(loop_length(j, l) - l->index0);
    if (jstr_is(name, "revindex0"))
        return val_int(loop_length(j, l) - l->index0 - 1);
    if (jstr_is(name, "depth"))
        return val_int(l->depth0 + 1);
    if (jstr_is(name, "depth0"))
        return val_int(l->depth0);
    if (jstr_is(name, "previtem"))
        return l->index0 == 0 ? undef_hint(j, "there is no previous item") : l->before;
    if (jstr_is(name, "nextitem"))
        return loop_peek(j, l) ? l->after : undef_hint(j, "there is no next item");
    return MISSING;
}

struct loop_run {
    struct env *env, *outer;
    int64_t depth0;
};

static enum flow run_loop(struct jinja *j, const struct node *n, struct value items,
                          struct loop_run run)
{
    struct jiter *it = iter_new(j, items);
    struct jloop *l = NULL;
    struct value item;
    bool none = true;

    if (n->extended) {
        l = JNEW(j, struct jloop);
        *l = (struct jloop){.it = it,
                            .iterable = items,
                            .index0 = -1,
                            .length = -1,
                            .depth0 = run.depth0,
                            .node = n,
                            .env = run.outer};
        run.env->slots[n->loop_ref.slot] = MISSING;
    }
    while (l ? loop_next(j, l, &item) : iter_next(j, it, &item)) {
        enum flow flow;

        assign(j, run.env, n->a, item);
        if (l)
            run.env->slots[n->loop_ref.slot] = (struct value){.kind = V_LOOP, .u.loop = l};
        scope_enter(j, run.env, &n->scope);
        flow = exec_body(j, run.env, &n->body);
        if (flow == FLOW_BREAK)
            break;
        /* As in jinja2, an iteration that ends with `continue` does not count: a loop with only
         * such iterations runs its else part. */
        if (flow == FLOW_NEXT)
            none = false;
    }
    scope_leave(run.env, &n->scope);
    if (none && n->els.n) {
        enum flow flow;

        scope_enter(j, run.env, &n->scope3);
        flow = exec_body(j, run.env, &n->els);
        scope_leave(run.env, &n->scope3);
        return flow;
    }
    return FLOW_NEXT;
}

static struct value run_recursive(struct jinja *j, struct env *env, const struct node *n,
                                  struct value items, int64_t depth0)
{
    struct loop_run run = {.env = env_new(j, env, n->func), .outer = env, .depth0 = depth0};
    struct jbuf b = {0}, *const out = j->out;

    if (++j->n_macros > JINJA_MAX_MACROS)
        jinja_raise(j, EPROTO, "maximum recursion depth exceeded");
    jinja_enter(j);
    items = loop_items(j, env, n, items);
    j->out = &b;
    run_loop(j, n, items, run);
    j->out = out;
    jinja_leave(j);
    j->n_macros--;
    return jbuf_value(j, &b);
}

struct value loop_recurse(struct jinja *j, struct jloop *l, struct value items)
{
    if (!l->node->flag)
        raise_type(j, "The loop must have the 'recursive' marker to be called recursively.");
    return run_recursive(j, l->env, l->node, items, l->depth0 + 1);
}

static enum flow exec_for(struct jinja *j, struct env *env, const struct node *n)
{
    const struct value items = eval(j, env, n->b);

    if (n->flag) {
        val_print(j, j->out, run_recursive(j, env, n, items, 0));
        return FLOW_NEXT;
    }
    return run_loop(j, n, loop_items(j, env, n, items),
                    (struct loop_run){.env = env, .outer = env});
}

static void exec_block(struct jinja *j, struct env *env, const struct node *n)
{
    struct context *ctx = env->ctx;

    if (n->required)
        jinja_raise(j, EPROTO, "Required block '%.*s' not found", (int)n->name->len, n->name->data);
    if (n->flag) {
        ctx = JNEW(j, struct context);
        ctx->parent = env->ctx;
        ctx->vars = jdict_new(j);
        for (uint32_t i = 0; i < n->scope2.n_stores; i++) {
            const struct load *s = &n->scope2.stores[i];
            const struct value v = *env_at(env, s->from);

            if (v.kind != V_MISSING)
                jdict_set(j, ctx->vars, val_of_jstr(s->name), v);
        }
    }
    val_print(j, j->out, block_call(j, &(struct jblock){.node = n, .ctx = ctx}));
}

static void exec_output(struct jinja *j, struct env *env, const struct node *n)
{
    for (uint32_t i = 0; i < n->args.n; i++) {
        const struct node *c = n->args.v[i];

        j->line = c->line;
        if (c->type == N_DATA)
            jbuf_add(j, j->out, c->val.u.s->data, c->val.u.s->len);
        else
            val_print(j, j->out, eval(j, env, c));
    }
}

enum flow exec_body(struct jinja *j, struct env *env, const struct nodes *body)
{
    enum flow flow = FLOW_NEXT;

    jinja_enter(j);
    for (uint32_t i = 0; i < body->n && flow == FLOW_NEXT; i++)
        flow = exec(j, env, body->v[i]);
    jinja_leave(j);
    return flow;
}

enum flow exec(struct jinja *j, struct env *env, const struct node *n)
{
    jinja_step(j, 1);
    j->line = n->line;
    switch (n->type) {
    case N_OUTPUT:
        exec_output(j, env, n);
        return FLOW_NEXT;
    case N_IF:
        return exec_if(j, env, n);
    case N_FOR:
        return exec_for(j, env, n);
    case N_ASSIGN:
        exec_assign(j, env, n);
        return FLOW_NEXT;
    case N_ASSIGNBLOCK:
    case N_FILTERBLOCK:
        return exec_capture(j, env, n);
    case N_WITH:
        return exec_with(j, env, n);
    case N_SCOPE:
        return exec_scope(j, env, n);
    case N_MACRO: {
        struct jmacro *m = JNEW(j, struct jmacro);

        *m = (struct jmacro){.node = n, .env = env};
        *env_at(env, n->ref) = (struct value){.kind = V_MACRO, .u.macro = m};
        if (n->export)
            jdict_set(j, env->ctx->vars, val_of_jstr(n->name), *env_at(env, n->ref));
        return FLOW_NEXT;
    }
    case N_CALLBLOCK:
        put_text(j, run_callblock(j, env, n));
        return FLOW_NEXT;
    case N_BLOCK:
        exec_block(j, env, n);
        return FLOW_NEXT;
    case N_BREAK:
        return FLOW_BREAK;
    default:
        assert(n->type == N_CONTINUE);
        return FLOW_CONTINUE;
    }
}
