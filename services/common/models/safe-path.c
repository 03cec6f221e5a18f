/* SPDX-License-Identifier: Apache-2.0 */
/* Checks names before they become paths (see safe-path.h). */
#include "common/models/safe-path.h"

#include <limits.h>
#include <string.h>

#include "core/sha256.h"
#include "core/utf8.h"

enum {
    SAFE_PATH_MAX = 1023,
};

static bool part_is_safe(const char *part, size_t len)
{
    return len > 0 && len <= NAME_MAX && !(len == 1 && part[0] == '.') &&
           !(len == 2 && part[0] == '.' && part[1] == '.');
}

bool path_is_safe(const char *path)
{
    const size_t len = strlen(path);

    if (len > SAFE_PATH_MAX || !utf8_valid(path, len))
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)path[i] < 0x20 || path[i] == 0x7f)
            return false;
    for (const char *part = path;; part++) {
        const size_t n = strcspn(part, "/");

        if (!part_is_safe(part, n))
            return false;
        part += n;
        if (!*part)
            return true;
    }
}

bool model_name_is_safe(const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t len = strlen(name);

    return path_is_safe(name) && name[0] != '.' && name[0] != ' ' && name[len - 1] != ' ' &&
           (!slash || (slash[1] != '.' && !strchr(slash + 1, '/')));
}

bool sha256_is_text(const char *text)
{
    return strspn(text, "0123456789abcdef") == (size_t)2 * SHA256_BYTES &&
           text[(size_t)2 * SHA256_BYTES] == 0;
}
