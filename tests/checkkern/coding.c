/* SPDX-License-Identifier: Apache-2.0 */

/* Makes coded matrices with random codes, scales and zeros (coding.h). */

#include "coding.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "quant/dtype.h"

static float nf4_table[16];

static void fill_bytes(struct check *c, struct guarded *g)
{
    for (size_t i = 0; i < g->size; i++)
        ((uint8_t *)g->data)[i] = (uint8_t)(rng_u32(&c->rng) >> 24);
}

/* Fills scales with numbers around 2^-5. */
static void fill_scales(struct check *c, const struct coding *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = rng_u32(&c->rng);
        const float f = ldexpf(1 + (float)(r % 1024) / 1024, (int)(r >> 16) % 4 - 6);
        const uint16_t bf16 = (uint16_t)(0x3c00 + (r % 0x200)), f16 = (uint16_t)(0x2400 + r % 2048);

        if (t->s.dtype == INF_DTYPE_CTFP4)
            ((uint8_t *)t->scales.data)[i] = (uint8_t)(40 + r % 40);
        else if (t->s.scale_type == INF_DTYPE_F32)
            memcpy((float *)t->scales.data + i, &f, 4);
        else
            memcpy((uint16_t *)t->scales.data + i, t->s.scale_type == INF_DTYPE_F16 ? &f16 : &bf16,
                   2);
    }
}

static size_t zero_bytes(const struct coding_shape *s, size_t n_scales)
{
    return s->dtype == INF_DTYPE_CT4 || s->dtype == INF_DTYPE_CT8
               ? DIV_UP((size_t)s->N * coded_kind(s->dtype).bits, 32u) * 4 * DIV_UP(s->K, s->group)
               : n_scales * coded_kind(s->dtype).bits / 8;
}

/* Shuffles the columns. */
static void fill_order(struct check *c, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        const uint32_t j = rng_u32(&c->rng) % (i + 1), k = order[i];

        order[i] = order[j];
        order[j] = k;
    }
}

void coding_init(struct check *c, struct coding *t, const struct coding_shape *s)
{
    const struct matmul_ops *ops = matmul_ops_get(c->flags);
    const enum matmul_act kind = matmul_act_kind(ops, s->dtype);
    const size_t act = matmul_act_bytes(kind, s->K);
    const size_t n_scales = (size_t)DIV_UP(s->N, s->group_rows) * DIV_UP(s->K, s->group);
    const unsigned bits = coded_kind(s->dtype).bits;

    *t = (struct coding){.s = *s};
    t->codes = guarded_new((size_t)s->N * s->K * bits / 8, true);
    t->scales = guarded_new(n_scales * (s->dtype == INF_DTYPE_CTFP4      ? 1
                                        : s->scale_type == INF_DTYPE_F32 ? 4
                                                                         : 2),
                            true);
    t->zeros = guarded_new(zero_bytes(s, n_scales), true);
    t->order = guarded_new(s->K * sizeof(uint32_t), true);
    t->x = guarded_new((size_t)s->M * s->K * sizeof(float), true);
    t->act = guarded_new(act * s->M, false);
    t->bias = guarded_new(s->N * sizeof(float), true);
    t->y = guarded_new((size_t)s->M * s->N * sizeof(float), true);
    t->work =
        guarded_new(s->ordered ? ALIGN_UP((size_t)s->K * bits * 8 + 64, MATMUL_ALIGN) : 0, false);
    fill_bytes(c, &t->codes);
    fill_bytes(c, &t->zeros);
    fill_scales(c, t, n_scales);
    fill_order(c, t->order.data, s->K);
    fill_floats(c, FILL_NORMAL, t->bias.data, s->N);
    fill_floats(c, FILL_NORMAL, t->x.data, (size_t)s->M * s->K);
    for (int i = 0; i < 16; i++)
        nf4_table[i] = rng_normal(&c->rng);
    for (size_t i = 0; s->dtype == INF_DTYPE_FP8 && i < t->codes.size; i++)
        if ((((uint8_t *)t->codes.data)[i] & 0x7f) == 0x7f) /* NaN */
            ((uint8_t *)t->codes.data)[i] = 1;
    t->coded = (struct coded){
        .dtype = s->dtype,
        .rows = s->N,
        .cols = s->K,
        .codes = t->codes.data,
        .scales = t->scales.data,
        .zeros = s->zeros ? t->zeros.data : NULL,
        .order = s->ordered ? t->order.data : NULL,
        .table = nf4_table,
        .scale_type = s->scale_type,
        .group = s->group,
        .group_rows = s->group_rows,
        .zero_add = s->N % 64 != 0,
        .factor = s->dtype == INF_DTYPE_CTFP4 ? 3.5f : 1,
    };
    t->args = (struct matmul_args){
        .dtype = s->dtype,
        .kind = kind,
        .act = t->act.data,
        .act_stride = act,
        .M = s->M,
        .K = s->K,
        .y = t->y.data,
        .ldy = s->N,
        .bias = s->bias ? t->bias.data : NULL,
    };
    assert(matmul_work_bytes(&t->coded) <= t->work.size);
    t->args.work = s->ordered ? t->work.data : NULL;
    matmul_prepare(ops, kind, t->x.data, s->K, s->K, 0, s->M, t->act.data);
}

void coding_run(struct check *c, struct coding *t)
{
    t->args.coded = &t->coded;
    matmul_rows(matmul_ops_get(c->flags), &t->args, 0, t->s.N);
}

void coding_done(struct check *c, struct coding *t)
{
    bool ok = guarded_done(&t->codes);

    ok &= guarded_done(&t->scales);
    ok &= guarded_done(&t->zeros);
    ok &= guarded_done(&t->order);
    ok &= guarded_done(&t->x);
    ok &= guarded_done(&t->act);
    ok &= guarded_done(&t->bias);
    ok &= guarded_done(&t->y);
    ok &= guarded_done(&t->work);
    if (!ok)
        check_fail(c, "%s M %u N %u K %u wrote out of bounds", dtype_info(t->s.dtype)->name, t->s.M,
                   t->s.N, t->s.K);
}
