/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Encodes matrices on several threads, decodes them again, and writes them to a part of a
 * conversion. */

#include <infer/types.h>

#include "convert/part.h"
#include "core/macros.h"
#include "core/workers.h"

/* The parts of an encoded matrix that are separate arrays: codes, scales, offsets. */
#define ENCODE_PLANES 3

struct encode_job {
    const char *name, *to; /* the tensor and its new format, for messages */
    uint64_t n_rows, n_cols;
    unsigned n_planes;
    struct {
        uint64_t row_bytes;
        uint64_t offset; /* in the new file */
    } planes[ENCODE_PLANES];
    double limit; /* the largest relative error; 0: the numbers must be equal */
    const void *data;
    /* Decodes row @row of the old matrix to n_cols floats. */
    void (*read)(const void *data, uint64_t row, float *x);
    /* Encodes the rows from @row on, whose numbers are @x, to the planes at @out. */
    void (*encode)(const void *data, uint64_t row, uint64_t n_rows, const float *x,
                   uint8_t *const out[ENCODE_PLANES]);
    void (*decode)(const void *data, uint64_t n_rows, uint8_t *const out[ENCODE_PLANES], float *y);
};

struct encoder;

/* Makes the buffers that the threads of @workers need. */
int encoder_new(struct workers *workers, struct encoder **ret, struct inf_err *reterr);
struct encoder *encoder_free(struct encoder *e);
DEFINE_CLEANUP(struct encoder *, encoder_free);
/* Encodes a matrix and writes it; *ret_error as in struct inf_convert_tensor. -EIO: the error is
 * larger than the limit. */
int encoder_run(struct encoder *e, const struct encode_job *job, struct part *out,
                double *ret_error, struct inf_err *reterr);
/* Returns the largest relative error that a format with @bits for a number may have. For formats
 * with n bits and a scale for each block the error of a number is at most half a step, and a step
 * is at most the largest number of the block divided by 2^(n - 1). */
double encode_limit(double bits);
