/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the steps of a conversion: the plan, which chooses the format and the place of each
 * tensor, and the encoding of one tensor. */

#include <infer/convert.h>

#include "convert/imatrix.h"
#include "convert/mix.h"
#include "convert/part.h"
#include "convert/source.h"
#include "core/workers.h"
#include "format/gguf/out.h"

/* plan.c */

struct plan_tensor {
    const struct source_tensor *from;
    uint32_t type;           /* the new format */
    const float *importance; /* [matrices, dims[0]] or NULL */
    struct gguf_place place;
};

struct plan {
    struct plan_tensor *tensors; /* [n] */
    size_t n;
    char *header; /* [header_size] */
    size_t header_size;
    uint64_t total; /* bytes of the new file */
    uint64_t n_fallback;
    bool needs_importance;
};

/* Chooses formats and places, and makes the header. @im: the importance matrix, or NULL. */
int plan_init(struct plan *p, const struct inf_convert_params *params, const struct source *s,
              const struct imatrix *im, struct inf_err *reterr);
void plan_done(struct plan *p);

/* encode.c */

struct encoder;

/* Makes the buffers that the threads of @workers need. */
int encoder_new(struct workers *workers, struct encoder **ret, struct inf_err *reterr);
struct encoder *encoder_free(struct encoder *e);
DEFINE_CLEANUP(struct encoder *, encoder_free);
/* Encodes the numbers of a tensor and writes them; *ret_error as in struct inf_convert_tensor.
 * -EIO: the error is larger than the format allows. */
int encoder_run(struct encoder *e, const struct plan_tensor *t, struct part *out, double *ret_error,
                struct inf_err *reterr);
