/* SPDX-License-Identifier: Apache-2.0 */
/* Defines filters over whole sequences, such as sort, groupby and max. */
#include <string.h>

#include "chat/attrpath.h"
#include "chat/pystr.h"

#define FILTER(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self, struct value *a UNUSED,    \
                             const struct args *args UNUSED)

static bool is_digits(struct jinja *j, const struct jstr *s)
{
    const char *p = s->data, *end = p + s->len;

    jinja_chars(j, s->len);
    if (p == end)
        return false;
    while (p < end)
        if (!cp_is_digit(u8_next(&p)))
            return false;
    return true;
}

struct attr_path attr_path(struct jinja *j, struct value attribute, bool fold,
                           struct value otherwise)
{
    struct attr_path path = {.fold = fold, .otherwise = otherwise};

    if (otherwise.kind == V_NONE)
        path.otherwise = MISSING;
    if (attribute.kind == V_MISSING || attribute.kind == V_NONE)
        return path;
    if (attribute.kind == V_STR) {
        const struct value parts = text_split(j, attribute, val_cstr(j, "."), -1, false);

        path.parts = parts.u.l->v;
        path.n = parts.u.l->n;
        for (size_t i = 0; i < path.n; i++)
            if (is_digits(j, path.parts[i].u.s))
                path.parts[i] =
                    call_filter(j, val_cstr(j, "int"), path.parts[i], &(struct args){0});
        return path;
    }
    path.parts = JNEW(j, struct value);
    path.parts[0] = attribute;
    path.n = 1;
    return path;
}

struct value attr_get(struct jinja *j, const struct attr_path *path, struct value item)
{
    for (size_t i = 0; i < path->n; i++) {
        item = op_getitem(j, item, path->parts[i]);
        if (item.kind == V_UNDEF && path->otherwise.kind != V_MISSING)
            item = path->otherwise;
    }
    if (path->fold && item.kind == V_STR)
        item = text_to_case(j, item, CASE_LOWER);
    return item;
}

/* Sorts indices by the keys of their items, with merge sort. */
static void merge_sort(struct jinja *j, const struct value *keys, size_t *order, size_t *tmp,
                       size_t n)
{
    const size_t half = n / 2;
    size_t a = 0, b = half, k = 0;

    if (n < 2)
        return;
    merge_sort(j, keys, order, tmp, half);
    merge_sort(j, keys, order + half, tmp, n - half);
    while (a < half && b < n)
        tmp[k++] = val_lt(j, keys[order[b]], keys[order[a]]) ? order[b++] : order[a++];
    while (a < half)
        tmp[k++] = order[a++];
    memcpy(order, tmp, k * sizeof(*order));
    jinja_step(j, n);
}

/* Sorts @n items by their @n keys, stably. */
static void sort_by_keys(struct jinja *j, struct value *items, struct value *keys, size_t n,
                         bool reverse)
{
    size_t *order = JARRAY(j, size_t, n), *tmp = JARRAY(j, size_t, n);
    struct value *copy = JARRAY(j, struct value, n * 2);

    /* Equal items keep their order in an ascending and in a descending sort. For that, a descending
     * sort reverses the items before and after sorting. */
    for (size_t i = 0; i < n; i++)
        order[i] = reverse ? n - 1 - i : i;
    merge_sort(j, keys, order, tmp, n);
    for (size_t i = 0; i < n; i++) {
        const size_t from = order[reverse ? n - 1 - i : i];

        copy[i] = items[from];
        copy[n + i] = keys[from];
    }
    if (n == 0)
        return;
    memcpy(items, copy, n * sizeof(*copy));
    memcpy(keys, copy + n, n * sizeof(*copy));
}

FILTER(f_sort)
{
    const bool fold = !arg_true(j, a[1], false);
    struct value list, *keys;
    struct attr_path *paths;
    size_t n_paths = 1;

    if (a[2].kind == V_STR) {
        const struct value names = text_split(j, a[2], val_cstr(j, ","), -1, false);

        n_paths = names.u.l->n;
        paths = JARRAY(j, struct attr_path, n_paths);
        for (size_t i = 0; i < n_paths; i++)
            paths[i] = attr_path(j, names.u.l->v[i], fold, MISSING);
    } else {
        paths = JNEW(j, struct attr_path);
        paths[0] = attr_path(j, a[2], fold, MISSING);
    }
    list = val_to_list(j, self);
    keys = JARRAY(j, struct value, list.u.l->n);
    for (size_t i = 0; i < list.u.l->n; i++) {
        keys[i] = val_list(j, n_paths);
        for (size_t k = 0; k < n_paths; k++)
            keys[i].u.l->v[k] = attr_get(j, &paths[k], list.u.l->v[i]);
    }
    sort_by_keys(j, list.u.l->v, keys, list.u.l->n, arg_true(j, a[0], false));
    return list;
}

