/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements inf_convert(): plans a conversion, and writes the tensors of the new file one after
 * the other.
 */
#include "convert/convert.h"

#include <errno.h>
#include <string.h>

#include "convert/dir.h"
#include "convert/encode.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/file.h"
#include "format/gguf/ggml-type.h"
#include "quant/dtype.h"

struct conversion {
    const struct inf_convert_params *params;
    struct source *source;
    struct imatrix *imatrix;
    struct plan plan;
    struct workers *workers;
    struct encoder *encoder;
    struct part *part;
    uint64_t n_resumed; /* tensors of an earlier attempt */
};

static void conversion_done(struct conversion *c)
{
    part_close(c->part);
    encoder_free(c->encoder);
    workers_free(c->workers);
    plan_done(&c->plan);
    imatrix_close(c->imatrix);
    source_close(c->source);
}

/* Computes a digest of everything on which the bytes of the new file depend. */
static void conversion_digest(const struct conversion *c, uint8_t ret[SHA256_BYTES])
{
    const struct file_map *f;
    struct sha256 h;

    sha256_init(&h);
    sha256_add_part(&h, inf_version(), strlen(inf_version()));
    sha256_add_part(&h, c->plan.header, c->plan.header_size);
    if (c->imatrix)
        sha256_add_part(&h, imatrix_digest(c->imatrix), SHA256_BYTES);
    for (size_t i = 0; (f = source_file(c->source, i)); i++) {
        sha256_add_part(&h, &f->id.dev, sizeof(f->id.dev));
        sha256_add_part(&h, &f->id.ino, sizeof(f->id.ino));
        sha256_add_part(&h, &f->id.size, sizeof(f->id.size));
        sha256_add_part(&h, &f->id.mtime_ns, sizeof(f->id.mtime_ns));
    }
    sha256_end(&h, ret);
}

static int conversion_open(struct conversion *c, struct inf_err *reterr)
{
    const struct inf_convert_params *p = c->params;
    int r;

    if (!p->path || (!p->out && !p->dry_run))
        return err_set(reterr, EINVAL, "no path was given");
    r = source_open(p->path, &c->source, reterr);
    if (r == 0 && p->imatrix)
        r = imatrix_open(p->imatrix, &c->imatrix, reterr);
    return r == 0 ? plan_init(&c->plan, p, c->source, c->imatrix, reterr) : r;
}

/* Refuses a new file that would replace the file from which it is made. */
static int conversion_check_target(const struct conversion *c, struct inf_err *reterr)
{
    _cleanup_free_ char *from = realpath(c->params->path, NULL);
    _cleanup_free_ char *to = realpath(c->params->out, NULL);

    if (from && to && strcmp(from, to) == 0)
        return err_set(reterr, EINVAL, "the new file would replace the model");
    return 0;
}

static int conversion_begin(struct conversion *c, struct inf_err *reterr)
{
    struct part_params params = {
        .target = c->params->out,
        .header = c->plan.header,
        .header_size = c->plan.header_size,
        .total = c->plan.total,
        .replace = c->params->replace,
    };
    int r;

    r = conversion_check_target(c, reterr);
    if (r < 0)
        return r;
    conversion_digest(c, params.digest);
    r = part_open(&params, &c->part, &c->n_resumed, reterr);
    if (r < 0)
        return r;
    c->n_resumed = MIN(c->n_resumed, c->plan.n);
    r = workers_new(c->params->n_threads > 0 ? c->params->n_threads : cpu_count(), &c->workers);
    if (r < 0)
        return err_set(reterr, -r, "no threads: %s", strerror(-r));
    return encoder_new(c->workers, &c->encoder, reterr);
}

static bool is_copied(const struct plan_tensor *t)
{
    return t->type == t->from->type && t->from->bytes;
}

/* Returns whether the new tensor has the same numbers, because it keeps bytes or integers. */
static bool is_kept(const struct plan_tensor *t)
{
    return is_copied(t) || t->repacked;
}

static void gguf_read(const void *data, uint64_t row, float *x)
{
    const struct plan_tensor *t = data;

    source_row(t->from, row, x);
}

static void gguf_encode(const void *data, uint64_t row, uint64_t n_rows, const float *x,
                        uint8_t *const out[ENCODE_PLANES])
{
    const struct plan_tensor *t = data;
    const struct dtype_info *to = dtype_info(ggml_type(t->type)->dtype);
    const uint64_t n_cols = t->from->dims[0];
    uint64_t row_bytes = 0;

    dtype_row_bytes(ggml_type(t->type)->dtype, n_cols, &row_bytes);
    for (uint64_t i = 0; t->repacked && i < n_rows; i++)
        repack_blocks(&t->repack, ggml_type(t->type)->dtype, source_old_row(t->from, row + i),
                      out[0] + i * row_bytes);
    if (t->repacked)
        return;
    if (!t->importance || !to->encode_by) {
        to->encode(x, out[0], n_rows * n_cols);
        return;
    }
    for (uint64_t i = 0; i < n_rows; i++)
        to->encode_by(x + i * n_cols, t->importance + (row + i) / t->from->w.rows * n_cols,
                      out[0] + i * row_bytes, n_cols);
}

