/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sound of a file in memory, as mono at 16 kHz: libavformat, libavcodec, libswresample
 *
 * The only code that names libav; it runs in the decoder's children (and in tests). Which
 * containers and codecs are read is a list here, whatever the libraries were built with; all of
 * them are the libraries' own code. It opens nothing and starts no thread.
 */

#include "audio/decoder-protocol.h"

struct decode_params {
    const uint8_t *data; /* [size] the file */
    size_t size;
    uint64_t max_samples;
    /* Takes up to DECODER_FRAME_SAMPLES; a result below 0 ends the decoding. */
    int (*samples)(void *user, const float *samples, size_t n);
    void *user;
};

/* What the libraries make once and for all, which children share then. */
void decode_prepare(void);
/* Fills *ret_end; or what samples() returned below 0. */
int decode_file(const struct decode_params *params, struct decoder_end *ret_end);
