/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses the output of a decoder, which is untrusted.
 *
 * Bytes are written where frames_room() points; frames_next() returns complete frames. Samples must
 * be finite numbers from -1 to 1 and texts must be printable; otherwise the stream is invalid from
 * then on.
 */

#include "audio/decoder-protocol.h"

enum {
    FRAMES_NONE, /* more bytes are needed */
    FRAMES_SAMPLES,
    FRAMES_END, /* the last frame */
};

struct frames {
    size_t n, taken; /* bytes in the buffer, and bytes of the frame returned last */
    bool ended;
    union {
        struct decoder_frame head;
        uint8_t bytes[sizeof(struct decoder_frame) + DECODER_FRAME_SAMPLES * sizeof(float)];
    } buffer;
};

/* Returns where the next bytes go, and the room there, which is 0 only if a frame is waiting. */
void *frames_room(struct frames *frames, size_t *ret_size);
void frames_add(struct frames *frames, size_t n);
/* FRAMES_SAMPLES: *ret_samples is valid until the next call. -EBADMSG: the stream is invalid. */
int frames_next(struct frames *frames, const float **ret_samples, size_t *ret_n,
                struct decoder_end *ret_end);
