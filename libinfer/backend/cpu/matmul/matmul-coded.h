/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fills panels with coded matrices (quant/coded.h), for matmul-vec.h. Include it after
 * matmul-decode-affine.h and matmul-tile.h.
 *
 * The panel holds integers of at most 4 bits as code - zero + 16, and multiply_q5_0() multiplies
 * such panels. If a group is not a multiple of 32 columns, the panel holds code - zero + 32, and
 * multiply_q6_k() multiplies the panel. The sums of such products are exact integers. The panel
 * holds codes of 8 bits without their zero, and has the offset scale × (128 - zero). The words of
 * GPTQ have neighboring columns of the panel in neighboring lanes already, so nothing is
 * transposed.
 */

#include "quant/coded.h"

typedef uint32_t coded_u32 __attribute__((vector_size(4 * VEC_N)));
typedef int32_t coded_i32 __attribute__((vector_size(4 * VEC_N)));

/* Holds the scales and zeros of the PANEL_N columns of a panel in one group. */
struct coded_columns {
    uint32_t g; /* the group */
    float scale[PANEL_N];
    uint32_t add[PANEL_N];                /* what is added to codes, in each byte */
    float offset[PANEL_N];                /* for codes of 8 bits */
    uint32_t add_awq[PANEL_N / 4][VEC_N]; /* add of 4 columns, repeated */
} __attribute__((aligned(64)));

/* Writes units of 4 elements of k to the panel: units @to … @to + @n_units - 1 get the elements
 * from column @k of the matrix on, of the PANEL_N rows from row @n on. */
typedef void coded_units(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                         unsigned to, unsigned n_units, const struct coded_columns *cols);

INLINE coded_u32 coded_load(const void *p)
{
    return (coded_u32)v_load(p);
}

INLINE void coded_store(void *p, coded_u32 v)
{
    v_store(p, (v_int)v);
}

/* ---- scales and zeros ---- */

/* Loads scales of 2 bytes of the rows from @n on. */
INLINE void coded_halves(const struct coded *c, uint32_t n, uint32_t g, uint16_t half[PANEL_N])
{
    const uint8_t *p = c->scales;

    if (coded_kind(c->dtype).by_place) {
        memcpy(half, p + 2 * ((uint64_t)g * c->rows + n), PANEL_N * sizeof(*half));
        return;
    }
    for (unsigned i = 0; i < PANEL_N; i++)
        memcpy(&half[i], p + 2 * ((uint64_t)((n + i) / c->group_rows) * coded_groups(c) + g), 2);
}

/* Loads the scales of the rows from @n on. */
INLINE void coded_scales(const struct coded *c, uint32_t n, uint32_t g, float *dst)
{
    uint16_t half[PANEL_N] __attribute__((aligned(64)));

    if (c->scale_type == INF_DTYPE_F32) {
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = coded_scale(c, n + i, g);
        return;
    }
    coded_halves(c, n, g, half);
    if (c->scale_type == INF_DTYPE_F16)
        for (unsigned i = 0; i < PANEL_N; i += VEC_N)
            v_storef(dst + i, v_from_f16(half + i));
    else
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = half_from_bits_f32((uint32_t)half[i] << 16);
}

static const uint8_t TILE_NAME(awq_shift)[8] = {0, 16, 4, 20, 8, 24, 12, 28};

/* Extracts the numbers of 4 bits of 4 words. */
INLINE void coded_awq_zeros(const uint8_t *p, uint32_t *dst)
{
    for (unsigned i = 0; i < PANEL_N; i += 8, p += 4) {
        uint32_t word;

        memcpy(&word, p, 4);
        for (unsigned j = 0; j < 8; j++)
            dst[i + j] = word >> TILE_NAME(awq_shift)[j] & 15;
    }
}

/* Returns @a in lanes 0 … 7, and @b in the other lanes. */
#if VEC_N == 16
#define coded_eights(a, b) v_eights(a, b)
#else
#define coded_eights(a, b) v_set(a)
#endif

/* Extracts numbers of @bits bits from a stream of bits, and adds @add to each. @bits bytes hold 8
 * numbers. */
INLINE void coded_stream_zeros(const uint8_t *p, const unsigned bits, uint32_t add, uint32_t *dst)
{
    UNROLL for (unsigned i = 0; i < PANEL_N; i += VEC_N)
    {
        uint32_t word[2] = {0};
        coded_u32 at;

        memcpy(&word[0], p + i / 8 * bits, bits);
        if (VEC_N > 8)
            memcpy(&word[1], p + (i / 8 + 1) * bits, bits);
        UNROLL for (unsigned lane = 0; lane < VEC_N; lane++) at[lane] = (i + lane) % 8 * bits;
        const coded_u32 v = (coded_u32)coded_eights(word[0], word[1]) >> at;

        coded_store(dst + i, (v + add) & ((1u << bits) - 1));
    }
}

