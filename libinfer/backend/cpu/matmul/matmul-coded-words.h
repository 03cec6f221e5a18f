/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the codes of GPTQ and AWQ to panels, for matmul-coded.h. The words are stored row by row
 * of k, and neighboring words of a row belong to neighboring columns of y.
 */

/* Prefetches the words of the next columns of W, which are read soon. */
INLINE void coded_ahead(const uint8_t *p)
{
    __builtin_prefetch(p + 4 * PANEL_N, 0, 2);
    __builtin_prefetch(p + 4 * PANEL_N + 64, 0, 2);
}

INLINE void coded_units_gptq4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 8) * c->rows + n) * 4;

    for (unsigned i = 0; i < n_units; i += 2, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            const v_int v = v_load(w + 4 * j), add = v_load(cols->add + j);

            v_store(p->q[to + i][j], v_add(affine_spread4(v, 0), add));
            v_store(p->q[to + i + 1][j], v_add(affine_spread4(v, 2), add));
        }
    }
}

INLINE void coded_units_gptq2(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 16) * c->rows + n) * 4;

    for (unsigned i = 0; i < n_units; i += 4, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            const v_int v = v_load(w + 4 * j), add = v_load(cols->add + j);

            UNROLL for (unsigned u = 0; u < 4; u++)
                v_store(p->q[to + i + u][j], v_add(affine_spread2(v, u), add));
        }
    }
}

INLINE void coded_units_gptq8(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint8_t *w = (const uint8_t *)c->codes + ((uint64_t)(k / 4) * c->rows + n) * 4;

    (void)cols;
    for (unsigned i = 0; i < n_units; i++, w += 4 * (uint64_t)c->rows) {
        coded_ahead(w);
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
            v_store(p->q[to + i][j], v_xor(v_load(w + 4 * j), v_set(VEC_S8 ? 0x80808080 : 0)));
    }
}

/* Returns code @k of the rows from @n on. */
INLINE coded_u32 coded_gptq_one(const struct coded *c, uint32_t n, uint32_t k, const unsigned bits)
{
    const uint32_t at = k * bits % 32;
    const uint8_t *w =
        (const uint8_t *)c->codes + ((uint64_t)((uint64_t)k * bits / 32) * c->rows + n) * 4;
    coded_u32 v = coded_load(w) >> at;

    if (32 % bits != 0 && at + bits > 32)
        v |= coded_load(w + 4 * (uint64_t)c->rows) << (32 - at);
    return v & ((1u << bits) - 1);
}

/* Writes codes of @bits bits, in any order of columns. */
INLINE void coded_units_gptq(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                             unsigned to, unsigned n_units, const struct coded_columns *cols,
                             const unsigned bits)
{
    for (unsigned i = 0; i < n_units; i++) {
        UNROLL for (unsigned j = 0; j < PANEL_N; j += VEC_N)
        {
            coded_u32 v = {0};

            UNROLL for (unsigned t = 0; t < 4; t++)
            {
                const uint32_t at = k + 4 * i + t;

                v |= coded_gptq_one(c, n + j, c->order ? c->order[at] : at, bits) << 8 * t;
            }
            if (bits == 8)
                v ^= (coded_u32)v_set(VEC_S8 ? 0x80808080 : 0);
            else
                v += coded_load(cols->add + j);
            coded_store(p->q[to + i][j], v);
        }
    }
}

#define CODED_ORDERED(bits)                                                                        \
    INLINE void coded_ordered_##bits(struct matmul_panel *p, const struct coded *c, uint32_t n,    \
                                     uint32_t k, unsigned to, unsigned n_units,                    \
                                     const struct coded_columns *cols)                             \
    {                                                                                              \
        coded_units_gptq(p, c, n, k, to, n_units, cols, bits);                                     \
    }
CODED_ORDERED(2)
CODED_ORDERED(3)
CODED_ORDERED(4)
CODED_ORDERED(8)

/* Splits the words of 4 rows of AWQ's codes into units: @v[c] gets in each lane the unit of column
 * c of the 8 columns of a word. The half bytes s and s + 4 of a word are columns 2 s and 2 s + 1.
 */
INLINE void coded_awq_split(const coded_u32 row[4], coded_u32 v[8])
{
    UNROLL for (unsigned s = 0; s < 4; s++)
    {
        coded_u32 part[4], pair[2];

        UNROLL for (unsigned t = 0; t < 4; t++) part[t] = row[t] >> 4 * s & 0x000f000f;
        UNROLL for (unsigned t = 0; t < 2; t++) pair[t] = part[2 * t] | part[2 * t + 1] << 8;
        v[2 * s] = (pair[0] & 0xffff) | pair[1] << 16;
        v[2 * s + 1] = pair[0] >> 16 | (pair[1] & 0xffff0000);
    }
}

/* Writes VEC_N / 4 units of 32 columns. The 16 bytes of a row with these columns are 4 lanes. */
INLINE void coded_awq_put(struct matmul_panel *p, const uint8_t *w, uint64_t stride, unsigned to,
                          const struct coded_columns *cols)
{
    uint32_t unit[VEC_N] __attribute__((aligned(64)));
    coded_u32 row[4], v[8];

    UNROLL for (unsigned t = 0; t < 4; t++) row[t] = (coded_u32)v_rows16(w + t * stride, stride);
    coded_awq_split(row, v);
    UNROLL for (unsigned h = 0; h < 2; h++)
    {
        v_int t[4] = {(v_int)v[4 * h], (v_int)v[4 * h + 1], (v_int)v[4 * h + 2],
                      (v_int)v[4 * h + 3]};

        /* After this, the units of 4 neighboring columns are side by side in a vector. */
        transpose(t);
        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            v_store(unit, v_add(t[i], v_load(cols->add_awq[2 * i + h])));
            UNROLL for (unsigned q = 0; q < VEC_N / 4; q++)
                memcpy(p->q[to + q][8 * i + 4 * h], unit + 4 * q, 16);
        }
    }
}

INLINE void coded_units_awq4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                             unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint64_t stride = c->rows / 2;
    const uint8_t *w = (const uint8_t *)c->codes + k * stride + n / 2;

    for (unsigned i = 0; i < n_units; i += VEC_N / 4, w += VEC_N * stride) {
        for (unsigned t = 0; n % 128 == 0 && t < VEC_N; t++)
            __builtin_prefetch(w + t * stride + 64, 0, 2);
        coded_awq_put(p, w, stride, to + i, cols);
    }
}
