/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes tensors on several threads.
 *
 * A tensor is cut into slices, which fit a buffer, and a slice into chunks of rows, which fit the
 * cache. The threads take the chunks of a slice one after the other; then the slice is written. A
 * thread decodes a chunk, encodes it, and decodes the result to measure its error. The errors of
 * the chunks are added in the order of the chunks, so the result does not depend on the number of
 * threads.
 */
#include "convert/encode.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include "core/err.h"

/* Elements of a chunk, unless a row has more, and bytes of the encoded numbers of a slice. */
#define CHUNK_ELEMS  ((uint64_t)1 << 16)
#define SLICE_BYTES  ((uint64_t)16 << 20)
#define SLICE_CHUNKS 512u
/* The error of tensors is not limited if the root mean square of their numbers is below this limit,
 * because F16 has only few bits for such numbers, and scales are often stored as F16. */
#define TINY 1e-4

/* Sums of squares of a chunk. */
struct chunk_sums {
    double numbers, errors;
};

/* One slice of a tensor. */
struct slice {
    const struct encode_job *job;
    uint8_t *planes[ENCODE_PLANES];
    uint64_t first, n_rows, chunk_rows;
    atomic_uint next; /* the next chunk */
    struct chunk_sums sums[SLICE_CHUNKS];
};

struct encoder {
    struct workers *workers;
    float **buffers; /* [threads]: room for two chunks */
    uint64_t buffer_elems;
    uint8_t *out; /* room for a slice */
    uint64_t out_size;
    struct slice slice;
};

int encoder_new(struct workers *workers, struct encoder **ret, struct inf_err *reterr)
{
    struct encoder *e = NEW(struct encoder, 1);

    if (e)
        e->buffers = NEW(float *, workers_count(workers));
    if (!e || !e->buffers) {
        free(e);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    e->workers = workers;
    *ret = e;
    return 0;
}

struct encoder *encoder_free(struct encoder *e)
{
    if (!e)
        return NULL;
    for (unsigned i = 0; i < workers_count(e->workers); i++)
        free(e->buffers[i]);
    free(e->buffers);
    free(e->out);
    free(e);
    return NULL;
}

/* Makes room for chunks of @elems elements, and for slices of @bytes bytes. */
static int encoder_reserve(struct encoder *e, uint64_t elems, uint64_t bytes,
                           struct inf_err *reterr)
{
    if (elems > e->buffer_elems) {
        e->buffer_elems = 0;
        for (unsigned i = 0; i < workers_count(e->workers); i++) {
            free(e->buffers[i]);
            e->buffers[i] = NEW(float, 2 * elems);
            if (!e->buffers[i])
                return err_set(reterr, ENOMEM, "out of memory");
        }
        e->buffer_elems = elems;
    }
    if (bytes > e->out_size) {
        free(e->out);
        e->out = malloc(bytes);
        e->out_size = e->out ? bytes : 0;
        if (!e->out)
            return err_set(reterr, ENOMEM, "out of memory");
    }
    return 0;
}

/* Adds the squares of @n numbers, and of their differences from @y. Eight sums of each kind are
 * kept, so that compilers can vectorize the loop. */
static struct chunk_sums compare_numbers(const float *x, const float *y, uint64_t n)
{
    struct chunk_sums all = {0, 0};
    double a[8] = {0}, b[8] = {0};
    uint64_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (unsigned l = 0; l < 8; l++) {
            const double u = (double)x[i + l], d = (double)y[i + l] - u;

            a[l] += u * u;
            b[l] += d * d;
        }
    for (; i < n; i++) {
        const double u = (double)x[i], d = (double)y[i] - u;

        a[0] += u * u;
        b[0] += d * d;
    }
    for (unsigned l = 0; l < 8; l++) {
        all.numbers += a[l];
        all.errors += b[l];
    }
    return all;
}

/* Encodes chunk @i of a slice. */
static void slice_chunk(struct slice *s, unsigned i, float *buffer, uint64_t buffer_elems)
{
    const struct encode_job *job = s->job;
    const uint64_t begin = i * s->chunk_rows, n_rows = MIN(s->chunk_rows, s->n_rows - begin);
    float *x = buffer, *y = buffer + buffer_elems;
    uint8_t *out[ENCODE_PLANES];

    for (unsigned p = 0; p < job->n_planes; p++)
        out[p] = s->planes[p] + begin * job->planes[p].row_bytes;
    for (uint64_t j = 0; j < n_rows; j++)
        job->read(job->data, s->first + begin + j, x + j * job->n_cols);
    job->encode(job->data, s->first + begin, n_rows, x, out);
    job->decode(job->data, n_rows, out, y);
    s->sums[i] = compare_numbers(x, y, n_rows * job->n_cols);
}

static void encoder_thread(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    struct encoder *e = arg;
    struct slice *s = &e->slice;
    const uint64_t n_chunks = DIV_UP(s->n_rows, s->chunk_rows);

    for (;;) {
        const unsigned i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);

        if (i >= n_chunks)
            return;
        slice_chunk(s, i, e->buffers[i_thread], e->buffer_elems);
    }
}

