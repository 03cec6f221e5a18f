/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies a panel of floats (matmul-kernels.h) by prepared rows of floats, for matmul-tile.h.
 *
 * In the panels of FP8 and MXFP8, a float is the number that a code stands for, divided by 256, and
 * a part of successive k shares a scale. The sum of a part is a chain of fma, and is then
 * multiplied by 256 and by the scale.
 */

INLINE void tile_float(const struct matmul_tile *t, uint32_t m0, const unsigned m_n, unsigned col)
{
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *init = t->init + m0 * t->init_stride + col;
    float *y = t->y + m0 * t->ldy + col;
    struct tile_ahead ahead = tile_ahead(t, m0, col == 0 ? m_n : 0, t->kc);
    v_flt acc[TILE_FM][TILE_FV];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_FV; v++)
        acc[m][v] = v_setf(0);
    for (uint32_t k = 0; k < t->kc; k++, act += sizeof(float)) {
        v_flt w[TILE_FV];

        tile_prefetch(&ahead);
        UNROLL for (unsigned v = 0; v < TILE_FV; v++) w[v] =
            v_loadf(&t->panel->f[k][col + v * VEC_N]);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_flt x = v_bcastf((const float *)(act + m * t->act_stride));

            UNROLL for (unsigned v = 0; v < TILE_FV; v++) acc[m][v] = v_fma(w[v], x, acc[m][v]);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_FV; v++)
    {
        const v_flt first = v_loadf(init + m * t->init_stride + v * VEC_N);

        v_storef(y + m * t->ldy + v * VEC_N, v_addf(first, acc[m][v]));
    }
}

static void TILE_NAME(multiply_float)(const struct matmul_tile *t)
{
    uint32_t m = 0;

    for (; m + TILE_FM <= t->M; m += TILE_FM)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_float(t, m, TILE_FM, col);
    for (; m + 4 <= t->M; m += 4)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_float(t, m, 4, col);
    for (; m < t->M; m++)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_float(t, m, 1, col);
}

/* Multiplies a panel whose parts of @part elements of k have a scale each. */
INLINE void tile_parts(const struct matmul_tile *t, uint32_t m0, const unsigned m_n, unsigned col,
                       const unsigned part)
{
    const uint8_t *act = t->act + m0 * t->act_stride;
    const float *init = t->init + m0 * t->init_stride + col;
    float *y = t->y + m0 * t->ldy + col;
    struct tile_ahead ahead = tile_ahead(t, m0, col == 0 ? m_n : 0, t->kc);
    v_flt chunk[TILE_FM][TILE_FV];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_FV; v++)
        chunk[m][v] = v_setf(0);
    for (uint32_t k = 0; k < t->kc;) {
        const uint32_t end = MIN(k + part, t->kc), i_scale = k / part;
        v_flt sum[TILE_FM][TILE_FV];

        UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_FV; v++)
            sum[m][v] = v_setf(0);
        for (; k < end; k++, act += sizeof(float)) {
            v_flt w[TILE_FV];

            tile_prefetch(&ahead);
            UNROLL for (unsigned v = 0; v < TILE_FV; v++) w[v] =
                v_loadf(&t->panel->f[k][col + v * VEC_N]);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const v_flt x = v_bcastf((const float *)(act + m * t->act_stride));

                UNROLL for (unsigned v = 0; v < TILE_FV; v++) sum[m][v] = v_fma(w[v], x, sum[m][v]);
            }
        }
        UNROLL for (unsigned v = 0; v < TILE_FV; v++)
        {
            const v_flt scale = v_loadf(&t->panel->scale[i_scale][col + v * VEC_N]);

            UNROLL for (unsigned m = 0; m < m_n; m++) chunk[m][v] =
                v_fma(v_mulf(sum[m][v], v_setf(256)), scale, chunk[m][v]);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned v = 0; v < TILE_FV; v++)
    {
        const v_flt first = v_loadf(init + m * t->init_stride + v * VEC_N);

        v_storef(y + m * t->ldy + v * VEC_N, v_addf(first, chunk[m][v]));
    }
}

INLINE void multiply_parts(const struct matmul_tile *t, const unsigned part)
{
    uint32_t m = 0;

    for (; m + TILE_FM <= t->M; m += TILE_FM)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_parts(t, m, TILE_FM, col, part);
    for (; m + 4 <= t->M; m += 4)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_parts(t, m, 4, col, part);
    for (; m < t->M; m++)
        for (unsigned col = 0; col < PANEL_N; col += TILE_FV * VEC_N)
            tile_parts(t, m, 1, col, part);
}

static void TILE_NAME(multiply_parts128)(const struct matmul_tile *t)
{
    multiply_parts(t, 128);
}

static void TILE_NAME(multiply_parts32)(const struct matmul_tile *t)
{
    multiply_parts(t, 32);
}

static void TILE_NAME(multiply_parts16)(const struct matmul_tile *t)
{
    multiply_parts(t, 16);
}
