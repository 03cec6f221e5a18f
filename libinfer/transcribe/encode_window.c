/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three plans one behind the other. Rows for a convolution are laid out between them: three rows of
 * what comes before, the first and last of the signal with zeros beyond it.
 */
#include "transcribe/encode_window.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

enum {
    BLOCK_TOKENS = 256, /* of 1500: few steps of the softmax */
    TAPS = 3,
};

struct encode {
    struct backend *backend;
    const struct whisper_shape *shape;
    struct kv_store *store;
    struct plan *plans[WHISPER_N_PARTS];
    uint32_t *blocks;       /* [n_blocks], all of the store */
    uint32_t n_blocks;      /* that hold all rows of the first part */
    uint32_t *logit_rows;   /* [2 × n_ctx] */
    int32_t *tokens;        /* the same, all 0 */
    float *rows;            /* input of a convolution */
    float *values;          /* output of one: [2 × n_ctx, n_embd] */
    enum whisper_part part; /* that comes next */
    uint32_t i_stage;       /* of it */
};

/* @fast: see encode_new(). */
static int make_store(struct encode *enc, bool fast)
{
    const struct backend_ops *ops = enc->backend->ops;
    const enum codec codec = fast && ops->many_codec ? ops->many_codec(enc->backend) : CODEC_F32;
    const struct whisper_shape *s = enc->shape;
    const struct kv_layout layout = {
        .n_layers = 1,
        .n_kv_heads = s->n_heads,
        .head_dim = s->n_embd / s->n_heads,
        .block_tokens = BLOCK_TOKENS,
        .k = codec,
        .v = codec,
    };

    enc->n_blocks = DIV_UP(2 * s->n_ctx, BLOCK_TOKENS);
    return enc->backend->ops->kv_new(enc->backend, &layout, enc->n_blocks, &enc->store);
}

static int make_arrays(struct encode *enc)
{
    const struct whisper_shape *s = enc->shape;
    const size_t n_rows = 2 * (size_t)s->n_ctx;
    const size_t first = n_rows * TAPS * s->n_mels, second = s->n_ctx * (size_t)TAPS * s->n_embd;

    enc->blocks = NEW(uint32_t, enc->n_blocks);
    enc->logit_rows = NEW(uint32_t, n_rows);
    enc->tokens = NEW(int32_t, n_rows);
    enc->rows = NEW(float, MAX(first, second));
    enc->values = NEW(float, n_rows * s->n_embd);
    if (!enc->blocks || !enc->logit_rows || !enc->tokens || !enc->rows || !enc->values)
        return -ENOMEM;
    for (uint32_t i = 0; i < enc->n_blocks; i++)
        enc->blocks[i] = i;
    for (uint32_t i = 0; i < n_rows; i++)
        enc->logit_rows[i] = i;
    return 0;
}

static uint32_t rows_of(const struct encode *enc, enum whisper_part part)
{
    return part == WHISPER_CONV1 ? 2 * enc->shape->n_ctx : enc->shape->n_ctx;
}

static int compile(struct encode *enc, const struct whisper_encoder *encoder,
                   enum whisper_part part, struct reformat *weights, struct inf_err *reterr)
{
    const uint32_t n = rows_of(enc, part);
    const struct plan_limits limits = {
        .max_rows = n, .max_logits = n, .max_seqs = 1, .max_ctx = n, .many_rows = true};
    _cleanup_(graph_freep) struct graph *g = NULL, *copy = NULL;
    int r;

    r = whisper_encoder_graph(encoder, part, &g, reterr);
    if (r == 0 && weights)
        r = reformat_graph(enc->backend, g, weights, &copy, reterr);
    if (r < 0)
        return r;
    return enc->backend->ops->compile(enc->backend, copy ? copy : g, &limits, enc->store,
                                      &enc->plans[part], reterr);
}

int encode_new(struct backend *backend, const struct whisper_encoder *encoder,
               struct reformat *weights, struct encode **ret_encode, struct inf_err *reterr)
{
    _cleanup_(encode_freep) struct encode *enc = NEW(struct encode, 1);
    int r = 0;

