/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the numbers of stored blocks and bytes, as sums over the origins that share a model, a
 * tenant or a session. */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>

/* Returns the entry of the list in which the blocks of an origin are counted. */
static struct store_entry entry_of(const struct store *s, const struct origin *o,
                                   enum store_kind kind)
{
    struct store_entry e = {0};

    if (kind == STORE_TENANTS || kind == STORE_SESSIONS)
        e.tenant = s->accounts.tenants[o->tenant].name;
    if (kind == STORE_MODELS || kind == STORE_SESSIONS) {
        e.model = o->model;
        e.codec = o->codec;
    }
    if (kind == STORE_SESSIONS)
        e.session = o->session;
    return e;
}

static bool is_listed(const struct origin *o, enum store_kind kind)
{
    return o->model && o->blocks > 0 && (kind != STORE_SESSIONS || o->session);
}

/* Compares texts, either of which may be NULL. NULL sorts first. */
static int compare_text(const char *a, const char *b)
{
    if (!a || !b)
        return !b - !a;
    return strcmp(a, b);
}

static int entry_compare(const void *pa, const void *pb)
{
    const struct store_entry *a = pa, *b = pb;
    int c = compare_text(a->tenant, b->tenant);

    if (c == 0)
        c = compare_text(a->model, b->model);
    if (c == 0)
        c = compare_text(a->codec, b->codec);
    return c ? c : compare_text(a->session, b->session);
}

/* Merges equal entries of a sorted list. Returns how many entries are left. */
static uint32_t entries_merge(struct store_entry *list, uint32_t n)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (m == 0 || entry_compare(&list[m - 1], &list[i]) != 0) {
            list[m++] = list[i];
            continue;
        }
        list[m - 1].blocks += list[i].blocks;
        list[m - 1].bytes += list[i].bytes;
        list[m - 1].age = MIN(list[m - 1].age, list[i].age);
    }
    return m;
}

int store_list(struct store *s, enum store_kind kind,
               int (*fn)(void *data, const struct store_entry *entry), void *data)
{
    const uint64_t now = store_now(s);
    _cleanup_free_ struct store_entry *list = NULL;
    uint32_t n = 0;
    int r = store_ready(s);

    if (r < 0)
        return r;
    list = NEW(struct store_entry, s->accounts.n_origins);
    if (!list)
        return -ENOMEM;
    for (uint32_t i = 1; i < s->accounts.n_origins; i++) {
        const struct origin *o = &s->accounts.origins[i];

        if (!is_listed(o, kind))
            continue;
        list[n] = entry_of(s, o, kind);
        list[n].blocks = o->blocks;
        list[n].bytes = o->bytes;
        list[n++].age = now - MIN(now, o->at);
    }
    qsort(list, n, sizeof(*list), entry_compare);
    n = entries_merge(list, n);
    for (uint32_t i = 0; i < n && r >= 0; i++)
        r = fn(data, &list[i]);
    return MIN(r, 0);
}
