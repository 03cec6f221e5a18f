/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which variable a name means.
 *
 * This file does what jinja2's idtracking does at compile time: for each scope it lists the names
 * that the scope sets, takes from an enclosing scope, or looks up in the context when the scope is
 * entered. Three rules follow from these tables: a variable that is set inside a loop is lost after
 * the iteration, a branch sets the variable of the scope around it, and a macro sees later changes
 * of outer variables. Working memory comes from the template's arena.
 */
#include "chat/jinja-scope.h"

#include <string.h>

static void *grow_array(struct jinja *j, void *old, uint32_t n, size_t size)
{
    void *p;

    if (n & (n - 1))
        return old;
    p = jinja_array(j, n ? (size_t)n * 2 : 1, size);
    if (n)
        memcpy(p, old, n * size);
    return p;
}

struct fn_scope *fn_scope_new(struct jinja *j, struct fn_scope *up)
{
    struct fn_scope *f = JNEW(j, struct fn_scope);

    f->up = up;
    f->out = JNEW(j, struct func);
    return f;
}

struct symbols *symbols_new(struct jinja *j, struct symbols *parent, struct fn_scope *fn)
{
    struct symbols *s = JNEW(j, struct symbols);

    s->j = j;
    s->parent = parent;
    s->level = parent ? parent->level + 1 : 0;
    s->fn = fn;
    return s;
}

/* Returns the slot of a name in a function. jinja2 calls this local variable l_<level>_<name>. */
static uint32_t fn_slot(struct jinja *j, struct fn_scope *f, uint32_t level, struct jstr *name)
{
    jinja_charge(j, f->n * COST_CHAR);
    for (uint32_t i = 0; i < f->n; i++)
        if (f->idents[i].level == level && jstr_eq(j, f->idents[i].name, name))
            return i;
    f->idents = grow_array(j, f->idents, f->n, sizeof(*f->idents));
    f->idents[f->n] = (struct ident){.level = level, .name = name};
    f->out->n_slots = f->n + 1;
    return f->n++;
}

static struct sym_ref *own_ref(struct symbols *s, const struct jstr *name)
{
    jinja_charge(s->j, COST_CHAR + s->n_refs * COST_CHAR);
    for (uint32_t i = 0; i < s->n_refs; i++)
        if (jstr_eq(s->j, s->refs[i].name, name))
            return &s->refs[i];
    return NULL;
}

struct sym_ref *symbols_find(struct symbols *s, const struct jstr *name)
{
    struct sym_ref *r = NULL;

    for (; s && !r; s = s->parent)
        r = own_ref(s, name);
    return r;
}

static void put_load(struct symbols *s, struct sym_load load)
{
    jinja_charge(s->j, s->n_loads * COST_CHAR);
    for (uint32_t i = 0; i < s->n_loads; i++)
        if (s->loads[i].slot == load.slot) {
            s->loads[i] = load;
            return;
        }
    s->loads = grow_array(s->j, s->loads, s->n_loads, sizeof(load));
    s->loads[s->n_loads++] = load;
}

static void put_ref(struct symbols *s, struct sym_ref ref)
{
    struct sym_ref *old = own_ref(s, ref.name);

    if (old) {
        *old = ref;
        return;
    }
    s->refs = grow_array(s->j, s->refs, s->n_refs, sizeof(ref));
    s->refs[s->n_refs++] = ref;
}

static bool has_store(const struct symbols *s, const struct jstr *name)
{
    jinja_charge(s->j, s->n_stores * COST_CHAR);
    for (uint32_t i = 0; i < s->n_stores; i++)
        if (jstr_eq(s->j, s->stores[i], name))
            return true;
    return false;
}

static void put_store(struct symbols *s, struct jstr *name)
{
    if (has_store(s, name))
        return;
    s->stores = grow_array(s->j, s->stores, s->n_stores, sizeof(*s->stores));
    s->stores[s->n_stores++] = name;
}

static uint32_t define_symbol(struct symbols *s, struct jstr *name, struct sym_load load)
{
    load.slot = fn_slot(s->j, s->fn, s->level, name);
    put_ref(s, (struct sym_ref){.name = name, .fn = s->fn, .slot = load.slot});
    put_load(s, load);
    return load.slot;
}

