/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Loads and transposes 64 bytes of each of 16 rows of W, with AVX-512. */

#include <immintrin.h>

#include "backend/cpu/matmul/matmul-prefetch.h"

/* Transposes 16 rows of 16 units of 4 bytes: afterwards lane i of v[j] is unit j of row i. */
INLINE void transpose16(__m512i v[16])
{
    __m512i t[16];

    UNROLL for (unsigned i = 0; i < 16; i += 4)
    {
        const __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        const __m512i b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]);
        const __m512i d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);

        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    /* Quarter q of t[4 r + c] holds unit 4 q + c of the rows 4 r … 4 r + 3. */
    UNROLL for (unsigned c = 0; c < 4; c++)
    {
        const __m512i a = _mm512_shuffle_i32x4(t[c], t[4 + c], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(t[c], t[4 + c], 0xdd);
        const __m512i e = _mm512_shuffle_i32x4(t[8 + c], t[12 + c], 0xdd);

        v[c] = _mm512_shuffle_i32x4(a, b, 0x88);
        v[8 + c] = _mm512_shuffle_i32x4(a, b, 0xdd);
        v[4 + c] = _mm512_shuffle_i32x4(d, e, 0x88);
        v[12 + c] = _mm512_shuffle_i32x4(d, e, 0xdd);
    }
}

/* Loads the 64 bytes at @p of each of 16 rows, so that lane i of v[j] is 4-byte unit j of row i.
 * Also does 16 prefetch steps of PANEL_AHEAD(@n_ahead) bytes each. */
INLINE void load_lines(const uint8_t *p, size_t row_bytes, const uint8_t **ahead,
                       const unsigned n_ahead, __m512i v[16])
{
    UNROLL for (unsigned i = 0; i < 16; i++)
    {
        prefetch_step(*ahead, i, PANEL_AHEAD(n_ahead));
        v[i] = _mm512_loadu_si512(p + i * row_bytes);
    }
    *ahead += PANEL_AHEAD(16 * n_ahead);
    transpose16(v);
}
