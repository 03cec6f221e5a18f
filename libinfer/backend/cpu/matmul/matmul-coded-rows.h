/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the codes of CT4, CT8 and INT8 (quant/coded.h) to panels, for matmul-coded.h. The codes of
 * a row of W are neighbors.
 */

/* Prefetches a part of the next PANEL_N rows of codes, which are read soon. The part has as many
 * bytes as @n_k columns of these rows, and parts are in the order of addresses. */
INLINE void coded_ahead_rows(const struct coded *c, uint32_t n, uint32_t k, const unsigned n_k,
                             const unsigned bits)
{
    const uint8_t *next = (const uint8_t *)c->codes + (uint64_t)(n + PANEL_N) * c->cols * bits / 8 +
                          (uint64_t)k * PANEL_N * bits / 8;

    UNROLL for (unsigned i = 0; i < n_k * PANEL_N * bits / 8; i += 64)
        __builtin_prefetch(next + i, 0, 2);
}

INLINE void coded_units_ct4(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                            unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const size_t stride = c->cols / 2;
    const uint8_t *w = (const uint8_t *)c->codes + n * stride + k / 2;

    n_units == 8 ? coded_ahead_rows(c, n, k, 32, 4) : coded_ahead_rows(c, n, k, 16, 4);
    for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
        const v_int add = v_load(cols->add + j);
        v_int v[4] = {v_zero(), v_zero(), v_zero(), v_zero()};

        if (n_units == 8)
            load_rows16(w + j * stride, stride, v);
        else
            UNROLL for (unsigned i = 0; i < 2; i++) v[i] =
                affine_load(w + j * stride + 4 * i, stride);
        for (unsigned i = 0; i < n_units / 2; i++) {
            v_store(p->q[to + 2 * i][j], v_add(affine_spread4(v[i], 0), add));
            v_store(p->q[to + 2 * i + 1][j], v_add(affine_spread4(v[i], 2), add));
        }
    }
}

INLINE void coded_units_rows8(struct matmul_panel *p, const struct coded *c, uint32_t n, uint32_t k,
                              unsigned to, unsigned n_units, const struct coded_columns *cols)
{
    const uint32_t flip = VEC_S8 ^ (c->dtype == INF_DTYPE_INT8) ? 0x80808080 : 0;
    const uint8_t *w = (const uint8_t *)c->codes + (uint64_t)n * c->cols + k;

    (void)cols;
    for (unsigned i = 0; i < n_units; i += 4) {
        coded_ahead_rows(c, n, k + 4 * i, 16, 8);
        for (unsigned j = 0; j < PANEL_N; j += VEC_N) {
            v_int v[4];

            load_rows16(w + j * (size_t)c->cols + 4 * i, c->cols, v);
            UNROLL for (unsigned t = 0; t < 4; t++)
                v_store(p->q[to + i + t][j], v_xor(v[t], v_set(flip)));
        }
    }
}
