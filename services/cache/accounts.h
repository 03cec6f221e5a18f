/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts in memory how many blocks and bytes each origin and tenant has.
 *
 * An origin is a tenant, a model, a codec (a format of blocks) and a session; struct store_origin
 * explains them. Each origin and each tenant has a small number, which stands for it in rows of the
 * index, and is its position in an array. An origin that has no blocks any more keeps its number
 * until the accounts are loaded again. A tenant without origins keeps its number until the service
 * starts again.
 */

#include "cache/catalog.h"
#include "core/map.h"

struct tenant {
    char *name; /* NULL: this number is free */
    uint64_t blocks, bytes;
    uint64_t reserved; /* bytes reserved for writes under way */
    bool unsaved;
};

struct origin {
    char *model, *codec, *session; /* model NULL: this number is free; session NULL: none */
    uint32_t tenant;
    uint64_t blocks, bytes, at;
    char *key; /* the origin's key in the map by_origin */
    bool unsaved;
};

struct accounts {
    struct tenant *tenants; /* the index is the number of the tenant, from 1; element 0 is not
                               used */
    struct origin *origins;
    uint32_t n_tenants, n_origins, tenants_cap, origins_cap;
    struct map by_origin, by_tenant;
    uint64_t blocks, bytes;
};

void accounts_done(struct accounts *a);
/* Loads the accounts from the index. @a must be empty. After an error the caller calls
 * accounts_done(). */
int accounts_load(struct accounts *a, struct catalog *c);
/* Writes the accounts that differ from the index to the index, in the open transaction. */
int accounts_save(struct accounts *a, struct catalog *c);
/* Sets *ret_id to the number of an origin, and adds the origin if necessary. When there are too
 * many origins, a new session is counted as if the session were NULL. -EDQUOT: too many origins
 * even without sessions, or too many tenants. */
int accounts_origin(struct accounts *a, const struct store_origin *origin, uint32_t *ret_id);
/* Returns the number of the tenant @name; 0: there is none. */
uint32_t accounts_find_tenant(const struct accounts *a, const char *name);
/* Returns whether there is an origin with the number @origin. */
bool accounts_has(const struct accounts *a, uint32_t origin);
/* Adds (@sign 1) or subtracts (@sign -1) one block that takes @bytes on disk. */
void accounts_change(struct accounts *a, uint32_t origin, uint64_t bytes, int sign);
