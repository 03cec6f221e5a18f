/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements lists, tuples and dicts. A list that ends where the used part of its buffer ends may
 * be extended in place, so `messages = messages + [m]` in a loop takes linear time. The items that
 * the old and the new list share never change.
 */
#include <string.h>

#include "chat/jinja.h"

static struct jlist *list_new(struct jinja *j, size_t n)
{
    struct jlist *l = JNEW(j, struct jlist);

    if (n)
        l->v = JARRAY(j, struct value, n);
    l->n = n;
    return l;
}

struct value val_list(struct jinja *j, size_t n)
{
    return (struct value){.kind = V_LIST, .u.l = list_new(j, n)};
}

struct value val_tuple(struct jinja *j, size_t n)
{
    return (struct value){.kind = V_TUPLE, .u.l = list_new(j, n)};
}

struct value val_pair(struct jinja *j, struct value a, struct value b)
{
    struct value v = val_tuple(j, 2);

    v.u.l->v[0] = a;
    v.u.l->v[1] = b;
    return v;
}

/* Makes room for @more items at the end of @l. */
static void list_reserve(struct jinja *j, struct jlist *l, size_t more)
{
    struct jlist_room *room = l->room;
    struct value *v;
    size_t cap;

    if (room && room->used == l->n && room->cap - room->used >= more)
        return;
    cap = MAX(l->n + more, l->n * 2);
    cap = MAX(cap, (size_t)4);
    v = JARRAY(j, struct value, cap);
    if (l->n)
        memcpy(v, l->v, l->n * sizeof(*v));
    l->v = v;
    l->room = JNEW(j, struct jlist_room);
    *l->room = (struct jlist_room){.used = l->n, .cap = cap};
}

void jlist_push(struct jinja *j, struct jlist *l, struct value v)
{
    jinja_charge(j, COST_CHAR);
    list_reserve(j, l, 1);
    l->v[l->n++] = v;
    l->room->used = l->n;
}

struct value jlist_concat(struct jinja *j, struct value a, struct value b)
{
    struct jlist *x = a.u.l, *y = b.u.l, *l = JNEW(j, struct jlist);

    *l = *x;
    list_reserve(j, l, y->n);
    if (y->n)
        memcpy(l->v + l->n, y->v, y->n * sizeof(*l->v));
    l->n += y->n;
    l->room->used = l->n;
    return (struct value){.kind = a.kind, .u.l = l};
}

struct jdict *jdict_new(struct jinja *j)
{
    return JNEW(j, struct jdict);
}

struct value val_dict(struct jinja *j)
{
    return (struct value){.kind = V_DICT, .u.d = jdict_new(j)};
}

/* Puts entry @i into the index. A template can choose numbers whose hashes collide, so each probe
 * is charged (jinja_charge()). */
static void index_put(struct jinja *j, struct jdict *d, uint32_t i)
{
    uint32_t at = (uint32_t)d->e[i].hash & (d->n_index - 1);

    for (; d->index[at]; at = (at + 1) & (d->n_index - 1))
        jinja_charge(j, COST_CHAR);
    d->index[at] = i + 1;
}

static struct jdict_entry *dict_find(struct jinja *j, const struct jdict *d, struct value key,
                                     uint64_t hash)
{
    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->e[i].hash == hash &&
                (val_same(j, d->e[i].key, key) || val_eq(j, d->e[i].key, key)))
                return &d->e[i];
        return NULL;
    }
    for (uint32_t at = (uint32_t)hash;; at++) {
        const uint32_t i = d->index[at & (d->n_index - 1)];

        jinja_charge(j, COST_CHAR);
        if (i == 0)
            return NULL;
        if (d->e[i - 1].hash == hash &&
            (val_same(j, d->e[i - 1].key, key) || val_eq(j, d->e[i - 1].key, key)))
            return &d->e[i - 1];
    }
}

static void dict_grow(struct jinja *j, struct jdict *d)
{
    const uint32_t cap = d->cap ? d->cap * 2 : 4;
    struct jdict_entry *e;

    if (cap > UINT32_MAX / 8)
        jinja_raise(j, E2BIG, "a dict is too large");
    e = JARRAY(j, struct jdict_entry, cap);
    if (d->n)
        memcpy(e, d->e, d->n * sizeof(*e));
    d->e = e;
    d->cap = cap;
    if (cap > 8) {
        d->n_index = cap * 2;
        d->index = JARRAY(j, uint32_t, d->n_index);
        for (uint32_t i = 0; i < d->n; i++)
            index_put(j, d, i);
    }
}

void jdict_set(struct jinja *j, struct jdict *d, struct value key, struct value val)
{
    const uint64_t hash = val_hash(j, key);
    struct jdict_entry *e = dict_find(j, d, key, hash);

    if (e) {
        e->val = val;
        return;
    }
    if (d->n == d->cap)
        dict_grow(j, d);
    d->e[d->n] = (struct jdict_entry){.key = key, .val = val, .hash = hash};
    if (d->index)
        index_put(j, d, d->n);
    d->n++;
}

struct value *jdict_get(struct jinja *j, const struct jdict *d, struct value key)
{
    struct jdict_entry *e = dict_find(j, d, key, val_hash(j, key));

    return e ? &e->val : NULL;
}

struct value *jdict_get_str(struct jinja *j, const struct jdict *d, const struct jstr *key)
{
    const struct value v = {.kind = V_STR, .u.s = (struct jstr *)(uintptr_t)key};

    if (!d->index) {
        for (uint32_t i = 0; i < d->n; i++)
            if (d->e[i].key.kind == V_STR && jstr_eq(j, d->e[i].key.u.s, key))
                return &d->e[i].val;
        return NULL;
    }
    const uint64_t hash = val_hash(j, v);

    for (uint32_t at = (uint32_t)hash;; at++) {
        const uint32_t i = d->index[at & (d->n_index - 1)];

        jinja_charge(j, COST_CHAR);
        if (i == 0)
            return NULL;
        if (d->e[i - 1].hash == hash && d->e[i - 1].key.kind == V_STR &&
            jstr_eq(j, d->e[i - 1].key.u.s, key))
            return &d->e[i - 1].val;
    }
}

struct value *jdict_get_cstr(struct jinja *j, const struct jdict *d, const char *key)
{
    const struct jstr s = {.data = key, .len = strlen(key), .n = SIZE_MAX};

    return jdict_get_str(j, d, &s);
}