uint32_t symbols_param(struct symbols *s, struct jstr *name)
{
    put_store(s, name);
    return define_symbol(s, name, (struct sym_load){.action = LOAD_PARAM});
}

static void symbols_store(struct symbols *s, struct jstr *name)
{
    struct sym_ref *outer;

    put_store(s, name);
    if (own_ref(s, name))
        return;
    outer = symbols_find(s->parent, name);
    if (outer)
        define_symbol(s, name, (struct sym_load){.action = LOAD_ALIAS, .from = *outer});
    else
        define_symbol(s, name, (struct sym_load){.action = LOAD_UNDEF});
}

static void symbols_load(struct symbols *s, struct jstr *name)
{
    if (!symbols_find(s, name))
        define_symbol(s, name, (struct sym_load){.action = LOAD_RESOLVE, .name = name});
}

static struct symbols *symbols_copy(const struct symbols *s)
{
    struct symbols *c = JNEW(s->j, struct symbols);

    *c = *s;
    c->n_refs = c->n_loads = c->n_stores = 0;
    c->refs = NULL;
    c->loads = NULL;
    c->stores = NULL;
    for (uint32_t i = 0; i < s->n_refs; i++)
        put_ref(c, s->refs[i]);
    for (uint32_t i = 0; i < s->n_loads; i++)
        put_load(c, s->loads[i]);
    for (uint32_t i = 0; i < s->n_stores; i++)
        put_store(c, s->stores[i]);
    return c;
}

/* Merges the branches of an `if`: names that a branch sets become variables of the scope around the
 * `if`. */
static void branch_update(struct symbols *s, struct symbols *const branches[3])
{
    const uint32_t n_before = s->n_stores;

    for (int b = 0; b < 3; b++) {
        for (uint32_t i = 0; i < branches[b]->n_refs; i++)
            put_ref(s, branches[b]->refs[i]);
        for (uint32_t i = 0; i < branches[b]->n_loads; i++)
            put_load(s, branches[b]->loads[i]);
        for (uint32_t i = 0; i < branches[b]->n_stores; i++)
            put_store(s, branches[b]->stores[i]);
    }
    for (uint32_t i = n_before; i < s->n_stores; i++) {
        struct jstr *name = s->stores[i];
        const struct sym_ref *target = own_ref(s, name), *outer = symbols_find(s->parent, name);
        struct sym_load load = {.slot = target->slot, .action = LOAD_RESOLVE, .name = name};

        if (outer)
            load = (struct sym_load){.slot = target->slot, .action = LOAD_ALIAS, .from = *outer};
        put_load(s, load);
    }
}

struct visit {
    struct symbols *s;
    bool as_param;
};

static bool visit_node(struct node *n, void *data);

static struct symbols *visit_branch(struct visit *v, const struct nodes *list)
{
    struct visit inner = *v;

    inner.s = symbols_copy(v->s);
    for (uint32_t i = 0; i < list->n; i++)
        visit_node(list->v[i], &inner);
    return inner.s;
}

/* Finds the names of the current scope. Does not enter nodes with a scope of their own. */
static bool visit_node(struct node *n, void *data)
{
    struct visit *v = data;

    jinja_charge(v->s->j, COST_CHAR);
    switch (n->type) {
    case N_NAME:
        if (v->as_param || n->op == CTX_PARAM)
            symbols_param(v->s, n->name);
        else if (n->op == CTX_STORE)
            symbols_store(v->s, n->name);
        else
            symbols_load(v->s, n->name);
        return true;
    case N_NSREF:
        symbols_load(v->s, n->name);
        return true;
    case N_IF: {
        struct symbols *branches[3];

        visit_node(n->a, v);
        branches[0] = visit_branch(v, &n->body);
        branches[1] = visit_branch(v, &n->args);
        branches[2] = visit_branch(v, &n->els);
        branch_update(v->s, branches);
        return true;
    }
    case N_MACRO:
        symbols_store(v->s, n->name);
        return true;
    case N_FOR:
        return visit_node(n->b, v);
    case N_ASSIGN:
        visit_node(n->b, v);
        return visit_node(n->a, v);
    case N_CALLBLOCK:
    case N_FILTERBLOCK:
    case N_ASSIGNBLOCK:
        return !n->a || visit_node(n->a, v);
    case N_WITH:
        for (uint32_t i = 0; i < n->kw.n; i++)
            visit_node(n->kw.v[i], v);
        return true;
    case N_SCOPE:
    case N_BLOCK:
        return true;
    default:
        return node_each(n, visit_node, v);
    }
}

