/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives every name a slot and every scope a list of loads (jinja-ast.h). Like jinja2's compiler,
 * this file refuses unknown filters and tests outside of conditions, `break` outside of loops, and
 * assignments to `loop`.
 */
#include <string.h>

#include "chat/jinja-scope.h"

struct frame {
    struct symbols *s;
    bool toplevel, soft, in_loop;
};

struct resolver {
    struct jinja *j;
    struct frame frame;
};

static bool resolve_node(struct node *n, void *data);

static _Noreturn void fail_at(struct jinja *j, uint32_t line, const char *what,
                              const struct jstr *name)
{
    j->line = line;
    jinja_raise(j, EBADMSG, "%s '%.*s'", what, (int)MIN(name->len, (size_t)80), name->data);
}

static struct ref ref_from(const struct fn_scope *from, const struct sym_ref *to)
{
    struct ref ref = {.slot = to->slot};

    for (; from != to->fn; from = from->up)
        ref.hops++;
    return ref;
}

static struct ref name_ref(struct resolver *r, const struct jstr *name, uint32_t line)
{
    const struct sym_ref *ref = symbols_find(r->frame.s, name);

    if (!ref)
        fail_at(r->j, line, "a name cannot be used here:", name);
    return ref_from(r->frame.s->fn, ref);
}

static struct scope scope_of(struct jinja *j, const struct symbols *s)
{
    struct scope scope = {.loads = JARRAY(j, struct load, s->n_loads), .n_loads = s->n_loads};

    for (uint32_t i = 0; i < s->n_loads; i++) {
        const struct sym_load *load = &s->loads[i];

        scope.loads[i] = (struct load){
            .action = load->action,
            .slot = load->slot,
            .name = load->name,
            .from = load->action == LOAD_ALIAS ? ref_from(s->fn, &load->from) : (struct ref){0},
        };
    }
    return scope;
}

static void resolve_all(struct resolver *r, const struct nodes *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        resolve_node(list->v[i], r);
}

/* Resolves the names in @list in a separate frame. */
static void resolve_in(struct resolver *r, struct frame frame, const struct nodes *list)
{
    struct resolver inner = {.j = r->j, .frame = frame};

    resolve_all(&inner, list);
}

static struct frame inner_frame(struct resolver *r, struct fn_scope *fn)
{
    return (struct frame){
        .s = symbols_new(r->j, r->frame.s, fn),
        .in_loop = fn == r->frame.s->fn && r->frame.in_loop,
    };
}

static uint32_t declare_name(struct resolver *r, struct symbols *s, const char *name)
{
    return symbols_param(s, jstr_wrap(r->j, name, strlen(name)));
}

/* Resolves the names in a macro or in the body of a call block. */
static void resolve_macro(struct resolver *r, struct node *n)
{
    static const char *const special[] = {"caller", "kwargs", "varargs", NULL};
    const unsigned used = find_undeclared(r->j, &n->body, special);
    struct fn_scope *fn = fn_scope_new(r->j, r->frame.s->fn);
    struct resolver inner = {.j = r->j, .frame = inner_frame(r, fn)};
    struct symbols *s = inner.frame.s;
    bool named[3] = {false, false, false};

    symbols_analyze(s, n);
    for (uint32_t i = 0; i < n->args.n; i++)
        for (int k = 0; k < 3; k++)
            if (jstr_is(n->args.v[i]->name, special[k])) {
                named[k] = true;
                if (k == 0 && (used & 1) && n->args.n - i > n->kw.n)
                    fail_at(r->j, n->line, "this parameter needs a default:", n->args.v[i]->name);
            }
    n->has_caller = used & 1;
    if (n->has_caller && !named[0])
        n->caller_ref.slot = declare_name(r, s, "caller");
    n->has_kwargs = (used & 2) && !named[1];
    if (n->has_kwargs)
        n->kwargs_ref.slot = declare_name(r, s, "kwargs");
    n->has_varargs = (used & 4) && !named[2];
    if (n->has_varargs)
        n->varargs_ref.slot = declare_name(r, s, "varargs");
    n->flag = named[0]; /* the macro has an explicit parameter `caller` */
    symbols_analyze(s, n);
    n->scope = scope_of(r->j, s);
    n->func = fn->out;
    resolve_all(&inner, &n->args);
    resolve_all(&inner, &n->kw);
    resolve_all(&inner, &n->body);
}

