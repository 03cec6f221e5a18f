/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names of KV types (see kv-type.h). */
#include "common/config/kv-type.h"

#include <string.h>

static const char *const names[] = {
    "auto",       "f32",     "f16",        "bf16",       "q8_0",       "q4_0",       "q3_0",
    "q2_0",       "fp8",     "affine4_32", "affine4_64", "affine3_32", "affine3_64", "affine2_32",
    "affine2_64", "turbo4",  "turbo3",     "turbo2",     "turbo4_qjl", "turbo3_qjl", "turbo2_qjl",
    "planar4",    "planar3", "iso4",       "iso3",       "rotor4",     "rotor3"};
/* The formats after which "+recent" may follow. */
static const char *const recent_names[] = {"q4_0",       "q3_0",       "q2_0",       "affine4_32",
                                           "affine4_64", "affine3_32", "affine3_64", "affine2_32",
                                           "affine2_64", "turbo4",     "turbo3",     "turbo2"};

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
