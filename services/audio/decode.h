/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decodes an audio file in memory to mono at 16 kHz, with libavformat, libavcodec and
 * libswresample.
 *
 * This is the only code that uses libav. It runs in the decoder's children (and in tests). Lists
 * here define which containers and codecs are supported, regardless of how the libraries were
 * built; all of them are implemented in the libraries themselves. The code opens no file and starts
 * no thread.
 */

#include "audio/decoder-protocol.h"

struct decode_params {
    const uint8_t *data; /* [size] contents of the file */
    size_t size;
    uint64_t max_samples;
    /* Takes up to DECODER_FRAME_SAMPLES; a negative result ends the decoding. */
    int (*samples)(void *user, const float *samples, size_t n);
    void *user;
};

/* Initializes the libraries once, before children are forked. */
void decode_prepare(void);
/* Returns 0 and fills *ret_end; or returns the negative result of samples(). */
int decode_file(const struct decode_params *params, struct decoder_end *ret_end);