static bool stores_loop(struct node *n, void *data)
{
    jinja_charge(data, COST_CHAR);
    if (n->type == N_NAME && n->op == CTX_STORE && jstr_is(n->name, "loop"))
        fail_at(data, n->line, "Can't assign to special loop variable", n->name);
    return node_each(n, stores_loop, data);
}

static bool no_scoped_block(struct node *n, void *data)
{
    jinja_charge(data, COST_CHAR);
    return !(n->type == N_BLOCK && n->flag) && node_each(n, no_scoped_block, data);
}

static struct node *clone_target(struct jinja *j, const struct node *n)
{
    struct node *c = JNEW(j, struct node);

    *c = *n;
    if (n->args.n)
        c->args.v = JARRAY(j, struct node *, n->args.n);
    for (uint32_t i = 0; i < n->args.n; i++)
        c->args.v[i] = clone_target(j, n->args.v[i]);
    return c;
}

static void resolve_filter(struct resolver *r, struct node *n)
{
    struct fn_scope *fn = fn_scope_new(r->j, r->frame.s->fn);
    struct resolver test = {.j = r->j, .frame = inner_frame(r, fn)};

    symbols_analyze_for(test.frame.s, n, FOR_TEST);
    n->target2 = clone_target(r->j, n->a);
    n->scope2 = scope_of(r->j, test.frame.s);
    n->func2 = fn->out;
    resolve_node(n->target2, &test);
    resolve_node(n->c, &test);
}

static void resolve_for(struct resolver *r, struct node *n)
{
    static const char *const loop[] = {"loop", NULL};
    struct fn_scope *fn = n->flag ? fn_scope_new(r->j, r->frame.s->fn) : r->frame.s->fn;
    struct resolver body = {.j = r->j, .frame = inner_frame(r, fn)};
    struct frame els = inner_frame(r, fn);

    stores_loop(n, r->j);
    n->extended = n->flag || find_undeclared(r->j, &n->body, loop) || !no_scoped_block(n, r->j);
    if (n->extended)
        n->loop_ref.slot = declare_name(r, body.frame.s, "loop");
    symbols_analyze_for(body.frame.s, n, FOR_BODY);
    if (n->els.n)
        symbols_analyze_for(els.s, n, FOR_ELSE);
    if (n->c)
        resolve_filter(r, n);
    resolve_node(n->b, r);
    n->func = n->flag ? fn->out : NULL;
    n->scope = scope_of(r->j, body.frame.s);
    n->scope3 = scope_of(r->j, els.s);
    body.frame.in_loop = true;
    resolve_node(n->a, &body);
    resolve_all(&body, &n->body);
    resolve_in(r, els, &n->els);
}

static void resolve_if(struct resolver *r, struct node *n)
{
    struct resolver soft = *r;

    soft.frame.soft = true;
    resolve_node(n->a, &soft);
    resolve_all(&soft, &n->body);
    for (uint32_t i = 0; i < n->args.n; i++) {
        resolve_node(n->args.v[i]->a, &soft);
        resolve_all(&soft, &n->args.v[i]->body);
    }
    resolve_all(&soft, &n->els);
}

/* Resolves a block of {% filter %}, {% with %}, {% autoescape %} or {% set %}. The block has a
 * scope of its own, in the function around the block. */
static void resolve_block_scope(struct resolver *r, struct node *n)
{
    struct resolver inner = {.j = r->j, .frame = inner_frame(r, r->frame.s->fn)};

    symbols_analyze(inner.frame.s, n);
    n->scope = scope_of(r->j, inner.frame.s);
    resolve_all(&inner, &n->body);
    if (n->type == N_WITH) {
        resolve_all(&inner, &n->args);
        resolve_all(r, &n->kw);
    } else if (n->type == N_ASSIGNBLOCK) {
        resolve_node(n->a, r);
        if (n->b)
            resolve_node(n->b, &inner);
        n->export = r->frame.toplevel;
    } else {
        resolve_node(n->a, &inner);
    }
}