    if (!enc)
        return err_set(reterr, ENOMEM, "out of memory");
    enc->backend = backend;
    enc->shape = whisper_encoder_shape(encoder);
    if (make_store(enc, weights && whisper_encoder_dtype(encoder) != INF_DTYPE_F32) < 0 ||
        make_arrays(enc) < 0)
        return err_set(reterr, ENOMEM, "no memory for windows of %u rows", enc->shape->n_ctx);
    for (enum whisper_part part = 0; r == 0 && part < WHISPER_N_PARTS; part++)
        r = compile(enc, encoder, part, weights, reterr);
    if (r < 0)
        return r;
    *ret_encode = STEAL(enc);
    return 0;
}

struct encode *encode_free(struct encode *enc)
{
    if (!enc)
        return NULL;
    for (int i = 0; i < WHISPER_N_PARTS; i++)
        if (enc->plans[i])
            enc->backend->ops->plan_free(enc->backend, enc->plans[i]);
    if (enc->store)
        enc->backend->ops->kv_free(enc->backend, enc->store);
    free(enc->blocks);
    free(enc->logit_rows);
    free(enc->tokens);
    free(enc->rows);
    free(enc->values);
    free(enc);
    return NULL;
}

/* Row i of the result: rows step × i - 1 … step × i + 1 of @x, [n_in, width]. */
static void lay_out(const float *x, uint32_t n_in, uint32_t width, uint32_t step, float *rows)
{
    for (uint32_t i = 0; i * step < n_in; i++)
        for (uint32_t k = 0; k < TAPS; k++, rows += width) {
            const uint32_t at = i * step + k;

            if (at == 0 || at > n_in)
                memset(rows, 0, width * sizeof(*rows));
            else
                memcpy(rows, x + (size_t)(at - 1) * width, width * sizeof(*rows));
        }
}

/* One part, or a piece of it: @enc->i_stage is then where to go on. */
static int run_part(struct encode *enc, enum whisper_part part, const float *input, float *out)
{
    const struct backend_ops *ops = enc->backend->ops;
    const uint32_t n = rows_of(enc, part);
    const struct batch_seq seq = {
        .n_rows = n, .n_blocks = DIV_UP(n, BLOCK_TOKENS), .blocks = enc->blocks};
    const struct batch batch = {
        .n_rows = n,
        .tokens = enc->tokens,
        .n_seqs = 1,
        .seqs = &seq,
        .n_logits = n,
        .logit_rows = enc->logit_rows,
        .input = input,
    };

    if (!ops->run_part)
        return ops->run(enc->backend, enc->plans[part], enc->store, &batch, out, NULL);
    return ops->run_part(enc->backend, enc->plans[part], enc->store, &batch, out, &enc->i_stage);
}

void encode_begin(struct encode *enc, const float *mel)
{
    lay_out(mel, 2 * enc->shape->n_ctx, enc->shape->n_mels, 1, enc->rows);
    enc->part = WHISPER_CONV1;
    enc->i_stage = 0;
}

int encode_go_on(struct encode *enc, float *out)
{
    const struct whisper_shape *s = enc->shape;
    const bool last = enc->part == WHISPER_BLOCKS;
    int r;

    assert(enc->part < WHISPER_N_PARTS);
    r = run_part(enc, enc->part, last ? enc->values : enc->rows, last ? out : enc->values);
    if (r < 0 || enc->i_stage > 0)
        return r;
    if (enc->part++ == WHISPER_CONV1)
        lay_out(enc->values, 2 * s->n_ctx, s->n_embd, 2, enc->rows);
    return last ? ENCODE_DONE : 0;
}

int encode_run(struct encode *enc, const float *mel, float *out)
{
    int r = 0;

    encode_begin(enc, mel);
    while (r == 0)
        r = encode_go_on(enc, out);
    return r < 0 ? r : 0;
}
