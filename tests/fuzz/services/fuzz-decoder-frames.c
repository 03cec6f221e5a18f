/* SPDX-License-Identifier: Apache-2.0 */
/* Parses any bytes as the output of a compromised decoder, in pieces of many sizes. */
#include <stdlib.h>
#include <string.h>

#include "audio/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frames *frames = NEW(struct frames, 1);
    size_t step = 1 + size % 97, at = 0;

    while (frames && at < size) {
        struct decoder_end end;
        const float *samples;
        size_t room, n;
        void *to = frames_room(frames, &room);
        int r;

        room = MIN(MIN(room, step), size - at);
        memcpy(to, data + at, room);
        frames_add(frames, room);
        at += room;
        r = frames_next(frames, &samples, &n, &end);
        if (r < 0 || r == FRAMES_END)
            break;
        if (r == FRAMES_NONE && !room)
            abort(); /* the service would wait forever */
        for (size_t i = 0; r == FRAMES_SAMPLES && i < n; i++)
            if (!(samples[i] >= -1 && samples[i] <= 1))
                abort();
        step = step * 7 % 4099 + 1;
    }
    free(frames);
    return 0;
}
