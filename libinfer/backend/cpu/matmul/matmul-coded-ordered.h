/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies the codes of GPTQ in a matrix with an order (act-order), for matmul-coded-gptq.h.
 *
 * The codes of a block lie in many words, so reading each word once for each of its codes would
 * take most of the time. Instead the words of GPTQ_COLUMNS columns are first split into lines: line
 * i has byte i of the stream of codes of each column. Then the lines with the codes of 4 places are
 * loaded, shifted to the lowest bits and interleaved, which gives vectors with 4 codes of each
 * column. The numbers of x are already in the order of places.
 */

#define ORDERED_LINE (GPTQ_V * VEC_N) /* bytes of a line: one for each column */

/* Splits the words of all columns into lines. */
static __attribute__((noinline)) void TILE_NAME(ordered_lines)(const struct gptq_place *p,
                                                               uint8_t *lines)
{
    static const uint8_t by_byte[16]
        __attribute__((aligned(16))) = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};

    for (uint32_t row = 0; row < p->n_rows; row++, lines += 4 * ORDERED_LINE) {
        const uint8_t *w = p->w + row * p->stride, *ahead = gptq_ahead(p, row);
        v_int v[4];

        UNROLL for (unsigned i = 0; i < 4; i++)
        {
            if (4 * VEC_N * i % 64 == 0)
                prefetch_line(ahead + 4 * VEC_N * i);
            v[i] = v_shuffle16(v_load(w + 4 * VEC_N * i), by_byte);
        }
        transpose(v);
        UNROLL for (unsigned j = 0; j < 4; j++) v_store(lines + j * ORDERED_LINE, v[j]);
    }
}
#define ordered_lines TILE_NAME(ordered_lines)

/* Returns the codes of column @k of the matrix, one in each byte. */
INLINE v_int ordered_codes(const uint8_t *lines, uint32_t k, const unsigned bits)
{
    const uint32_t bit = k * bits, at = bit % 8;
    const uint8_t *line = lines + (size_t)(bit / 8) * ORDERED_LINE;
    const uint32_t mask = ((1u << bits) - 1) * 0x01010101;
    v_int v = v_load(line);

    if (bits == 8)
        return v_xor(v, v_set(VEC_S8 ? 0x80808080 : 0));
    v = v_shr16(v, at);
    if (bits == 3) { /* The upper bits of a code may be in the next line. */
        const uint32_t here = (255u >> at) * 0x01010101 & mask;

        return v_or(v_and(v, v_set(here)),
                    v_and(v_shl16(v_load(line + ORDERED_LINE), 8 - at), v_set(mask & ~here)));
    }
    return v_and(v, v_set(mask));
}

/* Does the same as gptq_block(). */
INLINE void ordered_block(const struct gptq_place *p, const uint8_t *lines, uint32_t b,
                          const unsigned bits, const unsigned m_n, struct gptq_strip *s)
{
    const uint32_t *order = p->c->order + 32 * b;
    v_int sum[GPTQ_M][GPTQ_V];

    UNROLL for (unsigned m = 0; m < m_n; m++) UNROLL for (unsigned i = 0; i < GPTQ_V; i++)
        sum[m][i] = v_zero();
    for (unsigned u = 0; u < 8; u++, order += 4) {
        v_int row[4], v[GPTQ_V];

        UNROLL for (unsigned t = 0; t < 4; t++) row[t] = ordered_codes(lines, order[t], bits);
        awq_interleave(row, v);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_int x = cols_bcast(p->x[m][b].q + 4 * u);

            UNROLL for (unsigned i = 0; i < GPTQ_V; i++) sum[m][i] =
                gptq_dot(sum[m][i], v[i], x, bits);
        }
    }
    gptq_add_block(p, b, bits, m_n, sum, s);
}
