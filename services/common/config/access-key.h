/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keeps lists of API keys in memory. The keys come from key files and from the configuration. */

#include <infer/types.h>

#include "common/config/rights.h"

struct access_key {
    char *key;
    char *name;      /* "": the key has no name */
    unsigned rights; /* bits of enum right */
};

/* A zeroed list is empty. */
struct key_list {
    struct access_key *keys; /* [n] */
    size_t n;
};

/* Appends a copy of @key and @name. -ENOMEM. */
int key_list_add(struct key_list *list, const char *key, size_t key_len, const char *name,
                 size_t name_len, unsigned rights);
/* Returns the first key that has all of @rights; NULL: there is none. */
const struct access_key *key_list_find(const struct key_list *list, unsigned rights);
/* Clears the memory of all keys, then frees it. */
void key_list_done(struct key_list *list);
