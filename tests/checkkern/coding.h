/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes products with coded matrices (quant/coded.h) for checks and benchmarks. */

#include "backend/cpu/matmul/matmul.h"
#include "harness.h"
#include "quant/coded.h"

/* The shape of a matrix and of the rows that are multiplied by it. */
struct coding_shape {
    uint32_t M, N, K, group;
    enum inf_dtype dtype, scale_type;
    bool ordered, zeros, bias;
    uint32_t group_rows; /* rows that share a scale; only FP8 has more than 1 */
};

/* A product with a matrix of random codes. */
struct coding {
    struct coding_shape s;
    struct coded coded;
    struct guarded codes, scales, zeros, order, x, act, bias, y, work;
    struct matmul_args args;
};

/* Makes a product for the rung of @c (harness.h). t->coded points into the buffers of @t. */
void coding_init(struct check *c, struct coding *t, const struct coding_shape *s);
/* Computes all columns of y. */
void coding_run(struct check *c, struct coding *t);
/* Frees the buffers; reports bytes around them that were overwritten. */
void coding_done(struct check *c, struct coding *t);
