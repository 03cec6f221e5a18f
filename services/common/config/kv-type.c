/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names of KV types (see kv-type.h). */
#include "common/config/kv-type.h"

#include <string.h>

/* The longest name; the same limit as in the library. */
#define MAX_LEN 4095u

static const char *const names[] = {
    "auto",       "f32",        "f16",        "bf16",       "q8_0",       "q6_0",
    "q5_0",       "q4_0",       "q3_0",       "q2_0",       "fp8",        "affine4_32",
    "affine4_64", "affine3_32", "affine3_64", "affine2_32", "affine2_64", "turbo4",
    "turbo3",     "turbo2",     "turbo4_qjl", "turbo3_qjl", "turbo2_qjl", "planar4",
    "planar3",    "iso4",       "iso3",       "rotor4",     "rotor3"};
/* The formats after which "+recent" may follow. */
static const char *const recent_names[] = {
    "q6_0",       "q5_0",       "q4_0",       "q3_0",       "q2_0",   "affine4_32", "affine4_64",
    "affine3_32", "affine3_64", "affine2_32", "affine2_64", "turbo4", "turbo3",     "turbo2"};

static bool is_name(const char *text, size_t len, bool recent)
{
    const char *const *all = recent ? recent_names : names;
    const size_t n = recent ? ARRAY_SIZE(recent_names) : ARRAY_SIZE(names);

    for (size_t i = 0; i < n; i++)
        if (strlen(all[i]) == len && memcmp(all[i], text, len) == 0)
            return true;
    return false;
}

/* Returns whether the @len bytes at @text are a name, or two as K:V. */
static bool is_pair(const char *text, size_t len, bool recent)
{
    const char *colon = memchr(text, ':', len), *v = colon ? colon + 1 : text;

    return is_name(v, len - (size_t)(v - text), recent) &&
           (!colon || is_name(text, (size_t)(colon - text), recent));
}

/* Reads the number of a layer. Returns where it ends; NULL: there is none. */
static const char *after_number(const char *text)
{
    const size_t n = strspn(text, "0123456789");

    return n > 0 && n <= 4 ? text + n : NULL;
}

/* Returns whether @text is the types of some layers: "LAYERS=TYPE", or several with "/" between
 * them. */
static bool is_mixed(const char *text)
{
    for (;; text++) {
        const char *end = strncmp(text, "windows", 7) == 0 ? text + 7 : after_number(text);

        if (end && *text != 'w' && *end == '-')
            end = after_number(end + 1);
        if (!end || *end != '=')
            return false;
        text = end + 1;
        if (!is_pair(text, strcspn(text, "/"), false))
            return false;
        text += strcspn(text, "/");
        if (*text == '\0')
            return true;
    }
}

bool kv_type_valid(const char *text)
{
    const char *slash = strchr(text, '/');
    const size_t len = strcspn(text, "+/"), all = slash ? (size_t)(slash - text) : strlen(text);
    const bool recent = len < all;

    if (strlen(text) > MAX_LEN || (recent && (all - len != 7 || memcmp(text + len, "+recent", 7))))
        return false;
    return is_pair(text, len, recent) && (!slash || is_mixed(slash + 1));
}
