/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the filters map, select and reject: generators that apply a filter, a test or an
 * attribute to each item. */
#include <string.h>

#include "chat/attrpath.h"

struct pick {
    struct value src, name;
    struct args args, rest; /* all arguments; the arguments after the name of the filter or test */
    struct attr_path path;
    bool by_attr, negate, has_name, ready;
};

/* Checks the arguments of the filter. As in Python, that happens when the first item is
 * requested. */
static bool prepare_pick(struct jinja *j, struct jiter *it,
                         void (*parse)(struct jinja *j, struct pick *p))
{
    struct pick *p = it->data;

    if (p->ready)
        return true;
    p->ready = true;
    if (!val_truth(j, p->src))
        return false;
    parse(j, p);
    it->in = iter_new(j, p->src);
    return true;
}

static struct args args_behind(const struct args *args, size_t n)
{
    return (struct args){.v = args->v + n, .n = args->n - n, .kw = args->kw};
}

static void parse_map(struct jinja *j, struct pick *p)
{
    struct jdict *kw = p->args.kw;
    const struct value *attribute = kw ? jdict_get_cstr(j, kw, "attribute") : NULL;
    const struct value *otherwise = kw ? jdict_get_cstr(j, kw, "default") : NULL;

    if (p->args.n == 0 && attribute) {
        if (kw->n > 1u + (otherwise != NULL))
            jinja_raise(j, EPROTO, "map got an unexpected keyword argument");
        p->by_attr = true;
        p->path = attr_path(j, *attribute, false, otherwise ? *otherwise : MISSING);
        return;
    }
    if (p->args.n == 0)
        jinja_raise(j, EPROTO, "map requires a filter argument");
    p->name = p->args.v[0];
    p->rest = args_behind(&p->args, 1);
}

static bool map_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct pick *p = it->data;
    struct value item;

    if (!prepare_pick(j, it, parse_map) || !iter_next(j, it->in, &item))
        return false;
    *ret = p->by_attr ? attr_get(j, &p->path, item) : call_filter(j, p->name, item, &p->rest);
    return true;
}

static void parse_select(struct jinja *j, struct pick *p)
{
    const size_t off = p->by_attr;

    if (p->by_attr) {
        if (p->args.n == 0)
            jinja_raise(j, EPROTO, "Missing parameter for attribute name");
        p->path = attr_path(j, p->args.v[0], false, MISSING);
    }
    p->has_name = p->args.n > off;
    if (p->has_name) {
        p->name = p->args.v[off];
        p->rest = args_behind(&p->args, off + 1);
    }
}

static bool select_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct pick *p = it->data;

    if (!prepare_pick(j, it, parse_select))
        return false;
    while (iter_next(j, it->in, ret)) {
        const struct value v = p->by_attr ? attr_get(j, &p->path, *ret) : *ret;
        const bool is = p->has_name ? call_test(j, p->name, v, &p->rest) : val_truth(j, v);

        if (is != p->negate)
            return true;
    }
    return false;
}

static struct value pick_items(struct jinja *j, struct value self, const struct args *args,
                               struct pick how,
                               bool (*next)(struct jinja *, struct jiter *, struct value *))
{
    struct pick *p = JNEW(j, struct pick);

    *p = how;
    p->src = self;
    p->args = *args;
    return val_iter(iter_generator(j, next, NULL, p));
}

#define FILTER(name)                                                                               \
    static struct value name(struct jinja *j, struct value self, struct value *a UNUSED,           \
                             const struct args *args)

FILTER(f_map)
{
    return pick_items(j, self, args, (struct pick){0}, map_next);
}

FILTER(f_select)
{
    return pick_items(j, self, args, (struct pick){0}, select_next);
}

FILTER(f_reject)
{
    return pick_items(j, self, args, (struct pick){.negate = true}, select_next);
}

FILTER(f_selectattr)
{
    return pick_items(j, self, args, (struct pick){.by_attr = true}, select_next);
}

FILTER(f_rejectattr)
{
    return pick_items(j, self, args, (struct pick){.by_attr = true, .negate = true}, select_next);
}

const struct builtin filters_pick[] = {
    {"map", "*", f_map},
    {"select", "*", f_select},
    {"reject", "*", f_reject},
    {"selectattr", "*", f_selectattr},
    {"rejectattr", "*", f_rejectattr},
    {0},
};