static void visit_all(struct symbols *s, const struct nodes *list)
{
    struct visit v = {.s = s};

    for (uint32_t i = 0; i < list->n; i++)
        visit_node(list->v[i], &v);
}

void symbols_analyze(struct symbols *s, struct node *n)
{
    struct visit v = {.s = s};

    switch (n->type) {
    case N_FILTERBLOCK:
        visit_all(s, &n->body);
        visit_node(n->a, &v);
        return;
    case N_SCOPE:
        visit_node(n->a, &v);
        break;
    case N_WITH:
        visit_all(s, &n->args);
        break;
    case N_MACRO:
    case N_CALLBLOCK:
        visit_all(s, &n->args);
        visit_all(s, &n->kw);
        break;
    default:
        break;
    }
    visit_all(s, &n->body);
}

void symbols_analyze_for(struct symbols *s, struct node *n, enum for_part part)
{
    struct visit v = {.s = s, .as_param = true};

    if (part != FOR_ELSE)
        visit_node(n->a, &v);
    v.as_param = false;
    if (part == FOR_TEST)
        visit_node(n->c, &v);
    else
        visit_all(s, part == FOR_BODY ? &n->body : &n->els);
}

static bool each_node(const struct nodes *list, bool (*fn)(struct node *, void *), void *data)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (!fn(list->v[i], data))
            return false;
    return true;
}

bool node_each(struct node *n, bool (*fn)(struct node *child, void *data), void *data)
{
    if (n->type == N_DICT) {
        for (uint32_t i = 0; i < n->args.n; i++)
            if (!fn(n->args.v[i], data) || !fn(n->kw.v[i], data))
                return false;
        return true;
    }
    if (n->type == N_FILTERBLOCK)
        return each_node(&n->body, fn, data) && fn(n->a, data);
    if (n->type == N_IF)
        return fn(n->a, data) && each_node(&n->body, fn, data) && each_node(&n->args, fn, data) &&
               each_node(&n->els, fn, data);
    return (!n->a || fn(n->a, data)) && (!n->b || fn(n->b, data)) &&
           (n->type == N_FOR || !n->c || fn(n->c, data)) && each_node(&n->args, fn, data) &&
           each_node(&n->kw, fn, data) && each_node(&n->body, fn, data) &&
           each_node(&n->els, fn, data) && (n->type != N_FOR || !n->c || fn(n->c, data)) &&
           (!n->dyn_args || fn(n->dyn_args, data)) && (!n->dyn_kw || fn(n->dyn_kw, data));
}

struct undeclared {
    struct jinja *j;
    const char *const *names;
    unsigned open, found; /* sets of bits: names that were not set yet, and names that were read
                             before they were set */
};

static bool find_name(struct node *n, void *data)
{
    struct undeclared *u = data;

    jinja_charge(u->j, COST_CHAR);
    if (n->type == N_BLOCK)
        return true;
    if (n->type != N_NAME)
        return node_each(n, find_name, u);
    for (unsigned i = 0; u->names[i]; i++) {
        if (!jstr_is(n->name, u->names[i]))
            continue;
        if (n->op == CTX_LOAD && (u->open & 1u << i))
            u->found |= 1u << i;
        else
            u->open &= ~(1u << i);
    }
    return true;
}

unsigned find_undeclared(struct jinja *j, const struct nodes *body, const char *const *names)
{
    struct undeclared u = {.j = j, .names = names, .open = ~0u};

    each_node(body, find_name, &u);
    return u.found;
}
