/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the integers of quantized matrices, and checks which layouts can hold them.
 */
#include "convert/repack.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/half.h"
#include "quant/affine.h"
#include "quant/block.h"
#include "quant/dtype.h"

int repack_init(struct repack *r, const struct weight *w, struct inf_err *reterr)
{
    const struct planes_info *affine = dtype_affine(w->dtype);

    *r = (struct repack){.w = w};
    if (affine) {
        r->bits = affine->bits;
        r->group = w->group;
        return 0;
    }
    if (!w->coded || !coded_kind(w->dtype).has_zero)
        return err_set(reterr, EOPNOTSUPP,
                       "%.96s is stored as %s, whose numbers are not integers with scales", w->name,
                       dtype_info(w->dtype)->label);
    for (uint32_t e = 0; e < MAX(w->n_experts, 1u); e++)
        if (w->coded[e].order)
            return err_set(reterr, EOPNOTSUPP,
                           "the groups of %.96s are not neighboring columns (act-order)", w->name);
    r->bits = coded_kind(w->dtype).bits;
    r->group = w->coded->group;
    return 0;
}

/* Returns the coded matrix that has row @row, counted over all experts. *ret_row is the number of
 * this row in the matrix. */
static const struct coded *repack_coded(const struct repack *r, uint64_t row, uint32_t *ret_row)
{
    *ret_row = r->w->coded_first + (uint32_t)(row % r->w->rows);
    return &r->w->coded[row / r->w->rows];
}

static struct plane_row repack_planes(const struct repack *r, uint64_t row)
{
    const struct weight w = weight_of_expert(r->w, (uint32_t)(row / r->w->rows));

    return weight_plane_row(&w, (uint32_t)(row % r->w->rows));
}

struct repack_group repack_group(const struct repack *r, uint64_t row, uint32_t g)
{
    struct repack_group x;
    uint32_t i;

    if (r->w->coded) {
        const struct coded *c = repack_coded(r, row, &i);

        x.scale = coded_scale(c, i, g);
        x.zero = coded_zero(c, i, g);
        x.offset = -(x.scale * (float)x.zero);
    } else {
        const struct plane_row p = repack_planes(r, row);
        float zero;

        x.scale = plane_get(p.type, p.planes[WEIGHT_SCALES], g);
        x.offset = plane_get(p.type, p.planes[WEIGHT_ZEROS], g);
        zero = x.scale != 0 ? rintf(-x.offset / x.scale) : 0;
        x.zero = zero >= 0 && zero < (float)(1u << r->bits) ? (unsigned)zero : 0;
    }
    x.whole = (double)x.scale * -(double)x.zero == (double)x.offset;
    return x;
}

void repack_codes(const struct repack *r, uint64_t row, uint32_t k, uint32_t n, uint8_t *q)
{
    uint32_t i_row;

    if (r->w->coded) {
        const struct coded *c = repack_coded(r, row, &i_row);

        for (uint32_t i = 0; i < n; i++)
            q[i] = (uint8_t)coded_code(c, i_row, k + i);
    } else {
        const struct plane_row p = repack_planes(r, row);

        for (uint32_t i = 0; i < n; i++)
            q[i] = (uint8_t)affine_code(p.codes, r->bits, k + i);
    }
}

static uint64_t repack_n_rows(const struct repack *r)
{
    return (uint64_t)r->w->rows * MAX(r->w->n_experts, 1u);
}

static bool is_f16(float x)
{
    return f16_to_f32(f16_from_f32(x)) == x;
}

static bool fits_type(enum plane_type type, float x)
{
    return type == PLANE_F32 ||
           (type == PLANE_F16 ? is_f16(x) : bf16_to_f32(bf16_from_f32(x)) == x);
}

/* Returns the type in which the scales are stored. */
static enum plane_type repack_stored(const struct repack *r)
{
    if (!r->w->coded)
        return r->w->plane_type;
    return r->w->coded->scale_type == INF_DTYPE_F16    ? PLANE_F16
           : r->w->coded->scale_type == INF_DTYPE_BF16 ? PLANE_BF16
                                                       : PLANE_F32;
}

int repack_plane_type(const struct repack *r, enum plane_type *ret, struct inf_err *reterr)
{
    enum plane_type type = repack_stored(r);

    for (uint64_t row = 0; row < repack_n_rows(r) && r->w->coded; row++)
        for (uint32_t g = 0; g < DIV_UP(r->w->cols, r->group); g++) {
            const struct repack_group x = repack_group(r, row, g);

            if (!x.whole)
                return err_set(reterr, EOPNOTSUPP, "an offset of %.96s is not exact in F32",
                               r->w->name);
            if (!fits_type(type, x.offset))
                type = PLANE_F32;
        }
    *ret = type;
    return 0;
}

