/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names of KV types (see kv-type.h). */
#include "common/config/kv-type.h"

#include <string.h>

static const char *const names[] = {"auto", "f32", "f16", "bf16", "q8_0", "q4_0", "q3_0", "fp8"};
/* The formats after which "+recent" may follow. */
static const char *const recent_names[] = {"q4_0", "q3_0"};

static bool is_name(const char *text, size_t len, bool recent)
{
    const char *const *all = recent ? recent_names : names;
    const size_t n = recent ? ARRAY_SIZE(recent_names) : ARRAY_SIZE(names);

    for (size_t i = 0; i < n; i++)
        if (strlen(all[i]) == len && memcmp(all[i], text, len) == 0)
            return true;
    return false;
}

bool kv_type_valid(const char *text)
{
    const char *colon = strchr(text, ':'), *v = colon ? colon + 1 : text, *plus = strchr(v, '+');
    const size_t len = plus ? (size_t)(plus - v) : strlen(v);

    if (plus && strcmp(plus, "+recent") != 0)
        return false;
    return is_name(v, len, plus) && (!colon || is_name(text, (size_t)(colon - text), plus));
}
