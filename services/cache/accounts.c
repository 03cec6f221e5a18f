/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the blocks and bytes of each tenant and each origin, in memory and in the index (see
 * accounts.h). */
#include "cache/accounts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"

/* When there are more origins than this, blocks of a new session count as blocks without a session.
 * Clients can invent any number of sessions, while models and tenants are few. */
#define ORIGINS_MAX 65536
#define PLAIN_MAX   (ORIGINS_MAX * 2)
#define TENANTS_MAX 65536

static void free_origin(struct origin *o)
{
    free(o->model);
    free(o->codec);
    free(o->session);
    free(o->key);
}

void accounts_done(struct accounts *a)
{
    for (uint32_t i = 0; i < a->n_origins; i++)
        free_origin(&a->origins[i]);
    for (uint32_t i = 0; i < a->n_tenants; i++)
        free(a->tenants[i].name);
    free(a->origins);
    free(a->tenants);
    map_done(&a->by_origin);
    map_done(&a->by_tenant);
    *a = (struct accounts){0};
}

static int add_tenant(struct accounts *a, uint32_t id, const char *name)
{
    int r;

    if (id == 0 || id > TENANTS_MAX)
        return -EUCLEAN;
    if (ARRAY_GROW_ZEROED(a->tenants, a->tenants_cap, id + 1u) < 0)
        return -ENOMEM;
    a->n_tenants = MAX(a->n_tenants, id + 1);
    if (a->tenants[id].name)
        return -EUCLEAN;
    a->tenants[id].name = strdup(name);
    if (!a->tenants[id].name)
        return -ENOMEM;
    r = map_put(&a->by_tenant, a->tenants[id].name, strlen(name), id);
    return r > 0 ? -EUCLEAN : r;
}

/* Joins all texts of an origin into a key for the map by_origin. Different origins always have
 * different keys. */
static char *key_of(uint32_t tenant, const char *model, const char *codec, const char *session)
{
    char *key = NULL;

    if (asprintf(&key, "%u/%zu,%zu%c%s%s%s", tenant, strlen(model), strlen(codec),
                 session ? '+' : '-', model, codec, session ? session : "") < 0)
        return NULL;
    return key;
}

static int add_origin(struct accounts *a, const struct catalog_origin *from, char *key)
{
    struct origin *o;
    int r = -EUCLEAN;

    if (from->id > 0 && from->id <= PLAIN_MAX)
        r = ARRAY_GROW_ZEROED(a->origins, a->origins_cap, from->id + 1u);
    if (r == 0)
        a->n_origins = MAX(a->n_origins, from->id + 1);
    if (r == 0 && a->origins[from->id].model)
        r = -EUCLEAN;
    if (r < 0) {
        free(key);
        return r;
    }
    o = &a->origins[from->id];
    o->key = key;
    o->tenant = from->tenant;
    o->model = strdup(from->model);
    o->codec = strdup(from->codec);
    o->session = from->session ? strdup(from->session) : NULL;
    o->blocks = from->blocks;
    o->bytes = from->bytes;
    o->at = from->at;
    r = -ENOMEM;
    if (o->key && o->model && o->codec && (!from->session || o->session))
        r = map_put(&a->by_origin, o->key, strlen(o->key), from->id);
    if (r != 0) {
        free_origin(o);
        *o = (struct origin){0};
    }
    return r > 0 ? -EUCLEAN : r;
}

static int load_tenant(void *data, uint32_t id, const char *name)
{
    return add_tenant(data, id, name);
}

static int load_origin(void *data, const struct catalog_origin *from)
{
    struct accounts *a = data;
    struct tenant *t;
    int r;

    if (from->tenant == 0 || from->tenant >= a->n_tenants || !a->tenants[from->tenant].name)
        return -EUCLEAN;
    /* An origin without blocks is not loaded. The row of such an origin is replaced when another
     * origin gets its number. */
    if (from->blocks == 0)
        return 0;
    r = add_origin(a, from, key_of(from->tenant, from->model, from->codec, from->session));
    if (r < 0)
        return r;
    t = &a->tenants[from->tenant];
    t->blocks += from->blocks;
    t->bytes += from->bytes;
    a->blocks += from->blocks;
    a->bytes += from->bytes;
    return 0;
}