int repack_check_zeros(const struct repack *r, struct inf_err *reterr)
{
    for (uint64_t row = 0; row < repack_n_rows(r); row++)
        for (uint32_t g = 0; g < DIV_UP(r->w->cols, r->group); g++) {
            const struct repack_group x = repack_group(r, row, g);

            if (!x.whole)
                return err_set(
                    reterr, EOPNOTSUPP,
                    "the offset of row %llu, group %u of %.96s is not its scale times an "
                    "integer",
                    (unsigned long long)row, g, r->w->name);
            if (!is_f16(x.scale))
                return err_set(reterr, EOPNOTSUPP,
                               "the scale of row %llu, group %u of %.96s is not exact in F16",
                               (unsigned long long)row, g, r->w->name);
        }
    return 0;
}

bool repack_has_zero(const struct repack *r, unsigned zero)
{
    for (uint64_t row = 0; row < repack_n_rows(r); row++)
        for (uint32_t g = 0; g < DIV_UP(r->w->cols, r->group); g++)
            if (repack_group(r, row, g).zero != zero)
                return false;
    return true;
}

/* ---- blocks of GGUF ---- */

/* The formats of GGUF whose blocks of 32 weights have integers. */
static const struct block_kind {
    enum inf_dtype dtype;
    unsigned bits, zero; /* zero: what is subtracted from codes, if there is no offset */
    bool offset;
} block_kinds[] = {
    {INF_DTYPE_Q4_0, 4, 8, false}, {INF_DTYPE_Q4_1, 4, 0, true},    {INF_DTYPE_Q5_0, 5, 16, false},
    {INF_DTYPE_Q5_1, 5, 0, true},  {INF_DTYPE_Q8_0, 8, 128, false},
};

static const struct block_kind *block_kind(enum inf_dtype dtype)
{
    for (size_t i = 0; i < ARRAY_SIZE(block_kinds); i++)
        if (block_kinds[i].dtype == dtype)
            return &block_kinds[i];
    return NULL;
}

/* Returns what must be added to the codes of a group if @kind has no offset: the difference of the
 * zeros. */
static int code_shift(const struct block_kind *kind, const struct repack_group *x)
{
    return kind->offset ? 0 : (int)kind->zero - (int)x->zero;
}

bool repack_fits_blocks(const struct repack *r, enum inf_dtype to)
{
    const struct block_kind *kind = block_kind(to);
    const int most = kind ? 1 << kind->bits : 0, n_codes = 1 << r->bits;

    if (!kind || r->bits > kind->bits || r->group % BLOCK_ELEMS != 0 || r->w->cols % BLOCK_ELEMS)
        return false;
    for (uint64_t row = 0; row < repack_n_rows(r); row++)
        for (uint32_t g = 0; g < DIV_UP(r->w->cols, r->group); g++) {
            const struct repack_group x = repack_group(r, row, g);
            const int shift = code_shift(kind, &x);

            if (!is_f16(x.scale) || (kind->offset ? !is_f16(x.offset) : !x.whole) || shift < 0 ||
                shift + n_codes > most)
                return false;
        }
    return true;
}

/* Writes a block: the scale, the offset if the format has one, the highest bits of codes of 5 bits,
 * and the other bits of the codes. */
static uint8_t *block_put(const struct block_kind *kind, const struct repack_group *x,
                          const uint8_t *q, uint8_t *out)
{
    const uint16_t scale = f16_from_f32(x->scale), offset = f16_from_f32(x->offset);
    const int shift = code_shift(kind, x);
    uint32_t high = 0;

    memcpy(out, &scale, 2);
    out += 2;
    if (kind->offset) {
        memcpy(out, &offset, 2);
        out += 2;
    }
    if (kind->bits == 8) {
        for (unsigned i = 0; i < BLOCK_ELEMS; i++)
            *out++ = (uint8_t)(q[i] + shift - 128);
        return out;
    }
    for (unsigned i = 0; i < BLOCK_ELEMS; i++)
        high |= (uint32_t)((q[i] + shift) >> 4 & 1) << i;
    if (kind->bits == 5) {
        memcpy(out, &high, 4);
        out += 4;
    }
    for (unsigned i = 0; i < BLOCK_ELEMS / 2; i++)
        *out++ = (uint8_t)(((q[i] + shift) & 15) | ((q[i + BLOCK_ELEMS / 2] + shift) & 15) << 4);
    return out;
}

void repack_blocks(const struct repack *r, enum inf_dtype to, uint64_t row, void *out)
{
    const struct block_kind *kind = block_kind(to);
    uint8_t q[BLOCK_ELEMS], *p = out;

    for (uint32_t k = 0; k < r->w->cols; k += BLOCK_ELEMS) {
        const struct repack_group x = repack_group(r, row, k / r->group);

        repack_codes(r, row, k, BLOCK_ELEMS, q);
        p = block_put(kind, &x, q, p);
    }
}