INLINE void coded_gptq_zeros(const uint8_t *p, unsigned bits, uint32_t add, uint32_t *dst)
{
    if (bits == 2)
        coded_stream_zeros(p, 2, add, dst);
    else if (bits == 3)
        coded_stream_zeros(p, 3, add, dst);
    else if (bits == 4)
        coded_stream_zeros(p, 4, add, dst);
    else
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = (p[i] + add) & 255;
}

INLINE void coded_zeros(const struct coded *c, uint32_t n, uint32_t g, uint32_t *dst)
{
    const unsigned bits = coded_kind(c->dtype).bits;
    const uint8_t *first = (const uint8_t *)c->zeros + ((uint64_t)g * c->rows + n) / 8 * bits;

    if (!c->zeros)
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = 1u << (bits - 1);
    else if (c->dtype == INF_DTYPE_AWQ4 && n % 8 == 0)
        coded_awq_zeros(first, dst);
    else if (coded_kind(c->dtype).by_place && c->dtype != INF_DTYPE_AWQ4 && n % 8 == 0)
        coded_gptq_zeros(first, bits, c->zero_add, dst);
    else
        for (unsigned i = 0; i < PANEL_N; i++)
            dst[i] = coded_zero(c, n + i, g);
}

/* Loads the scales and zeros of the columns in the group @g. @base - zero is the number to add to a
 * code. */
INLINE void coded_columns_load(const struct coded *c, uint32_t n, uint32_t g, uint32_t base,
                               struct coded_columns *cols)
{
    cols->g = g;
    coded_scales(c, n, g, cols->scale);
    coded_zeros(c, n, g, cols->add);
    for (unsigned i = 0; i < PANEL_N; i++) {
        cols->offset[i] = cols->scale[i] * (float)(128 - (int)cols->add[i]);
        cols->add[i] = (base - cols->add[i]) * 0x01010101;
    }
    for (unsigned i = 0; c->dtype == INF_DTYPE_AWQ4 && i < PANEL_N * VEC_N / 4; i++)
        cols->add_awq[i / VEC_N][i % VEC_N] = cols->add[i / VEC_N * 4 + i % 4];
}

/* Fills a panel with integers. @units writes the codes, and @wide says whether they have 8 bits. */
INLINE void coded_fill(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                       uint32_t kc, coded_units *units, const bool wide)
{
    const uint32_t part = c->group % 32 == 0 || c->group == c->cols ? 32 : 16;
    struct coded_columns cols = {.g = UINT32_MAX};

    for (uint32_t i = 0; i < kc / part; i++) {
        const uint32_t at = k + i * part;

        if (at / c->group != cols.g)
            coded_columns_load(c, n, at / c->group, part == 32 ? 16 : 32, &cols);
        memcpy(p->scale[i], cols.scale, sizeof(cols.scale));
        if (wide)
            memcpy(p->offset[i], cols.offset, sizeof(cols.offset));
        units(p, c, n, at, i * part / 4, part / 4, &cols);
    }
}

#include "backend/cpu/matmul/matmul-coded-words.h"
#include "backend/cpu/matmul/matmul-coded-rows.h"

/* Writes codes one by one: for matrices of compressed-tensors with an order, and for columns of AWQ
 * that begin within a word. */
INLINE void coded_units_plain(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const bool wide = coded_kind(c->dtype).bits == 8;

    for (unsigned i = 0; i < 4 * n_units; i++)
        for (unsigned j = 0; j < PANEL_N; j++) {
            const unsigned q = coded_code(c, n + j, c->order ? c->order[k + i] : k + i);

            p->q[to + i / 4][j][i % 4] =
                (uint8_t)(wide ? q ^ (VEC_S8 ? 0x80 : 0) : q + (uint8_t)cols->add[j]);
        }
}

#define CODED_FILL(stem, units, ordered, wide)                                                     \
    static void TILE_NAME(fill_##stem)(struct matmul_panel * p, const struct coded *c, uint32_t n, \
                                       uint32_t k, uint32_t kc)                                    \
    {                                                                                              \
        if (c->order)                                                                              \
            coded_fill(p, c, n, k, kc, ordered, wide);                                             \
        else                                                                                       \
            coded_fill(p, c, n, k, kc, units, wide);                                               \
    }
CODED_FILL(gptq2, coded_units_gptq2, coded_ordered_2, false)
CODED_FILL(gptq3, coded_ordered_3, coded_ordered_3, false)
CODED_FILL(gptq4, coded_units_gptq4, coded_ordered_4, false)
CODED_FILL(gptq8, coded_units_gptq8, coded_ordered_8, true)
CODED_FILL(ct4, coded_units_ct4, coded_units_plain, false)
CODED_FILL(rows8, coded_units_rows8, coded_units_plain, true)

static void TILE_NAME(fill_awq4)(struct matmul_panel *p, const struct coded *c, uint32_t n,
                                 uint32_t k, uint32_t kc)
{
    coded_fill(p, c, n, k, kc, n % 8 == 0 ? coded_units_awq4 : coded_units_plain, false);
}

static void TILE_NAME(multiply_coded8)(const struct matmul_tile *t)
{
    multiply_q8(t, kind_mlx8);
}

#include "backend/cpu/matmul/matmul-coded-float.h"
