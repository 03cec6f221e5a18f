/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decodes an audio file in memory to mono samples at 16 kHz, with libavformat, libavcodec and
 * libswresample.
 *
 * This is the only code that uses these three libraries, called libav in comments. The code runs in
 * the decoder's children (and in tests). Lists in sniff.c and decode.c define which containers and
 * codecs are supported, regardless of how the libraries were built. libav itself implements
 * everything in these lists. The code opens no file and starts no thread.
 */

#include "audio/decoder-protocol.h"

struct decode_params {
    const uint8_t *data; /* [size] contents of the file */
    size_t size;
    uint64_t max_samples;
    /* Takes up to DECODER_FRAME_SAMPLES samples; a negative result ends the decoding. */
    int (*samples)(void *user, const float *samples, size_t n);
    void *user;
};

/* Initializes the libraries once, before children are forked. */
void decode_prepare(void);
/* Decodes a file. Returns 0 and fills *ret_end, or returns the negative result of samples(). */
int decode_file(const struct decode_params *params, struct decoder_end *ret_end);