FILTER(f_dictsort)
{
    const bool fold = !arg_true(j, a[0], false);
    const size_t pos = a[1].kind == V_MISSING || val_str_is(a[1], "key") ? 0
                       : val_str_is(a[1], "value")                       ? 1
                                                                         : 2;
    struct value list, *keys;
    size_t n;

    if (pos == 2)
        jinja_raise(j, EPROTO, "You can only sort by either \"key\" or \"value\"");
    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (self.kind != V_DICT)
        raise_type(j, "dictsort needs a mapping, not '%s'", val_type(self));
    n = self.u.d->n;
    list = val_list(j, n);
    keys = JARRAY(j, struct value, n);
    for (size_t i = 0; i < n; i++) {
        const struct jdict_entry *e = &self.u.d->e[i];

        list.u.l->v[i] = val_pair(j, e->key, e->val);
        keys[i] = pos ? e->val : e->key;
        if (fold && keys[i].kind == V_STR)
            keys[i] = text_to_case(j, keys[i], CASE_LOWER);
    }
    sort_by_keys(j, list.u.l->v, keys, n, arg_true(j, a[2], false));
    return list;
}

FILTER(f_groupby)
{
    const bool fold = !arg_true(j, a[2], false);
    const struct attr_path path = attr_path(j, a[0], fold, a[1]);
    const struct attr_path real = attr_path(j, a[0], false, a[1]);
    struct value list = val_to_list(j, self), groups = val_list(j, 0), *keys;
    const size_t n = list.u.l->n;

    keys = JARRAY(j, struct value, n);
    for (size_t i = 0; i < n; i++)
        keys[i] = attr_get(j, &path, list.u.l->v[i]);
    sort_by_keys(j, list.u.l->v, keys, n, false);
    for (size_t i = 0; i < n;) {
        struct value members = val_list(j, 0), group;
        const size_t first = i;

        for (; i < n && (i == first || val_eq(j, keys[first], keys[i])); i++)
            jlist_push(j, members.u.l, list.u.l->v[i]);
        group = val_pair(j, attr_get(j, &real, list.u.l->v[first]), members);
        group.flag = TUPLE_GROUP;
        jlist_push(j, groups.u.l, group);
    }
    return groups;
}

static struct value extreme_item(struct jinja *j, struct value self, struct value *a, bool max)
{
    const struct attr_path path = attr_path(j, a[1], !arg_true(j, a[0], false), MISSING);
    struct jiter *it = iter_new(j, self);
    struct value best, best_key, item, key;

    if (!iter_next(j, it, &best))
        return undef_hint(j, "No aggregated item, sequence was empty.");
    best_key = attr_get(j, &path, best);
    while (iter_next(j, it, &item)) {
        key = attr_get(j, &path, item);
        if (max ? val_lt(j, best_key, key) : val_lt(j, key, best_key)) {
            best = item;
            best_key = key;
        }
    }
    return best;
}

FILTER(f_min)
{
    return extreme_item(j, self, a, false);
}

FILTER(f_max)
{
    return extreme_item(j, self, a, true);
}

FILTER(f_sum)
{
    const struct attr_path path = attr_path(j, a[0], false, MISSING);
    struct value total = a[1].kind == V_MISSING ? val_int(0) : a[1], item;
    struct jiter *it = iter_new(j, self);

    if (total.kind == V_STR)
        raise_type(j, "sum() can't sum strings [use ''.join(seq) instead]");
    while (iter_next(j, it, &item))
        total = op_binary(j, OP_ADD, total, attr_get(j, &path, item));
    return total;
}

FILTER(f_join)
{
    const struct attr_path path = attr_path(j, a[1], false, MISSING);
    const struct value sep = a[0].kind == V_MISSING ? val_cstr(j, "") : val_to_str(j, a[0]);
    struct jiter *it = iter_new(j, self);
    struct jbuf b = {0};
    struct value item;
    bool first = true;

    while (iter_next(j, it, &item)) {
        if (!first)
            jbuf_add(j, &b, sep.u.s->data, sep.u.s->len);
        first = false;
        val_print(j, &b, attr_get(j, &path, item));
    }
    return jbuf_value(j, &b);
}

FILTER(f_first)
{
    struct value v;

    return iter_next(j, iter_new(j, self), &v)
               ? v
               : undef_hint(j, "No first item, sequence was empty.");
}

FILTER(f_last)
{
    struct jiter *it = iter_reversed(j, self);
    struct value v;

    if (!it)
        raise_type(j, "'%s' object is not reversible", val_type(self));
    return iter_next(j, it, &v) ? v : undef_hint(j, "No last item, sequence was empty.");
}

FILTER(f_list)
{
    return val_to_list(j, self);
}

FILTER(f_reverse)
{
    struct jiter *it;
    struct value list;

    if (self.kind == V_STR)
        return text_reverse(j, self);
    it = iter_reversed(j, self);
    if (it)
        return val_iter(it);
    list = val_to_list(j, self);
    for (size_t i = 0; i < list.u.l->n / 2; i++) {
        const struct value t = list.u.l->v[i];

        list.u.l->v[i] = list.u.l->v[list.u.l->n - 1 - i];
        list.u.l->v[list.u.l->n - 1 - i] = t;
    }
    return list;
}

