/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces long ids of calls by short ones. */
#include "chat/short-ids.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define SHORT_ID 9

bool short_ids_needed(const char *source)
{
    return strstr(source, "alphanumeric strings with length 9");
}

static bool short_id_is(const char *id, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)id[i]))
            return false;
    return len == SHORT_ID;
}

/* Hashes @id (FNV-1a, 64 bits), and writes the hash as letters and digits. */
static void short_id_hash(const char *id, size_t len, char out[SHORT_ID])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    uint64_t h = 0xcbf29ce484222325;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)id[i]) * 0x100000001b3;
    for (size_t i = 0; i < SHORT_ID; i++) {
        out[i] = letters[h % (sizeof(letters) - 1)];
        h /= sizeof(letters) - 1;
    }
}

static int short_id_set(json_t **id)
{
    char text[SHORT_ID];
    json_t *replaced;

    if (!*id || short_id_is(json_string_value(*id), json_string_length(*id)))
        return 0;
    short_id_hash(json_string_value(*id), json_string_length(*id), text);
    replaced = json_stringn(text, SHORT_ID);
    if (!replaced)
        return -ENOMEM;
    json_decref(*id);
    *id = replaced;
    return 0;
}

int short_ids_set(struct conversation *c)
{
    int r = 0;

    for (size_t i = 0; i < c->n_messages && r == 0; i++) {
        struct message *m = &c->messages[i];

        r = short_id_set(&m->call_id);
        for (size_t k = 0; k < m->n_calls && r == 0; k++)
            r = short_id_set(&m->calls[k].id);
    }
    return r;
}
