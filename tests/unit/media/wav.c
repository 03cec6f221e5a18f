/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/media/wav.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Moves @f to the samples; returns their size in bytes, or 0. */
static uint32_t find_data(FILE *f)
{
    unsigned char head[12], chunk[8];

    if (fread(head, sizeof(head), 1, f) != 1 || memcmp(head, "RIFF", 4) != 0)
        return 0;
    while (fread(chunk, sizeof(chunk), 1, f) == 1) {
        const uint32_t size = chunk[4] | (uint32_t)chunk[5] << 8 | (uint32_t)chunk[6] << 16 |
                              (uint32_t)chunk[7] << 24;

        if (memcmp(chunk, "data", 4) == 0)
            return size;
        if (fseek(f, size, SEEK_CUR) < 0)
            return 0;
    }
    return 0;
}

float *wav_read(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    const size_t n = f ? find_data(f) / 2 : 0;
    float *samples = n > 0 ? malloc(n * sizeof(*samples)) : NULL;

    *ret_n = n;
    for (size_t i = 0; samples && i < n; i++) {
        unsigned char b[2] = {0};

        *ret_n = fread(b, sizeof(b), 1, f) == 1 ? *ret_n : 0;
        samples[i] = (float)(int16_t)(b[0] | b[1] << 8) / 32768;
    }
    if (f)
        fclose(f);
    return samples;
}