/* ---- generators ---- */

struct chunks {
    struct value src, fill, list;
    int64_t n, i, offset;
    bool started;
};

static bool batch_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct chunks *c = it->data;
    struct value row = val_list(j, 0), item;

    if (!c->started) {
        it->in = iter_new(j, c->src);
        c->started = true;
    }
    if (c->list.kind != V_MISSING) { /* an item that did not fit into the previous row */
        jlist_push(j, row.u.l, c->list);
        c->list = MISSING;
    }
    while (iter_next(j, it->in, &item)) {
        if ((int64_t)row.u.l->n == c->n) {
            c->list = item;
            *ret = row;
            return true;
        }
        jlist_push(j, row.u.l, item);
    }
    if (row.u.l->n == 0)
        return false;
    if (c->n > (int64_t)(j->max_memory / sizeof(row)))
        jinja_raise(j, E2BIG, "a list is too large");
    while (c->fill.kind != V_NONE && (int64_t)row.u.l->n < c->n)
        jlist_push(j, row.u.l, c->fill);
    *ret = row;
    return true;
}

static bool slice_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct chunks *c = it->data;
    int64_t start, end, n, extra;

    if (!c->started) {
        c->list = val_to_list(j, c->src);
        c->started = true;
        if (c->n == 0)
            jinja_raise(j, EPROTO, "ZeroDivisionError: integer division or modulo by zero");
    }
    if (c->i >= c->n)
        return false;
    n = (int64_t)c->list.u.l->n;
    extra = n % c->n;
    start = c->offset + c->i * (n / c->n);
    c->offset += c->i < extra;
    end = c->offset + (c->i + 1) * (n / c->n);
    *ret = op_slice(j, c->list, val_int(start), val_int(end), NONE);
    if (c->fill.kind != V_NONE && c->i >= extra) {
        struct value copy = val_to_list(j, *ret);

        jlist_push(j, copy.u.l, c->fill);
        *ret = copy;
    }
    c->i++;
    return true;
}

static struct value make_chunks(struct jinja *j, struct value self, struct value *a,
                                bool (*next)(struct jinja *, struct jiter *, struct value *))
{
    struct chunks *c = JNEW(j, struct chunks);

    *c = (struct chunks){
        .src = self,
        .n = arg_int(j, a[0], 0),
        .fill = a[1].kind == V_MISSING ? NONE : a[1],
    };
    return val_iter(iter_generator(j, next, NULL, c));
}

FILTER(f_batch)
{
    return make_chunks(j, self, a, batch_next);
}

FILTER(f_slice)
{
    return make_chunks(j, self, a, slice_next);
}

static bool items_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct jview *view = it->data;

    if (it->src.kind == V_UNDEF)
        return false;
    if (it->src.kind != V_DICT)
        raise_type(j, "Can only get item pairs from a mapping.");
    if (!it->in) {
        *view = (struct jview){.d = it->src.u.d, .kind = VIEW_ITEMS};
        it->in = iter_new(j, (struct value){.kind = V_VIEW, .u.view = view});
    }
    return iter_next(j, it->in, ret);
}

FILTER(f_items)
{
    struct jiter *it = iter_generator(j, items_next, NULL, JNEW(j, struct jview));

    it->src = self;
    return val_iter(it);
}

struct unique {
    struct attr_path path;
    struct jdict *seen;
};

static bool unique_next(struct jinja *j, struct jiter *it, struct value *ret)
{
    struct unique *u = it->data;
    struct value key;

    if (!it->in)
        it->in = iter_new(j, it->src);
    while (iter_next(j, it->in, ret)) {
        key = attr_get(j, &u->path, *ret);
        if (!jdict_get(j, u->seen, key)) {
            jdict_set(j, u->seen, key, NONE);
            return true;
        }
    }
    return false;
}

FILTER(f_unique)
{
    struct unique *u = JNEW(j, struct unique);
    struct jiter *it = iter_generator(j, unique_next, NULL, u);

    u->path = attr_path(j, a[1], !arg_true(j, a[0], false), MISSING);
    u->seen = jdict_new(j);
    it->src = self;
    return val_iter(it);
}

const struct builtin filters_seq[] = {
    {"join", "d? attribute?", f_join},
    {"list", "", f_list},
    {"first", "", f_first},
    {"last", "", f_last},
    {"items", "", f_items},
    {"sort", "reverse? case_sensitive? attribute?", f_sort},
    {"dictsort", "case_sensitive? by? reverse?", f_dictsort},
    {"reverse", "", f_reverse},
    {"unique", "case_sensitive? attribute?", f_unique},
    {"groupby", "attribute default? case_sensitive?", f_groupby},
    {"min", "case_sensitive? attribute?", f_min},
    {"max", "case_sensitive? attribute?", f_max},
    {"sum", "attribute? start?", f_sum},
    {"batch", "linecount fill_with?", f_batch},
    {"slice", "slices fill_with?", f_slice},
    {0},
};