/* Resolves the place where a block stands in the template: a scoped block gets the names that are
 * set at this place. The body of the block has its own function. */
static void resolve_block_place(struct resolver *r, struct node *n)
{
    uint32_t total = 0, k = 0;

    if (!n->flag)
        return;
    for (const struct symbols *s = r->frame.s; s; s = s->parent)
        total += s->n_stores;
    n->scope2.stores = JARRAY(r->j, struct load, total);
    for (const struct symbols *s = r->frame.s; s; s = s->parent)
        for (uint32_t i = 0; i < s->n_stores; i++) {
            bool seen = false;

            jinja_charge(r->j, k * COST_CHAR);
            for (uint32_t m = 0; m < k; m++)
                seen = seen || jstr_eq(r->j, n->scope2.stores[m].name, s->stores[i]);
            if (!seen)
                n->scope2.stores[k++] = (struct load){
                    .name = s->stores[i],
                    .from = name_ref(r, s->stores[i], n->line),
                };
        }
    n->scope2.n_stores = k;
}

static bool resolve_node(struct node *n, void *data)
{
    struct resolver *r = data, soft;

    switch (n->type) {
    case N_NAME:
    case N_NSREF:
        n->ref = name_ref(r, n->name, n->line);
        return true;
    case N_FOR:
        resolve_for(r, n);
        return true;
    case N_IF:
        resolve_if(r, n);
        return true;
    case N_MACRO:
        n->ref = name_ref(r, n->name, n->line);
        n->export = r->frame.toplevel;
        resolve_macro(r, n);
        return true;
    case N_CALLBLOCK:
        resolve_macro(r, n);
        return !n->a || resolve_node(n->a, r);
    case N_FILTERBLOCK:
    case N_WITH:
    case N_SCOPE:
    case N_ASSIGNBLOCK:
        resolve_block_scope(r, n);
        return true;
    case N_BLOCK:
        resolve_block_place(r, n);
        return true;
    case N_ASSIGN:
        n->export = r->frame.toplevel;
        break;
    case N_BREAK:
    case N_CONTINUE:
        if (!r->frame.in_loop) {
            r->j->line = n->line;
            jinja_raise(r->j, EBADMSG, "break and continue only work in loops");
        }
        return true;
    case N_FILTER:
    case N_TEST:
        if (!n->fn && !r->frame.soft)
            fail_at(r->j, n->line, n->type == N_FILTER ? "No filter named" : "No test named",
                    n->name);
        break;
    case N_COND:
        soft = *r;
        soft.frame.soft = true;
        return node_each(n, resolve_node, &soft);
    default:
        break;
    }
    return node_each(n, resolve_node, r);
}

static void resolve_root(struct jinja *j, struct node *n, bool toplevel)
{
    static const char *const special[] = {"self", "super", NULL};
    const unsigned used = find_undeclared(j, &n->body, special);
    struct fn_scope *fn = fn_scope_new(j, NULL);
    struct resolver r = {.j = j, .frame = {.s = symbols_new(j, NULL, fn), .toplevel = toplevel}};

    n->has_self = used & 1;
    if (n->has_self)
        n->self_ref.slot = declare_name(&r, r.frame.s, "self");
    n->has_super = !toplevel && (used & 2);
    if (n->has_super)
        n->super_ref.slot = declare_name(&r, r.frame.s, "super");
    symbols_analyze(r.frame.s, n);
    n->scope = scope_of(j, r.frame.s);
    n->func = fn->out;
    resolve_all(&r, &n->body);
}

void jinja_resolve(struct jinja *j, struct template *tmpl)
{
    resolve_root(j, tmpl->root, true);
    for (uint32_t i = 0; i < tmpl->blocks.n; i++)
        resolve_root(j, tmpl->blocks.v[i], false);
}