int accounts_load(struct accounts *a, struct catalog *c)
{
    int r = catalog_load_tenants(c, load_tenant, a);

    return r < 0 ? r : catalog_load_origins(c, load_origin, a);
}

static int save_origin(const struct origin *o, uint32_t id, struct catalog *c)
{
    const struct catalog_origin to = {
        .id = id,
        .tenant = o->tenant,
        .model = o->model,
        .codec = o->codec,
        .session = o->session,
        .blocks = o->blocks,
        .bytes = o->bytes,
        .at = o->at,
    };

    return o->blocks ? catalog_save_origin(c, &to) : catalog_delete_origin(c, id);
}

int accounts_save(struct accounts *a, struct catalog *c)
{
    int r = 0;

    for (uint32_t i = 1; i < a->n_tenants && r == 0; i++)
        if (a->tenants[i].unsaved) {
            r = catalog_save_tenant(c, i, a->tenants[i].name);
            a->tenants[i].unsaved = false;
        }
    for (uint32_t i = 1; i < a->n_origins && r == 0; i++)
        if (a->origins[i].unsaved) {
            r = save_origin(&a->origins[i], i, c);
            a->origins[i].unsaved = false;
        }
    return r;
}

static uint32_t free_tenant(const struct accounts *a)
{
    uint32_t i = 1;

    while (i < a->n_tenants && a->tenants[i].name)
        i++;
    return i;
}

static uint32_t free_origin_id(const struct accounts *a)
{
    uint32_t i = 1;

    while (i < a->n_origins && a->origins[i].model)
        i++;
    return i;
}

uint32_t accounts_find_tenant(const struct accounts *a, const char *name)
{
    uint64_t id;

    return map_find(&a->by_tenant, name, strlen(name), &id) ? (uint32_t)id : 0;
}

static int tenant_id(struct accounts *a, const char *name, uint32_t *ret_id)
{
    uint32_t id = accounts_find_tenant(a, name);
    int r;

    if (id == 0) {
        id = free_tenant(a);
        if (id > TENANTS_MAX)
            return -EDQUOT;
        r = add_tenant(a, id, name);
        if (r < 0)
            return r;
        a->tenants[id].unsaved = true;
    }
    *ret_id = id;
    return 0;
}

int accounts_origin(struct accounts *a, const struct store_origin *origin, uint32_t *ret_id)
{
    struct catalog_origin new = {
        .model = origin->model ? origin->model : "",
        .codec = origin->codec ? origin->codec : "",
        .session = origin->session,
    };
    char *key;
    uint64_t id;
    int r = tenant_id(a, origin->tenant ? origin->tenant : "", &new.tenant);

    if (r < 0)
        return r;
    key = key_of(new.tenant, new.model, new.codec, new.session);
    if (!key)
        return -ENOMEM;
    if (map_find(&a->by_origin, key, strlen(key), &id)) {
        free(key);
        *ret_id = (uint32_t)id;
        return 0;
    }
    new.id = free_origin_id(a);
    if (new.id > ORIGINS_MAX &&new.session) {
        const struct store_origin plain = {origin->model, origin->codec, origin->tenant, NULL};

        free(key);
        return accounts_origin(a, &plain, ret_id);
    }
    if (new.id > PLAIN_MAX) {
        free(key);
        return -EDQUOT;
    }
    r = add_origin(a, &new, key);
    if (r == 0)
        *ret_id = new.id;
    return r;
}

bool accounts_has(const struct accounts *a, uint32_t origin)
{
    return origin > 0 && origin < a->n_origins && a->origins[origin].model;
}

static void account_change(uint64_t *blocks, uint64_t *bytes, uint64_t by, int sign)
{
    if (sign > 0) {
        ++*blocks;
        *bytes += by;
    } else {
        *blocks -= MIN(*blocks, 1);
        *bytes -= MIN(*bytes, by);
    }
}

void accounts_change(struct accounts *a, uint32_t origin, uint64_t bytes, int sign)
{
    struct origin *o;
    struct tenant *t;

    if (!accounts_has(a, origin))
        return;
    o = &a->origins[origin];
    t = &a->tenants[o->tenant];
    account_change(&o->blocks, &o->bytes, bytes, sign);
    account_change(&t->blocks, &t->bytes, bytes, sign);
    account_change(&a->blocks, &a->bytes, bytes, sign);
    o->unsaved = true;
}
