/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes tensors on several threads.
 *
 * A tensor is cut into chunks of rows, which fit the cache. The threads take the chunks one after
 * the other. A thread decodes a chunk, encodes it, decodes the result to measure its error, and
 * writes it to the file. The errors of the chunks are added in the order of the chunks, so the
 * result does not depend on the number of threads.
 */
#include "convert/encode.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>

#include "core/err.h"

/* Elements of a chunk, unless a row has more. */
#define CHUNK_ELEMS ((uint64_t)1 << 16)
/* The error of tensors is not limited if the root mean square of their numbers is below this limit,
 * because F16 has only few bits for such numbers, and scales are often stored as F16. */
#define TINY 1e-4

/* Sums of squares of a chunk. */
struct chunk_sums {
    double numbers, errors;
};

/* The buffers of a thread for one chunk, and the first failure of the thread. */
struct encode_buffer {
    float *x, *y; /* [elements of a chunk]: the numbers, and the same after they were encoded */
    uint8_t *out; /* the planes of a chunk, one after the other */
    struct inf_err err;
    int failed; /* 0, or a negative errno value */
};

struct encoder {
    struct workers *workers;
    struct encode_buffer *buffers;     /* [threads] */
    uint64_t chunk_elems, chunk_bytes; /* the sizes of x and y, and of out */
    struct chunk_sums *sums;           /* [chunks] */
    uint64_t n_sums;
    /* The tensor that is being encoded. */
    const struct encode_job *job;
    struct part *part;
    uint64_t chunk_rows, n_chunks;
    atomic_uint_fast64_t next; /* the next chunk */
};

int encoder_new(struct workers *workers, struct encoder **ret, struct inf_err *reterr)
{
    struct encoder *e = NEW(struct encoder, 1);

    if (e)
        e->buffers = NEW(struct encode_buffer, workers_count(workers));
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
    for (unsigned i = 0; i < workers_count(e->workers); i++) {
        free(e->buffers[i].x);
        free(e->buffers[i].out);
    }
    free(e->buffers);
    free(e->sums);
    free(e);
    return NULL;
}

/* Makes room for chunks of @elems elements and @bytes bytes. */
static int encoder_reserve_chunk(struct encoder *e, uint64_t elems, uint64_t bytes)
{
    if (elems <= e->chunk_elems && bytes <= e->chunk_bytes)
        return 0;
    e->chunk_elems = e->chunk_bytes = 0;
    for (unsigned i = 0; i < workers_count(e->workers); i++) {
        struct encode_buffer *b = &e->buffers[i];

        free(b->x);
        free(b->out);
        b->x = NEW(float, 2 * elems);
        b->y = b->x ? b->x + elems : NULL;
        b->out = malloc(bytes);
        if (!b->x || !b->out)
            return -ENOMEM;
    }
    e->chunk_elems = elems;
    e->chunk_bytes = bytes;
    return 0;
}

static int encoder_reserve_sums(struct encoder *e, uint64_t n)
{
    if (n <= e->n_sums)
        return 0;
    free(e->sums);
    e->sums = NEW(struct chunk_sums, n);
    e->n_sums = e->sums ? n : 0;
    return e->sums ? 0 : -ENOMEM;
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

/* Encodes chunk @i, and writes it. */
static void encoder_chunk(struct encoder *e, uint64_t i, struct encode_buffer *b)
{
    const struct encode_job *job = e->job;
    const uint64_t first = i * e->chunk_rows, n_rows = MIN(e->chunk_rows, job->n_rows - first);
    uint8_t *out[ENCODE_PLANES], *end = b->out;

    for (unsigned p = 0; p < job->n_planes; p++) {
        out[p] = end;
        end += n_rows * job->planes[p].row_bytes;
    }
    for (uint64_t j = 0; j < n_rows; j++)
        job->read(job->data, first + j, b->x + j * job->n_cols);
    job->encode(job->data, first, n_rows, b->x, out);
    job->decode(job->data, n_rows, out, b->y);
    e->sums[i] = compare_numbers(b->x, b->y, n_rows * job->n_cols);
    for (unsigned p = 0; b->failed == 0 && p < job->n_planes; p++)
        b->failed = part_write(e->part, job->planes[p].offset + first * job->planes[p].row_bytes,
                               out[p], n_rows * job->planes[p].row_bytes, &b->err);
}

static void encoder_thread(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    struct encoder *e = arg;
    struct encode_buffer *b = &e->buffers[i_thread];

    while (b->failed == 0) {
        const uint64_t i = atomic_fetch_add_explicit(&e->next, 1, memory_order_relaxed);

        if (i >= e->n_chunks)
            return;
        encoder_chunk(e, i, b);
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

/* Encodes and writes all chunks. Returns the failure of a thread, if one failed. */
static int encoder_run_chunks(struct encoder *e, struct inf_err *reterr)
{
    int r = 0;

    for (unsigned i = 0; i < workers_count(e->workers); i++)
        e->buffers[i].failed = 0;
    atomic_store(&e->next, 0);
    workers_run(e->workers, encoder_thread, e);
    for (unsigned i = 0; r == 0 && i < workers_count(e->workers); i++) {
        r = e->buffers[i].failed;
        if (r < 0 && reterr)
            *reterr = e->buffers[i].err;
    }
    return r;
}

int encoder_run(struct encoder *e, const struct encode_job *job, struct part *out,
                double *ret_error, struct inf_err *reterr)
{
    struct chunk_sums sums = {0, 0};
    uint64_t row_bytes = 0;
    int r;

    for (unsigned p = 0; p < job->n_planes; p++)
        row_bytes += job->planes[p].row_bytes;
    e->job = job;
    e->part = out;
    e->chunk_rows = MAX(CHUNK_ELEMS / job->n_cols, 1u);
    e->n_chunks = DIV_UP(job->n_rows, e->chunk_rows);
    r = encoder_reserve_chunk(e, e->chunk_rows * job->n_cols, e->chunk_rows * row_bytes);
    if (r == 0)
        r = encoder_reserve_sums(e, e->n_chunks);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    r = encoder_run_chunks(e, reterr);
    for (uint64_t i = 0; r == 0 && i < e->n_chunks; i++) {
        sums.numbers += e->sums[i].numbers;
        sums.errors += e->sums[i].errors;
    }
    return r == 0 ? check_error(job, &sums, ret_error, reterr) : r;
}
