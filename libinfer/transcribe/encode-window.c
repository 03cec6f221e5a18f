/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs Whisper's encoder.
 *
 * The encoder consists of three plans (graphs that were compiled for the device), which run one
 * after another: the first convolution and the second convolution for each window, and then the
 * layers for all windows together. Before each convolution its input is arranged: each arranged row
 * consists of three consecutive rows of the input, with zeros beyond the ends of the signal.
 */
#include "transcribe/encode-window.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

enum {
    BLOCK_TOKENS = 256, /* a window has 1500 rows; the softmax takes one step per block, so large
                           blocks mean few steps */
    TAPS = 3,
};

struct encode {
    struct backend *backend;
    const struct whisper_shape *shape;
    struct kv_store *store;
    struct plan *plans[WHISPER_N_PARTS];
    uint32_t max_windows;
    uint32_t *blocks;       /* [n_blocks], all blocks of the store */
    uint32_t n_blocks;      /* enough for the rows of all windows, and for those of one window in
                               the first part */
    uint32_t max_rows;      /* limit of rows of a part */
    uint32_t *logit_rows;   /* [max_rows] */
    int32_t *tokens;        /* [max_rows], all 0 */
    struct batch_seq *seqs; /* [max_windows], one per window */
    float *rows;            /* input of a convolution */
    float *values;          /* output of the first convolution: [2 × n_ctx, n_embd] */
    float *hidden;          /* output of the second: [max_windows, n_ctx, n_embd] */
    /* State of a run. */
    const float *mel;
    uint32_t n_windows, i_window; /* i_window: the window in the convolutions */
    enum whisper_part part;       /* next part to run */
    uint32_t i_stage;             /* next stage within the part */
    bool many;                    /* several windows were computed since the last encode_rest() */
};

static size_t window_size(const struct whisper_shape *s)
{
    return s->n_ctx * (size_t)s->n_embd;
}

static uint32_t blocks_of(uint32_t n_rows)
{
    return DIV_UP(n_rows, BLOCK_TOKENS);
}

/* Makes the KV store. @fast: keys and values are stored in the backend's fastest format, otherwise
 * as F32. */
static int make_store(struct encode *enc, bool fast)
{
    const struct backend_ops *ops = enc->backend->ops;
    const enum codec codec = fast && ops->many_codec ? ops->many_codec(enc->backend) : CODEC_F32;
    const struct whisper_shape *s = enc->shape;
    struct kv_layout layout;

    enc->n_blocks = MAX(blocks_of(2 * s->n_ctx), enc->max_windows * blocks_of(s->n_ctx));
    layout =
        kv_layout_full(1, s->n_heads, s->n_embd / s->n_heads, BLOCK_TOKENS, codec, enc->n_blocks);
    return enc->backend->ops->kv_new(enc->backend, &layout, &enc->store);
}

static int make_arrays(struct encode *enc)
{
    const struct whisper_shape *s = enc->shape;
    const size_t first = 2 * (size_t)s->n_ctx * TAPS * s->n_mels, second = TAPS * window_size(s);

    enc->max_rows = MAX(2, enc->max_windows) * s->n_ctx;
    enc->blocks = NEW(uint32_t, enc->n_blocks);
    enc->logit_rows = NEW(uint32_t, enc->max_rows);
    enc->tokens = NEW(int32_t, enc->max_rows);
    enc->seqs = NEW(struct batch_seq, enc->max_windows);
    enc->rows = NEW(float, MAX(first, second));
    enc->values = NEW(float, 2 * window_size(s));
    enc->hidden = NEW(float, enc->max_windows *window_size(s));
    if (!enc->blocks || !enc->logit_rows || !enc->tokens || !enc->seqs || !enc->rows ||
        !enc->values || !enc->hidden)
        return -ENOMEM;
    for (uint32_t i = 0; i < enc->n_blocks; i++)
        enc->blocks[i] = i;
    for (uint32_t i = 0; i < enc->max_rows; i++)
        enc->logit_rows[i] = i;
    for (uint32_t i = 0; i < enc->max_windows; i++)
        enc->seqs[i] = (struct batch_seq){
            .i_row = i * s->n_ctx,
            .n_rows = s->n_ctx,
            .n_blocks = blocks_of(s->n_ctx),
            .blocks = {enc->blocks + i * blocks_of(s->n_ctx)},
        };
    return 0;
}

/* Returns the number of rows per window. */
static uint32_t rows_of(const struct encode *enc, enum whisper_part part)
{
    return part == WHISPER_CONV1 ? 2 * enc->shape->n_ctx : enc->shape->n_ctx;
}

