/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the tensors of an entry of a new directory: encodes numbers, keeps codes, or copies bytes.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "convert/dir.h"
#include "core/err.h"
#include "core/half.h"
#include "quant/affine.h"
#include "quant/dtype.h"

/* E4M3 has 3 bits of fraction, so half a step is at most 1/16 of a number. */
#define E4M3_LIMIT 0.0625

static void entry_read(const void *data, uint64_t row, float *x)
{
    const struct dir_entry *e = data;
    const struct weight w = weight_of_expert(&e->w, (uint32_t)(row / e->w.rows));
    uint32_t i = (uint32_t)(row % e->w.rows);

    if (e->rows)
        i = e->rows[i];
    if (e->n_first > 0 && i >= e->n_first)
        weight_decode_row(&e->more, i - e->n_first, x);
    else
        weight_decode_row(&w, e->paired > 0 ? dir_paired_row(i, e->paired) : i, x);
    /* Column k changes places with a later column. */
    for (uint32_t k = 0; e->columns && k < e->w.cols; k++) {
        const float moved = x[e->columns[k]];

        x[e->columns[k]] = x[k];
        x[k] = moved;
    }
}

/* ---- formats of MLX ---- */

/* Copies a row of the same format. */
static void row_copy(const struct dir_entry *e, uint64_t row, const struct plane_out *out)
{
    const struct weight w = weight_of_expert(&e->w, (uint32_t)(row / e->w.rows));
    const struct plane_row from = weight_plane_row(&w, (uint32_t)(row % e->w.rows));

    memcpy(out->codes, from.codes, weight_row_bytes(&w));
    memcpy(out->scales, from.planes[WEIGHT_SCALES], weight_plane_bytes(&w, WEIGHT_SCALES));
    if (out->offsets)
        memcpy(out->offsets, from.planes[WEIGHT_ZEROS], weight_plane_bytes(&w, WEIGHT_ZEROS));
}

/* Writes the integers of a row whose matrix has another layout in the model. */
static void row_repack(const struct dir_entry *e, uint64_t row, const struct plane_out *out)
{
    uint8_t q[64];
    const unsigned bits = e->repack.bits;

    for (uint32_t g = 0; g < e->w.cols / out->group; g++) {
        const struct repack_group x =
            repack_group(&e->repack, row, g * out->group / e->repack.group);

        plane_put(out->type, out->scales, g, x.scale);
        plane_put(out->type, out->offsets, g, x.offset);
    }
    for (uint32_t k = 0; k < e->w.cols; k += 32) {
        repack_codes(&e->repack, row, k, 32, q);
        affine_pack(q, 32, bits, out->codes + (uint64_t)k * bits / 8);
    }
}

static enum plane_type given_type(const struct dir_entry *e)
{
    return e->w.dtype == INF_DTYPE_F16    ? PLANE_F16
           : e->w.dtype == INF_DTYPE_BF16 ? PLANE_BF16
                                          : PLANE_F32;
}

static uint64_t mlx_code_bytes(const struct dir_entry *e)
{
    return (uint64_t)e->w.cols * dtype_info(e->to.dtype)->planes->bits / 8;
}

static uint64_t mlx_plane_bytes(const struct dir_entry *e)
{
    return (uint64_t)e->w.cols / e->to.group * plane_bytes(e->type);
}

static void mlx_encode(const void *data, uint64_t row, uint64_t n_rows, const float *x,
                       uint8_t *const out[ENCODE_PLANES])
{
    const struct dir_entry *e = data;
    const bool affine = dtype_affine(e->to.dtype);

    for (uint64_t i = 0; i < n_rows; i++) {
        const struct plane_out to = {
            .codes = out[0] + i * mlx_code_bytes(e),
            .scales = out[1] + i * mlx_plane_bytes(e),
            .offsets = affine ? out[2] + i * mlx_plane_bytes(e) : NULL,
            .group = e->to.group,
            .type = e->type,
            .given = given_type(e),
        };

        if (e->kept && !e->w.coded)
            row_copy(e, row + i, &to);
        else if (e->kept)
            row_repack(e, row + i, &to);
        else
            mlx_encode_row(e->to.dtype, x + i * e->w.cols, e->w.cols, &to);
    }
}

