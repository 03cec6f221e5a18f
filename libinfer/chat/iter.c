/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterates as Python does: each value that a loop can run over gives an iterator. Generators are
 * lazy and can be read once.
 */
#include <string.h>

#include "chat/pystr.h"

static struct jiter *iter_make(struct jinja *j,
                               bool (*next)(struct jinja *, struct jiter *, struct value *),
                               struct value src, const char *type)
{
    struct jiter *it = JNEW(j, struct jiter);

    it->next = next;
    it->src = src;
    it->type = type;
    it->step = 1;
    return it;
}

struct value val_iter(struct jiter *it)
{
    return (struct value){.kind = V_ITER, .u.it = it};
}

bool iter_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    jinja_step(j, 1);
    if (!it->next)
        return false;
    if (it->next(j, it, ret))
        return true;
    it->next = NULL;
    return false;
}

static bool seq_next(struct jinja *j UNUSED, struct jiter *it, struct value *ret)
{
    const struct jlist *l = it->src.u.l;

    if (it->n >= l->n)
        return false;
    *ret = l->v[it->step < 0 ? l->n - 1 - it->n : it->n];
    it->n++;
    return true;
}

static bool str_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    const struct jstr *s = it->src.u.s;
    const char *p = s->data + it->i, *start = p;

    if (it->step < 0) {
        p = start = s->data + s->len - it->i;
        if (p == s->data)
            return false;
        u8_prev(&p);
        *ret = val_of_jstr(jstr_wrap(j, p, (size_t)(start - p)));
        it->i += (size_t)(start - p);
        return true;
    }
    if (it->i >= s->len)
        return false;
    u8_next(&p);
    *ret = val_of_jstr(jstr_wrap(j, start, (size_t)(p - start)));
    it->i += (size_t)(p - start);
    return true;
}

static bool dict_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    const struct jview view = it->src.kind == V_VIEW
                                  ? *it->src.u.view
                                  : (struct jview){.d = it->src.u.d, .kind = VIEW_KEYS};
    const struct jdict_entry *e;

    if (it->n >= view.d->n)
        return false;
    e = &view.d->e[it->step < 0 ? view.d->n - 1 - it->n : it->n];
    it->n++;
    *ret = view.kind == VIEW_KEYS     ? e->key
           : view.kind == VIEW_VALUES ? e->val
                                      : val_pair(j, e->key, e->val);
    return true;
}

static bool range_next(struct jinja *j UNUSED, struct jiter *it, struct value *ret)
{
    const struct jrange *r = it->src.u.range;
    const int64_t i = (int64_t)it->n;

    if (i >= r->n)
        return false;
    *ret = val_int(r->start + r->step * (it->step < 0 ? r->n - 1 - i : i));
    it->n++;
    return true;
}

static bool no_next(struct jinja *j UNUSED, struct jiter *it UNUSED, struct value *ret UNUSED)
{
    return false;
}

struct jiter *iter_try(struct jinja *j, struct value v)
{
    switch (v.kind) {
    case V_UNDEF:
        return iter_make(j, no_next, v, "generator");
    case V_STR:
        return iter_make(j, str_next, v, "str_iterator");
    case V_LIST:
        return iter_make(j, seq_next, v, "list_iterator");
    case V_TUPLE:
        return iter_make(j, seq_next, v, "tuple_iterator");
    case V_DICT:
    case V_VIEW:
        return iter_make(j, dict_next, v, "dict_iterator");
    case V_RANGE:
        return iter_make(j, range_next, v, "range_iterator");
    case V_ITER:
        return v.u.it;
    default:
        return NULL;
    }
}

struct jiter *iter_new(struct jinja *j, struct value v)
{
    struct jiter *it = iter_try(j, v);

    if (!it)
        raise_type(j, "'%s' object is not iterable", val_type(v));
    return it;
}

struct jiter *iter_reversed(struct jinja *j, struct value v)
{
    struct jiter *it;

    if (v.kind == V_ITER)
        return NULL;
    it = iter_try(j, v);
    if (it) {
        it->step = -1;
        it->type = "reversed";
    }
    return it;
}

struct jiter *iter_generator(struct jinja *j,
                             bool (*next)(struct jinja *, struct jiter *, struct value *),
                             struct jiter *in, void *data)
{
    struct jiter *it = iter_make(j, next, NONE, "generator");

    it->in = in;
    it->data = data;
    return it;
}

struct value val_to_list(struct jinja *j, struct value v)
{
    struct value list, item;
    struct jiter *it;

    if (val_is_seq(v)) {
        list = val_list(j, v.u.l->n);
        if (v.u.l->n)
            memcpy(list.u.l->v, v.u.l->v, v.u.l->n * sizeof(item));
        return list;
    }
    list = val_list(j, 0);
    it = iter_new(j, v);
    while (iter_next(j, it, &item))
        jlist_push(j, list.u.l, item);
    return list;
}

static bool text_has(struct jinja *j, const struct jstr *s, const struct jstr *what)
{
    return what->len == 0 || text_find(j, s->data, s->data + s->len, what);
}

bool val_contains(struct jinja *j, struct value container, struct value item)
{
    struct jiter *it;
    struct value v;

    if (container.kind == V_STR) {
        if (item.kind == V_UNDEF || item.kind != V_STR)
            raise_type(j, "'in <string>' requires string as left operand, not %s", val_type(item));
        return text_has(j, container.u.s, item.u.s);
    }
    if (container.kind == V_DICT)
        return jdict_get(j, container.u.d, item) != NULL;
    if (container.kind == V_VIEW && container.u.view->kind == VIEW_KEYS)
        return jdict_get(j, container.u.view->d, item) != NULL;
    it = iter_try(j, container);
    if (!it)
        raise_type(j, "argument of type '%s' is not iterable", val_type(container));
    while (iter_next(j, it, &v))
        if (val_same(j, v, item) || val_eq(j, v, item))
            return true;
    return false;
}
