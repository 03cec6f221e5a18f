/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies 8 rows of W in the formats with grids by up to DIRECT_M prepared rows, for
 * matmul-vec.h.
 *
 * The blocks of the 8 rows are first unpacked into memory. A vector then has the points of one lot
 * of 8 weights of VEC_N / 2 rows, 8 bytes for each row. The points are multiplied by 8 numbers of
 * x, to which the signs of the weights are applied. So no sum crosses rows.
 *
 * matmul-grid-ymm.h and matmul-grid-avx512.h define for VEC_N / 2 rows:
 *   grid_points(row, l, kind)   the points of lot l
 *   grid_signs(p)               the signs in the bytes at p, one byte for each row
 *   grid_negate(x, signs)       negates bytes whose signs are set
 *   grid_less2(w, signs)        subtracts 2 from bytes whose signs are set
 *   grid_x(q)                   8 bytes, repeated
 *   grid_sums(sum)              the sums of the two lanes of each of 8 rows, in 16 / VEC_N vectors
 */

#define GRID_V (16 / VEC_N) /* vectors of 8 rows */

struct grid_rows {
    struct grid_row row[8];
    uint8_t signs[32][8];
    float scale[16][8];
} __attribute__((aligned(64)));

/* Transposes the signs of the 8 rows. */
INLINE void grid_transpose_signs(struct grid_rows *rows)
{
    __m256i v[8], t[8];

    UNROLL for (unsigned i = 0; i < 8; i++) v[i] = _mm256_load_si256((void *)rows->row[i].signs);
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        t[i] = _mm256_unpacklo_epi8(v[2 * i], v[2 * i + 1]);
        t[i + 4] = _mm256_unpackhi_epi8(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        v[i / 2 * 4 + i % 2] = _mm256_unpacklo_epi16(t[2 * i], t[2 * i + 1]);
        v[i / 2 * 4 + i % 2 + 2] = _mm256_unpackhi_epi16(t[2 * i], t[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        t[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i++)
    {
        _mm_store_si128((void *)rows->signs[2 * i], _mm256_castsi256_si128(t[i]));
        _mm_store_si128((void *)rows->signs[16 + 2 * i], _mm256_extracti128_si256(t[i], 1));
    }
}

/* Transposes the scales from scale @n on, 8 of each row. */
INLINE void grid_transpose_scales(struct grid_rows *rows, const unsigned n)
{
    __m256 v[8], t[8];

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        const float *a = rows->row[i].scale + n, *b = rows->row[i + 4].scale + n;

        v[i] = _mm256_set_m128(_mm_load_ps(b), _mm_load_ps(a));
        v[i + 4] = _mm256_set_m128(_mm_load_ps(b + 4), _mm_load_ps(a + 4));
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4)
    {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
        t[i + 2] = _mm256_unpacklo_ps(v[i + 2], v[i + 3]);
        t[i + 3] = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
        _mm256_store_ps(rows->scale[n + i], _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
        _mm256_store_ps(rows->scale[n + i + 1], _mm256_shuffle_ps(t[i], t[i + 2], 0xee));
        _mm256_store_ps(rows->scale[n + i + 2], _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44));
        _mm256_store_ps(rows->scale[n + i + 3], _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee));
    }
}

/* Adds the products of lot @l to the sums. Its weights are multiplied by the elements of x from
 * element @x_at of block @b on. */
INLINE void grid_lot_dot(const struct matmul_direct *d, const unsigned m_n,
                         const struct grid_rows *rows, uint32_t b, unsigned l, const unsigned x_at,
                         const struct grid_kind kind, v_int sum[DIRECT_M][GRID_V])
{
    UNROLL for (unsigned v = 0; v < GRID_V; v++)
    {
        const v_signs signs = grid_signs(rows->signs[l] + VEC_N / 2 * v);
        v_int w = grid_points(rows->row + VEC_N / 2 * v, l, kind);

        if (kind.is_delta)
            w = grid_less2(w, signs);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int x = grid_x(direct_x(d, m, b)->q + x_at);

            sum[m][v] = v_dot(sum[m][v], w, kind.is_delta ? x : grid_negate(x, signs));
        }
    }
}

/* Multiplies those weights of group @g that share a scale: half @part of the group if kind.has_two,
 * else all its 32 weights. */
INLINE void grid_part(const struct matmul_direct *d, const unsigned m_n,
                      const struct grid_rows *rows, uint32_t b, unsigned g, const unsigned part,
                      const struct grid_kind kind, struct direct_acc *acc)
{
    const unsigned n_lots = kind.has_two ? 2 : 4;
    const __m256 scale = _mm256_load_ps(rows->scale[kind.has_two ? 2 * g + part : g]);
    v_int sum[DIRECT_M][GRID_V];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < GRID_V; v++)
        sum[m][v] = v_zero();
    UNROLL for (unsigned l = 0; l < n_lots; l++)
        grid_lot_dot(d, m_n, rows, b + g, 4 * g + 2 * part + l, 16 * part + 8 * l, kind, sum);
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *x = direct_x(d, m, b + g);
        const int32_t n = kind.has_two ? x->nsum[part] : x->nsum[0] + x->nsum[1];
        __m256i all = grid_sums(sum[m]);

        if (kind.is_delta)
            all = _mm256_add_epi32(all, _mm256_set1_epi32(9 * n));
        acc->v[m] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(all), scale),
                                    _mm256_set1_ps(x->d), acc->v[m]);
    }
}

INLINE void direct_grid(struct matmul_direct *d, const unsigned m_n, const struct grid_kind kind)
{
    const uint8_t *w = d->w;
    struct matmul_ahead ahead = d->ahead;
    struct grid_rows rows;
    struct direct_acc acc;

    direct_begin(d, m_n, &acc);
    for (uint32_t b = 0; b < d->K / 32; b += 8, w += kind.block_bytes) {
        for (unsigned i = 0; i < 8; i += 2)
            UNROLL for (unsigned j = 0; j < 2; j++)
            {
                prefetch_turn(&ahead, j, kind.block_bytes);
                kind.unpack(w + (i + j) * d->row_bytes, &rows.row[i + j]);
            }
        grid_transpose_signs(&rows);
        grid_transpose_scales(&rows, 0);
        if (kind.has_two)
            grid_transpose_scales(&rows, 8);
        for (unsigned g = 0; g < 8; g++) {
            grid_part(d, m_n, &rows, b, g, 0, kind, &acc);
            if (kind.has_two)
                grid_part(d, m_n, &rows, b, g, 1, kind, &acc);
        }
    }
    direct_end(d, m_n, &acc);
}

DIRECT(iq2_xxs, direct_grid(d, m_n, GRID_IQ2_XXS))
DIRECT(iq2_xs, direct_grid(d, m_n, GRID_IQ2_XS))
DIRECT(iq2_s, direct_grid(d, m_n, GRID_IQ2_S))
DIRECT(iq3_xxs, direct_grid(d, m_n, GRID_IQ3_XXS))
DIRECT(iq3_s, direct_grid(d, m_n, GRID_IQ3_S))
DIRECT(iq1_s, direct_grid(d, m_n, GRID_IQ1_S))
DIRECT(iq1_m, direct_grid(d, m_n, GRID_IQ1_M))
