/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who has how much: origins and tenants, in memory
 *
 * Each has a small number, by which rows name it, and which is its place in an array. What has no
 * blocks any more keeps its number until the accounts are loaded again.
 */

#include "cache/catalog.h"
#include "core/map.h"

struct tenant {
    char *name; /* NULL: this number is free */
    uint64_t blocks, bytes;
    uint64_t reserved; /* bytes of writes under way */
    bool unsaved;
};

struct origin {
    char *model, *codec, *session; /* model NULL: this number is free; session NULL: none */
    uint32_t tenant;
    uint64_t blocks, bytes, at;
    char *key; /* of the map */
    bool unsaved;
};

struct accounts {
    struct tenant *tenants; /* numbers are from 1; 0 is not used */
    struct origin *origins;
    uint32_t n_tenants, n_origins, tenants_cap, origins_cap;
    struct map by_origin, by_tenant;
    uint64_t blocks, bytes;
};

void accounts_done(struct accounts *a);
/* @a is empty before; after an error it is to be done with. */
int accounts_load(struct accounts *a, struct catalog *c);
/* Writes down what differs from the index, in the transaction that is open. */
int accounts_save(struct accounts *a, struct catalog *c);
/* The number of an origin, made if need be. Sessions beyond many are taken for none. -EDQUOT: so
 * many origins or tenants that there is no room for another. */
int accounts_origin(struct accounts *a, const struct store_origin *origin, uint32_t *ret_id);
/* The number of a tenant that is there, or 0. */
uint32_t accounts_find_tenant(const struct accounts *a, const char *name);
/* False: no such origin is there. */
bool accounts_has(const struct accounts *a, uint32_t origin);
/* One block of @bytes on disk more (@sign 1) or less (-1). */
void accounts_change(struct accounts *a, uint32_t origin, uint64_t bytes, int sign);
