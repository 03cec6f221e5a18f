/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the ids of calls of tools. */
#include "chat/reply/call-id.h"

#include <string.h>
#include <sys/random.h>

#include "core/clock.h"

#define CALL_ID_MAX_RANDOM 24

static void call_id_random(size_t n, char *out)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char bytes[CALL_ID_MAX_RANDOM];

    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes)) {
        const uint64_t now = clock_nsec();

        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, &now, sizeof(now));
    }
    for (size_t i = 0; i < n; i++)
        out[i] = letters[bytes[i] % (sizeof(letters) - 1)];
    out[n] = '\0';
}

void call_id_make(enum id_style style, const char *written, size_t len, char *ret_id)
{
    if (style == ID_KIMI && written && len < CALL_ID_SIZE) {
        memcpy(ret_id, written, len);
        ret_id[len] = '\0';
    } else if (style == ID_NINE) {
        call_id_random(9, ret_id);
    } else {
        memcpy(ret_id, "call_", 5);
        call_id_random(CALL_ID_MAX_RANDOM, ret_id + 5);
    }
}
