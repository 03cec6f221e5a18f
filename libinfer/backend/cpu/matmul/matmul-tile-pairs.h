/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies two rows at once, for matmul-tile.h on CPUs with products of int8 matrices.
 *
 * An instruction multiplies 8 elements of each of two rows by 8 elements of each of two columns,
 * and adds the four results to the four lanes of a sum: the first row's two columns, then the
 * second row's. The panel holds units of 4 elements of 4 neighboring columns. Interleaving two
 * units, for 8 elements, gives two vectors with two columns each. Sums are integers, so they are
 * the same as those of tile_dots() in any order.
 */

/* Computes the same sums as tile_dots(), and has the same parameters. */
INLINE void tile_pairs(v_int sum[TILE_M][TILE_V], const uint8_t *act, size_t stride,
                       const unsigned m_n, const uint8_t (*q)[PANEL_N][4],
                       const struct tile_kind kind)
{
    v_int two[TILE_M / 2][2 * TILE_V];

    UNROLL for (unsigned m = 0; m < m_n / 2; m++) UNROLL for (unsigned v = 0; v < 2 * TILE_V; v++)
        two[m][v] = v_zero();
    UNROLL for (unsigned s = 0; s < kind.steps; s += 2)
    {
        v_int w[2 * TILE_V];

        UNROLL for (unsigned v = 0; v < TILE_V; v++)
        {
            const v_int low = v_load((const uint8_t *)q[s] + 4 * v * VEC_N);
            const v_int high = v_load((const uint8_t *)q[s + 1] + 4 * v * VEC_N);

            w[2 * v] = v_low32(low, high);
            w[2 * v + 1] = v_high32(low, high);
        }
        UNROLL for (unsigned m = 0; m < m_n / 2; m++)
        {
            const uint8_t *x = act + 2 * m * stride + 4 * s;
            const v_int a = v_load_pair(x, x + stride);

            UNROLL for (unsigned v = 0; v < 2 * TILE_V; v++) two[m][v] =
                v_matrix(two[m][v], a, w[v]);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n / 2; m++) UNROLL for (unsigned v = 0; v < TILE_V; v++)
    {
        const v_int a = two[m][2 * v], b = two[m][2 * v + 1];

        sum[2 * m][v] = v_add(sum[2 * m][v], v_low64(a, b));
        sum[2 * m + 1][v] = v_add(sum[2 * m + 1][v], v_high64(a, b));
    }
    if (m_n % 2 != 0)
        tile_dots(&sum[m_n - 1], act + (m_n - 1) * stride, stride, 1, q, kind);
}
