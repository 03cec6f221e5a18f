/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Encodes and decodes heads of keys and values for check_kv_codes.py.
 *
 *     kv-codes                   prints "name kind bytes scalars" of each format for heads of 256
 *     kv-codes encode NAME N     reads heads of N floats; writes bytes and scalars of each
 *     kv-codes decode NAME N     reads bytes and scalars of heads; writes N floats of each
 *     kv-codes turn NAME N       reads heads of N floats; writes them as encoding turns them
 *
 * Scalars are floats. Decoded codes are not turned back, and have no residual.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/attn/attn.h"
#include "quant/code-rows.h"

#define MAX_BYTES 16384u

/* A head in all its forms. */
struct head {
    enum codec codec;
    uint32_t n, n_bytes, n_scalars;
    float x[CODE_HEAD_MAX], scalars[CODE_HEAD_MAX];
    uint8_t bytes[MAX_BYTES];
};

static int list(void)
{
    for (int c = 0; c < CODEC_N; c++)
        if (codec_info((enum codec)c)->kind >= CODEC_CODES)
            printf("%s %s %u %u\n", codec_info((enum codec)c)->name,
                   codec_info((enum codec)c)->kind == CODEC_ROWS ? "rows" : "codes",
                   codec_code_bytes((enum codec)c, 256), codec_scalars((enum codec)c, 256));
    return 0;
}

static bool get(void *to, size_t size, size_t n)
{
    return fread(to, size, n, stdin) == n;
}

static void put(const void *from, size_t size, size_t n)
{
    if (fwrite(from, size, n, stdout) != n)
        exit(2);
}

static void encode(struct head *h)
{
    if (codec_info(h->codec)->kind == CODEC_ROWS)
        code_rows_encode(h->codec, h->bytes, h->x, h->n);
    else
        attn_encode(&attn_ref, h->codec, h->bytes, h->scalars, h->x, h->n);
    put(h->bytes, 1, h->n_bytes);
    put(h->scalars, sizeof(float), h->n_scalars);
}

static void decode(struct head *h)
{
    if (codec_info(h->codec)->kind == CODEC_ROWS)
        code_rows_decode(h->codec, h->x, h->bytes, h->n);
    else
        code_decode(h->codec, h->x, h->bytes, h->scalars, h->n);
    put(h->x, sizeof(float), h->n);
}

static void turn(struct head *h)
{
    attn_turn(&attn_ref, h->codec, h->x, h->n);
    put(h->x, sizeof(float), h->n);
}

int main(int argc, char **argv)
{
    static struct head h;

    if (argc < 4)
        return list();
    h.n = (uint32_t)atoi(argv[3]);
    if (!codec_find(argv[2], strlen(argv[2]), &h.codec) || h.n == 0 || h.n > CODE_HEAD_MAX ||
        codec_info(h.codec)->kind < CODEC_CODES || h.n % codec_info(h.codec)->head_unit != 0) {
        fprintf(stderr, "kv-codes: no heads of %s in %s\n", argv[3], argv[2]);
        return 2;
    }
    h.n_bytes = codec_code_bytes(h.codec, h.n);
    h.n_scalars = codec_scalars(h.codec, h.n);
    if (strcmp(argv[1], "decode") == 0)
        while (get(h.bytes, 1, h.n_bytes) && get(h.scalars, sizeof(float), h.n_scalars))
            decode(&h);
    else
        while (get(h.x, sizeof(float), h.n))
            (strcmp(argv[1], "turn") == 0 ? turn : encode)(&h);
    return 0;
}