static int compile_part(struct encode *enc, const struct whisper_encoder *encoder,
                        enum whisper_part part, struct reformat *weights, struct inf_err *reterr)
{
    const uint32_t n_seqs = part == WHISPER_BLOCKS ? enc->max_windows : 1;
    const uint32_t n_ctx = rows_of(enc, part), n = n_seqs * n_ctx;
    const struct plan_limits limits = {
        .max_rows = n, .max_logits = n, .max_seqs = n_seqs, .max_ctx = n_ctx, .many_rows = true};
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
               struct reformat *weights, uint32_t max_windows, struct encode **ret_encode,
               struct inf_err *reterr)
{
    _cleanup_(encode_freep) struct encode *enc = NEW(struct encode, 1);
    int r = 0;

    if (!enc)
        return err_set(reterr, ENOMEM, "out of memory");
    enc->backend = backend;
    enc->shape = whisper_encoder_shape(encoder);
    enc->max_windows = max_windows;
    if (make_store(enc, weights && whisper_encoder_dtype(encoder) != INF_DTYPE_F32) < 0 ||
        make_arrays(enc) < 0)
        return err_set(reterr, ENOMEM, "no memory for windows of %u rows", enc->shape->n_ctx);
    for (enum whisper_part part = 0; r == 0 && part < WHISPER_N_PARTS; part++)
        r = compile_part(enc, encoder, part, weights, reterr);
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
    free(enc->seqs);
    free(enc->rows);
    free(enc->values);
    free(enc->hidden);
    free(enc);
    return NULL;
}

/* Arranges the input of a convolution, @x [n_in, width]. Row i of @rows consists of the rows step ×
 * i - 1 … step × i + 1 of @x. */
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

/* Runs one part, or a piece of it. After the call @enc->i_stage is the stage to continue with, or 0
 * at the end of the part. */
static int run_part(struct encode *enc, const float *input, float *out)
{
    const struct backend_ops *ops = enc->backend->ops;
    const uint32_t n = rows_of(enc, enc->part);
    const bool all = enc->part == WHISPER_BLOCKS;
    const struct batch_seq one = {.n_rows = n, .n_blocks = blocks_of(n), .blocks = {enc->blocks}};
    const struct batch batch = {
        .n_rows = all ? n * enc->n_windows : n,
        .tokens = enc->tokens,
        .n_seqs = all ? enc->n_windows : 1,
        .seqs = all ? enc->seqs : &one,
        .n_logits = all ? n * enc->n_windows : n,
        .logit_rows = enc->logit_rows,
        .input = input,
    };
    struct plan *plan = enc->plans[enc->part];

    if (!ops->run_part)
        return ops->run(enc->backend, plan, enc->store, &batch, out, NULL);
    return ops->run_part(enc->backend, plan, enc->store, &batch, out, &enc->i_stage);
}

static void begin_window(struct encode *enc)
{
    const struct whisper_shape *s = enc->shape;
    const size_t n = 2 * (size_t)s->n_ctx * s->n_mels;

    lay_out(enc->mel + enc->i_window * n, 2 * s->n_ctx, s->n_mels, 1, enc->rows);
    enc->part = WHISPER_CONV1;
}

void encode_begin(struct encode *enc, const float *mel, uint32_t n)
{
    assert(n > 0 && n <= enc->max_windows);
    enc->mel = mel;
    enc->n_windows = n;
    enc->i_window = 0;
    enc->i_stage = 0;
    enc->many |= n > 1;
    begin_window(enc);
}

int encode_go_on(struct encode *enc, float *out)
{
    const struct whisper_shape *s = enc->shape;
    int r;

    switch (enc->part) {
    case WHISPER_CONV1:
        r = run_part(enc, enc->rows, enc->values);
        if (r < 0 || enc->i_stage > 0)
            return r;
        lay_out(enc->values, 2 * s->n_ctx, s->n_embd, 2, enc->rows);
        enc->part = WHISPER_CONV2;
        return 0;
    case WHISPER_CONV2:
        r = run_part(enc, enc->rows, enc->hidden + enc->i_window * window_size(s));
        if (r < 0 || enc->i_stage > 0)
            return r;
        if (++enc->i_window < enc->n_windows)
            begin_window(enc);
        else
            enc->part = WHISPER_BLOCKS;
        return 0;
    case WHISPER_BLOCKS:
        r = run_part(enc, enc->hidden, out);
        return r < 0 || enc->i_stage > 0 ? r : ENCODE_DONE;
    default:
        assert(false);
        return -EINVAL;
    }
}

int encode_run(struct encode *enc, const float *mel, uint32_t n, float *out)
{
    int r = 0;

    encode_begin(enc, mel, n);
    while (r == 0)
        r = encode_go_on(enc, out);
    return r < 0 ? r : 0;
}

void encode_rest(struct encode *enc)
{
    const struct backend_ops *ops = enc->backend->ops;

    if (!enc->many)
        return;
    enc->many = false;
    ops->plan_rest(enc->backend, enc->plans[WHISPER_BLOCKS]);
    ops->kv_drop(enc->backend, enc->store, 0, enc->n_blocks);
}