static void mlx_decode(const void *data, uint64_t n_rows, uint8_t *const out[ENCODE_PLANES],
                       float *y)
{
    const struct dir_entry *e = data;
    const struct planes_info *info = dtype_info(e->to.dtype)->planes;

    for (uint64_t i = 0; i < n_rows; i++) {
        const struct plane_row row = {
            .codes = out[0] + i * mlx_code_bytes(e),
            .planes = {out[1] + i * mlx_plane_bytes(e),
                       info->affine ? out[2] + i * mlx_plane_bytes(e) : NULL},
            .type = e->type,
            .group = e->to.group,
        };

        info->decode(&row, y + i * e->w.cols, e->w.cols);
    }
}

static double mlx_limit(const struct dir_entry *e)
{
    if (e->kept)
        return 0;
    return e->to.dtype == INF_DTYPE_MXFP8 ? E4M3_LIMIT
                                          : encode_limit(dtype_info(e->to.dtype)->planes->bits);
}

/* ---- floats ---- */

static void floats_read(const void *data, uint64_t row, float *x)
{
    const struct dir_entry *e = data;
    const struct format_tensor *t = e->raw;

    if (!t) {
        entry_read(data, row, x);
        return;
    }
    dtype_info(t->dtype)->decode(t->data, x, t->dims[0]);
    for (uint64_t i = 0; i < t->dims[0]; i++)
        x[i] += 1;
}

static uint64_t floats_cols(const struct dir_entry *e)
{
    return e->raw ? e->raw->dims[0] : e->w.cols;
}

static void floats_encode(const void *data, uint64_t row UNUSED, uint64_t n_rows, const float *x,
                          uint8_t *const out[ENCODE_PLANES])
{
    const struct dir_entry *e = data;

    dtype_info(e->floats)->encode(x, out[0], n_rows * floats_cols(e));
}

static void floats_decode(const void *data, uint64_t n_rows, uint8_t *const out[ENCODE_PLANES],
                          float *y)
{
    const struct dir_entry *e = data;

    dtype_info(e->floats)->decode(out[0], y, n_rows * floats_cols(e));
}

/* ---- words of GPTQ and AWQ ---- */

/* Adds @x to @bits bits of a stream, beginning with bit @bit. The words of the stream are @step
 * words apart. */
static void words_put(uint32_t *words, uint64_t step, uint64_t bit, unsigned bits, uint32_t x)
{
    const uint64_t i = bit / 32;
    const unsigned at = bit % 32;

    words[i * step] |= x << at;
    if (at + bits > 32)
        words[(i + 1) * step] |= x >> (32 - at);
}

/* Returns the first bit of row @i in a word of AWQ, which holds 8 rows. */
static unsigned awq_bit(uint32_t i)
{
    return 4 * (i % 2 * 4 + i % 8 / 2);
}

/* The arrays of a matrix in words. */
struct words {
    uint32_t *codes, *zeros, *order;
    uint16_t *scales;
};

static void words_row(const struct dir_entry *e, bool awq, uint32_t n, uint8_t *q, struct words *to)
{
    const uint32_t rows = e->w.rows, cols = e->w.cols, group = e->repack.group;
    const unsigned bits = e->repack.bits;

    repack_codes(&e->repack, n, 0, cols, q);
    for (uint32_t k = 0; k < cols; k++)
        if (awq)
            to->codes[((uint64_t)k * rows + n) / 8] |= (uint32_t)q[k] << awq_bit(n);
        else
            words_put(to->codes + n, rows, (uint64_t)k * bits, bits, q[k]);
    for (uint32_t g = 0; g < cols / group; g++) {
        const struct repack_group x = repack_group(&e->repack, n, g);
        uint32_t *zeros = to->zeros + (uint64_t)g * rows * bits / 32;

        to->scales[(uint64_t)g * rows + n] = f16_from_f32(x.scale);
        if (awq)
            zeros[n / 8] |= x.zero << awq_bit(n);
        else /* version 1 of GPTQ: zeros minus 1 */
            words_put(zeros, 1, (uint64_t)n * bits, bits, (x.zero - 1) & ((1u << bits) - 1));
    }
}

