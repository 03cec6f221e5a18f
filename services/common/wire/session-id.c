/* SPDX-License-Identifier: Apache-2.0 */
/* Checks session ids (see session-id.h). */
#include "common/wire/session-id.h"

#include <string.h>

bool session_id_is_plain(const char *id, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        const char c = id[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr("-_.:", c))))
            return false;
    }
    return len > 0 && len < SESSION_ID_SIZE;
}