static void gguf_decode(const void *data, uint64_t n_rows, uint8_t *const out[ENCODE_PLANES],
                        float *y)
{
    const struct plan_tensor *t = data;

    dtype_info(ggml_type(t->type)->dtype)->decode(out[0], y, n_rows * t->from->dims[0]);
}

/* Returns the largest relative error that a format may have. */
static double gguf_limit(const struct ggml_type *type)
{
    if (type->dtype == INF_DTYPE_F32)
        return 0;
    return type->block_elems == 1 ? 0.01
                                  : encode_limit(8.0 * type->block_bytes / type->block_elems);
}

static int conversion_encode(struct conversion *c, const struct plan_tensor *t, double *ret_error,
                             struct inf_err *reterr)
{
    const uint64_t *dims = t->from->dims, n_rows = dims[1] * dims[2] * dims[3];
    const struct encode_job job = {
        .name = t->from->name,
        .to = ggml_type(t->type)->name,
        .n_rows = n_rows,
        .n_cols = dims[0],
        .n_planes = 1,
        .planes = {{t->place.size / n_rows, c->plan.header_size + t->place.offset}},
        .limit = t->repacked ? 0 : gguf_limit(ggml_type(t->type)),
        .data = t,
        .read = gguf_read,
        .encode = gguf_encode,
        .decode = gguf_decode,
    };

    return encoder_run(c->encoder, &job, c->part, ret_error, reterr);
}

static int conversion_write(struct conversion *c, size_t i, double *ret_error,
                            struct inf_err *reterr)
{
    const struct plan_tensor *t = &c->plan.tensors[i];
    int r;

    *ret_error = 0;
    if (is_copied(t))
        r = part_write(c->part, c->plan.header_size + t->place.offset, t->from->bytes,
                       t->from->size, reterr);
    else
        r = conversion_encode(c, t, ret_error, reterr);
    return r == 0 ? part_done(c->part, i + 1, reterr) : r;
}

/* Tells the caller about tensor @i. */
static int conversion_report(const struct conversion *c, size_t i, double error,
                             struct inf_err *reterr)
{
    const struct plan_tensor *t = &c->plan.tensors[i];
    const struct inf_convert_params *p = c->params;
    const uint64_t end = t->place.offset + t->place.size;
    struct inf_convert_tensor told = {
        .name = t->from->name,
        .from = ggml_type(t->from->type)->name,
        .to = ggml_type(t->type)->name,
        .n_dims = t->from->n_dims,
        .bytes_from = t->from->size,
        .bytes_to = t->place.size,
        .i = i,
        .n = c->plan.n,
        .copied = is_kept(t),
        .resumed = i < c->n_resumed,
        .importance = t->importance != NULL,
        .error = error,
    };

    memcpy(told.dims, t->from->dims, sizeof(told.dims));
    if (p->tensor && !p->tensor(p->tensor_data, &told))
        return err_set(reterr, ECANCELED, "the conversion was interrupted");
    if (p->progress)
        p->progress(p->progress_data, (double)end / (double)(c->plan.total - c->plan.header_size));
    return 0;
}

/* Checks that no file of the model changed while it was read. */
static int conversion_check_files(const struct conversion *c, struct inf_err *reterr)
{
    const struct file_map *f;
    int r = 0;

    for (size_t i = 0; r == 0 && (f = source_file(c->source, i)); i++)
        r = file_map_check(f, reterr);
    return r;
}

static int conversion_run(struct conversion *c, struct inf_err *reterr)
{
    double error = 0;
    int r = c->params->dry_run ? 0 : conversion_begin(c, reterr);

    for (size_t i = 0; r == 0 && i < c->plan.n; i++) {
        if (!c->params->dry_run && i >= c->n_resumed)
            r = conversion_write(c, i, &error, reterr);
        if (r == 0)
            r = conversion_report(c, i, error, reterr);
    }
    if (r == 0)
        r = conversion_check_files(c, reterr);
    return r == 0 && !c->params->dry_run ? part_finish(c->part, reterr) : r;
}

static void conversion_result(const struct conversion *c, struct inf_convert_result *ret)
{
    *ret = (struct inf_convert_result){
        .n_tensors = c->plan.n,
        .n_fallback = c->plan.n_fallback,
        .file_bytes = c->plan.total,
        .needs_importance = c->plan.needs_importance,
    };
    for (size_t i = 0; i < c->plan.n; i++) {
        const struct plan_tensor *t = &c->plan.tensors[i];

        ret->n_elems += t->from->dims[0] * t->from->dims[1] * t->from->dims[2] * t->from->dims[3];
        ret->n_requantized += t->from->quantized && !is_kept(t);
        ret->bytes_from += t->from->size;
        ret->bytes_to += t->place.size;
    }
}

int inf_convert(const struct inf_convert_params *params, struct inf_convert_result *ret_result,
                struct inf_err *reterr)
{
    struct conversion c = {.params = params};
    struct dir_type type;
    int r;

    if (params->type && dir_type_find(params->type, &type))
        return dir_convert(params, ret_result, reterr);
    r = conversion_open(&c, reterr);
    if (r == 0)
        r = conversion_run(&c, reterr);
    if (r == 0)
        conversion_result(&c, ret_result);
    conversion_done(&c);
    return r;
}

const char *inf_convert_type(size_t i)
{
    return i < MIX_N ? mix_info((enum mix)i)->name : dir_type_name(i - MIX_N);
}