/* Decodes a matrix in words, and compares it with that of the model. */
static int words_check(const struct dir_entry *e, bool awq, const struct words *from,
                       struct inf_err *reterr)
{
    const struct coded c = {
        .dtype = awq                   ? INF_DTYPE_AWQ4
                 : e->repack.bits == 2 ? INF_DTYPE_GPTQ2
                 : e->repack.bits == 3 ? INF_DTYPE_GPTQ3
                 : e->repack.bits == 4 ? INF_DTYPE_GPTQ4
                                       : INF_DTYPE_GPTQ8,
        .rows = e->w.rows,
        .cols = e->w.cols,
        .codes = from->codes,
        .scales = from->scales,
        .zeros = from->zeros,
        .scale_type = INF_DTYPE_F16,
        .group = e->repack.group,
        .group_rows = 1,
        .zero_add = !awq,
        .factor = 1,
    };
    _cleanup_free_ float *x = NEW(float, c.cols), *y = NEW(float, c.cols);

    if (!x || !y)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t n = 0; n < c.rows; n++) {
        entry_read(e, n, x);
        coded_decode_row(&c, n, y);
        for (uint32_t k = 0; k < c.cols; k++)
            if (x[k] != y[k])
                return err_set(reterr, EIO, "row %u, column %u of %.96s is %g, and would become %g",
                               n, k, e->name, (double)x[k], (double)y[k]);
    }
    return 0;
}

static int words_write(const struct dir *d, const struct dir_entry *e, struct part *out,
                       struct inf_err *reterr)
{
    const bool awq = d->type.layout == DIR_AWQ;
    _cleanup_free_ uint32_t *codes = calloc(1, e->parts[0].size);
    _cleanup_free_ uint32_t *zeros = calloc(1, e->parts[1].size);
    _cleanup_free_ uint16_t *scales = calloc(1, e->parts[2].size);
    _cleanup_free_ uint32_t *order = NEW(uint32_t, e->w.cols);
    _cleanup_free_ uint8_t *q = NEW(uint8_t, e->w.cols);
    struct words to = {codes, zeros, order, scales};
    const void *const arrays[DIR_PARTS] = {codes, zeros, scales, order};
    int r;

    if (!codes || !zeros || !scales || !order || !q)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t n = 0; n < e->w.rows; n++)
        words_row(e, awq, n, q, &to);
    for (uint32_t k = 0; k < e->w.cols; k++)
        order[k] = k / e->repack.group;
    r = words_check(e, awq, &to, reterr);
    for (uint32_t i = 0; r == 0 && i < e->n_parts; i++)
        r = part_write(out, e->parts[i].offset, arrays[i], e->parts[i].size, reterr);
    return r;
}

/* ---- entries ---- */

int dir_write_entry(const struct dir *d, const struct dir_entry *e, struct encoder *encoder,
                    struct part *out, double *ret_error, struct inf_err *reterr)
{
    const bool mlx = e->to.dtype != INF_DTYPE_INVALID;
    struct encode_job job = {
        .name = e->name,
        .to = mlx ? dtype_info(e->to.dtype)->label : "floats of 16 bits",
        .n_rows = mlx || !e->raw ? dir_rows(e) : 1,
        .n_cols = mlx ? e->w.cols : floats_cols(e),
        .n_planes = e->n_parts,
        .limit = mlx ? mlx_limit(e) : 0.01,
        .data = e,
        .read = mlx ? entry_read : floats_read,
        .encode = mlx ? mlx_encode : floats_encode,
        .decode = mlx ? mlx_decode : floats_decode,
    };

    *ret_error = 0;
    if (!mlx && e->kept)
        return words_write(d, e, out, reterr);
    if (!mlx && e->raw && !e->add_one)
        return part_write(out, e->parts[0].offset, e->raw->data, e->raw->size, reterr);
    for (uint32_t i = 0; i < e->n_parts; i++) {
        job.planes[i].row_bytes = e->parts[i].size / job.n_rows;
        job.planes[i].offset = e->parts[i].offset;
    }
    return encoder_run(encoder, &job, out, ret_error, reterr);
}
