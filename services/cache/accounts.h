/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Accounts: how many blocks and bytes each origin and tenant has, in memory
 *
 * Each origin and tenant has a small number, which rows use and which is its index in an array. One
 * that has no blocks any more keeps its number until the accounts are loaded again.
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
    char *key; /* its key in by_origin */
    bool unsaved;
};

struct accounts {
    struct tenant *tenants; /* numbers start at 1; 0 is not used */
    struct origin *origins;
    uint32_t n_tenants, n_origins, tenants_cap, origins_cap;
    struct map by_origin, by_tenant;
    uint64_t blocks, bytes;
};

void accounts_done(struct accounts *a);
/* @a must be empty. After an error, call accounts_done(). */
int accounts_load(struct accounts *a, struct catalog *c);
/* Writes what differs from the index to it, in the open transaction. */
int accounts_save(struct accounts *a, struct catalog *c);
/* Returns the number of an origin, which is added if necessary. When a tenant has too many
 * sessions, new ones count as no session. -EDQUOT: too many origins or tenants. */
int accounts_origin(struct accounts *a, const struct store_origin *origin, uint32_t *ret_id);
/* Returns the number of the tenant @name; 0: there is none. */
uint32_t accounts_find_tenant(const struct accounts *a, const char *name);
/* False: there is no such origin. */
bool accounts_has(const struct accounts *a, uint32_t origin);
/* Adds (@sign 1) or subtracts (-1) one block of @bytes on disk. */
void accounts_change(struct accounts *a, uint32_t origin, uint64_t bytes, int sign);
