/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps lists of API keys (see access-key.h). */
#include "common/config/access-key.h"

#include <errno.h>
#include <string.h>

int key_list_add(struct key_list *list, const char *key, size_t key_len, const char *name,
                 size_t name_len, unsigned rights)
{
    struct access_key *fresh = realloc(list->keys, (list->n + 1) * sizeof(*fresh));

    if (!fresh)
        return -ENOMEM;
    list->keys = fresh;
    fresh[list->n] = (struct access_key){strndup(key, key_len), strndup(name, name_len), rights};
    if (!fresh[list->n].key || !fresh[list->n].name) {
        free(fresh[list->n].key);
        free(fresh[list->n].name);
        return -ENOMEM;
    }
    list->n++;
    return 0;
}

const struct access_key *key_list_find(const struct key_list *list, unsigned rights)
{
    for (size_t i = 0; i < list->n; i++)
        if ((list->keys[i].rights & rights) == rights)
            return &list->keys[i];
    return NULL;
}

void key_list_done(struct key_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        explicit_bzero(list->keys[i].key, strlen(list->keys[i].key));
        free(list->keys[i].key);
        free(list->keys[i].name);
    }
    free(list->keys);
    *list = (struct key_list){};
}
