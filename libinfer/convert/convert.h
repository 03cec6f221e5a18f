/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the plan of a conversion to a GGUF file. A plan chooses the format and the place of each
 * tensor. */

#include <infer/convert.h>

#include "convert/imatrix.h"
#include "convert/mix.h"
#include "convert/repack.h"
#include "convert/source.h"
#include "format/gguf/out.h"

struct plan_tensor {
    const struct source_tensor *from;
    uint32_t type;           /* the new format */
    const float *importance; /* [matrices, dims[0]] or NULL */
    struct gguf_place place;
    bool repacked;        /* blocks of the new format hold the integers of the old one */
    struct repack repack; /* if repacked */
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