double encode_limit(double bits)
{
    return MIN(sqrt(8.0) / exp2(floor(bits) - 1), 1.0);
}

static int check_error(const struct encode_job *job, const struct chunk_sums *sums,
                       double *ret_error, struct inf_err *reterr)
{
    const double n = (double)job->n_rows * (double)job->n_cols;
    const double error = sums->numbers > 0 ? sqrt(sums->errors / sums->numbers) : 0;

    if (!isfinite(sums->numbers))
        return err_set(reterr, EIO, "tensor %.96s has numbers that are not finite", job->name);
    if (!isfinite(sums->errors))
        return err_set(reterr, EIO, "tensor %.96s has numbers that %s cannot hold", job->name,
                       job->to);
    if (error > job->limit && (job->limit == 0 || sqrt(sums->numbers / n) >= TINY))
        return err_set(reterr, EIO, "tensor %.96s as %s has a relative error of %.3g", job->name,
                       job->to, error);
    *ret_error = error;
    return 0;
}

/* Encodes the slice, and adds the sums of its chunks to *@sums. */
static void encoder_slice(struct encoder *e, struct chunk_sums *sums)
{
    struct slice *s = &e->slice;

    atomic_store(&s->next, 0);
    workers_run(e->workers, encoder_thread, e);
    for (uint64_t i = 0; i < DIV_UP(s->n_rows, s->chunk_rows); i++) {
        sums->numbers += s->sums[i].numbers;
        sums->errors += s->sums[i].errors;
    }
}

int encoder_run(struct encoder *e, const struct encode_job *job, struct part *out,
                double *ret_error, struct inf_err *reterr)
{
    const uint64_t chunk_rows = MAX(CHUNK_ELEMS / job->n_cols, 1u);
    struct chunk_sums sums = {0, 0};
    struct slice *s = &e->slice;
    uint64_t row_bytes = 0, slice_rows, at = 0;
    int r;

    for (unsigned p = 0; p < job->n_planes; p++)
        row_bytes += job->planes[p].row_bytes;
    slice_rows = MIN(MAX(SLICE_BYTES / row_bytes / chunk_rows, 1u), SLICE_CHUNKS) * chunk_rows;
    r = encoder_reserve(e, chunk_rows * job->n_cols, slice_rows * row_bytes, reterr);
    s->job = job;
    s->chunk_rows = chunk_rows;
    for (unsigned p = 0; p < job->n_planes; p++) {
        s->planes[p] = e->out + at;
        at += slice_rows * job->planes[p].row_bytes;
    }
    for (uint64_t row = 0; r == 0 && row < job->n_rows; row += slice_rows) {
        s->first = row;
        s->n_rows = MIN(slice_rows, job->n_rows - row);
        encoder_slice(e, &sums);
        for (unsigned p = 0; r == 0 && p < job->n_planes; p++)
            r = part_write(out, job->planes[p].offset + row * job->planes[p].row_bytes,
                           s->planes[p], s->n_rows * job->planes[p].row_bytes, reterr);
    }
    return r == 0 ? check_error(job, &sums, ret_error, reterr) : r;
}
