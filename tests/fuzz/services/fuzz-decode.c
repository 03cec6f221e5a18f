/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes any bytes as a sound file, as the decoder's children do. The target is the code of this
 * tree: libav is a system library, and a crash in it ends only its child process.
 */
#include <math.h>
#include <stdlib.h>

#include "audio/decode.h"
#include "audio/sniff.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_samples(void *user, const float *samples, size_t n)
{
    uint64_t *all = user;

    if (n == 0 || n > DECODER_FRAME_SAMPLES)
        abort();
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(samples[i]) <= 1))
            abort();
    *all += n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t n = 0;
    struct decode_params params = {
        .data = data, .size = size, .max_samples = 100000, .samples = on_samples, .user = &n};
    struct decoder_end end;

    decode_prepare();
    if (decode_file(&params, &end) != 0 || end.result >= DECODER_N_RESULTS ||
        n > params.max_samples || (end.result == DECODER_OK && n == 0) ||
        (end.result == DECODER_UNKNOWN) != (sniff_container(data, size) == NULL))
        abort();
    return 0;
}
