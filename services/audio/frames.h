/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Parses the output of a decoder, which is untrusted.
 *
 * The caller writes bytes to where frames_room() points, and reports their number with
 * frames_add(); frames_next() returns complete frames. Samples must be numbers from -1 to 1 and
 * texts must be printable; otherwise the stream is invalid.
 */

#include "audio/decoder-protocol.h"

enum {
    FRAMES_NONE, /* more bytes are needed */
    FRAMES_SAMPLES,
    FRAMES_END, /* the last frame */
};

struct frames {
    size_t n, taken; /* bytes in the buffer; bytes of the frame that frames_next() returned last */
    bool ended;
    union {
        struct decoder_frame head;
        uint8_t bytes[sizeof(struct decoder_frame) + DECODER_FRAME_SAMPLES * sizeof(float)];
    } buffer;
};

/* Returns the place for the next bytes. *ret_size is the number of bytes that fit there; it is 0
 * only if frames_next() has a frame or an error to return. */
void *frames_room(struct frames *frames, size_t *ret_size);
void frames_add(struct frames *frames, size_t n);
/* FRAMES_SAMPLES: *ret_samples is valid until the next call. -EBADMSG: the stream is invalid. */
int frames_next(struct frames *frames, const float **ret_samples, size_t *ret_n,
                struct decoder_end *ret_end);
