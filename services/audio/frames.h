/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What comes out of a decoder's pipe, which may be anything
 *
 * Bytes are put in where frames_room() says; frames_next() finds whole frames in them. Samples are
 * finite numbers from -1 to 1, texts are clean, or the stream is broken for good.
 */

#include "audio/decoder-protocol.h"

enum {
    FRAMES_NONE, /* more bytes are needed */
    FRAMES_SAMPLES,
    FRAMES_END, /* nothing follows */
};

struct frames {
    size_t n, taken; /* bytes of the buffer, and those of the frame that was found last */
    bool ended;
    union {
        struct decoder_frame head;
        uint8_t bytes[sizeof(struct decoder_frame) + DECODER_FRAME_SAMPLES * sizeof(float)];
    } buffer;
};

/* Where the next bytes go; never without room, unless a frame waits to be taken. */
void *frames_room(struct frames *frames, size_t *ret_size);
void frames_add(struct frames *frames, size_t n);
/* FRAMES_SAMPLES: *ret_samples is good until the next call. -EBADMSG: the decoder is not what it
 * should be. */
int frames_next(struct frames *frames, const float **ret_samples, size_t *ret_n,
                struct decoder_end *ret_end);
