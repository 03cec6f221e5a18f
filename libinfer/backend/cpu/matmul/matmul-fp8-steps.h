/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads, transposes, converts and multiplies the codes of FP8 and MXFP8, for matmul-direct-fp8.h.
 *
 * 4 × VEC_N bytes of each of VEC_N rows, a *step*, are loaded and transposed, so that 16-bit lanes
 * with two codes belong to a row of W. Shifts turn the codes into numbers in binary16, which are
 * 2^-8 of the numbers in E4M3. These numbers are written to a buffer in the first-level cache,
 * because converting them from there to floats needs no shuffle. Additions to a sum wait for each
 * other, so four vectors of sums are computed side by side: those of 4 / FP8_VECS chunks of k.
 */

#define FP8_ROWS  16u         /* rows of W that are multiplied together */
#define FP8_STEP  (4 * VEC_N) /* elements of k of a step */
#define FP8_VECS  (FP8_ROWS / VEC_N)
#define FP8_SIDE  (4u / FP8_VECS) /* chunks of k that are computed side by side */
#define FP8_PARTS (PANEL_K_F32 / 32)

/* Holds the numbers of a step of VEC_N rows: [h][c][o][q] has element 32 h + 16 q + 2 c + o. */
typedef uint16_t fp8_halves[VEC_N / 8][8][2][2][VEC_N];

/* Shows whether a code of NaN, 0x7f or 0xff, was loaded. */
struct fp8_seen {
    v_int u8, s8; /* the largest bytes, without and with a sign */
};

/* Holds the sums of the chunks that are computed side by side. */
struct fp8_sums {
    v_flt part[FP8_SIDE][FP8_VECS][DIRECT_M], chunk[FP8_SIDE][FP8_VECS][DIRECT_M];
    v_flt scale[FP8_SIDE][FP8_VECS][FP8_PARTS]; /* one scale for a chunk: only the first */
};

#if VEC_N == 16
#define fp8_max_u8(a, b) _mm512_max_epu8(a, b)
#define fp8_max_s8(a, b) _mm512_max_epi8(a, b)
#define fp8_shl8(v)      _mm512_slli_epi16(v, 8)
#define fp8_half(v)      v_and(_mm512_srai_epi16(v, 1), v_set(0xbf80bf80))
#else
#define fp8_max_u8(a, b) _mm256_max_epu8(a, b)
#define fp8_max_s8(a, b) _mm256_max_epi8(a, b)
#define fp8_shl8(v)      _mm256_slli_epi16(v, 8)
#define fp8_half(v)      v_and(_mm256_srai_epi16(v, 1), v_set(0xbf80bf80))
#endif

/* Transposes the 16-bit units of 8 rows within each 16 bytes: unit c of row i becomes unit i of
 * v[c]. */
INLINE void fp8_transpose8(v_int v[8])
{
    v_int a[8], b[8];

    UNROLL for (unsigned i = 0; i < 4; i++)
    {
        a[i] = v_low16(v[2 * i], v[2 * i + 1]);
        a[4 + i] = v_high16(v[2 * i], v[2 * i + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        b[i + j] = v_low32(a[i + 2 * j], a[i + 2 * j + 1]);
        b[i + 2 + j] = v_high32(a[i + 2 * j], a[i + 2 * j + 1]);
    }
    UNROLL for (unsigned i = 0; i < 8; i += 4) UNROLL for (unsigned j = 0; j < 2; j++)
    {
        v[i + 2 * j] = v_low64(b[i + 2 * j], b[i + 2 * j + 1]);
        v[i + 2 * j + 1] = v_high64(b[i + 2 * j], b[i + 2 * j + 1]);
    }
}

/* Loads the step at @w of VEC_N rows: 16-bit unit l of v[8 h + c] has the elements 32 h + 16 (l /
 * VEC_N) + 2 c and 32 h + 16 (l / VEC_N) + 2 c + 1 of row l % VEC_N. */
INLINE void fp8_load(struct matmul_direct *d, const uint8_t *w, struct fp8_seen *seen,
                     v_int v[VEC_N])
{
    UNROLL for (unsigned i = 0; i < VEC_N; i++)
    {
        prefetch_turn(&d->ahead, i, FP8_STEP);
        v[i] = v_load(w + i * d->row_bytes);
        seen->u8 = fp8_max_u8(seen->u8, v[i]);
        seen->s8 = fp8_max_s8(seen->s8, v[i]);
    }
    fp8_transpose8(v);
#if VEC_N == 16
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i last = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);

    fp8_transpose8(v + 8);
    UNROLL for (unsigned c = 0; c < 8; c++)
    {
        const v_int a = v[c], b = v[8 + c];

        v[c] = _mm512_permutex2var_epi64(a, first, b);
        v[8 + c] = _mm512_permutex2var_epi64(a, last, b);
    }
#endif
}

/* Loads the step at @w and writes its numbers to @dst. */
INLINE void fp8_convert(struct matmul_direct *d, const uint8_t *w, struct fp8_seen *seen,
                        fp8_halves dst)
{
    v_int v[VEC_N];

    fp8_load(d, w, seen, v);
    UNROLL for (unsigned i = 0; i < VEC_N; i++)
    {
        v_store(dst[i / 8][i % 8][0], fp8_half(fp8_shl8(v[i])));
        v_store(dst[i / 8][i % 8][1], fp8_half(v[i]));
    }
}

/* Ends the sums of part @i of chunk @s. */
INLINE void fp8_end_part(struct fp8_sums *a, const unsigned m_n, const unsigned s, const unsigned i)
{
    UNROLL for (unsigned r = 0; r < FP8_VECS; r++) UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        a->chunk[s][r][m] =
            v_fma(v_mulf(a->part[s][r][m], v_setf(256)), a->scale[s][r][i], a->chunk[s][r][m]);
        a->part[s][r][m] = v_setf(0);
    }
}

/* Adds element 16 @q + @c of the steps of the @n chunks from chunk @s0 on; @x is this element of
 * the step of chunk 0 in the first prepared row. */
INLINE void fp8_add_one(const struct matmul_direct *d, const unsigned m_n, const unsigned s0,
                        const unsigned n, const uint8_t *x, unsigned q, const unsigned c,
                        fp8_halves half[FP8_SIDE][FP8_VECS], struct fp8_sums *a)
{
    UNROLL for (unsigned s = s0; s < s0 + n; s++)
    {
        v_flt w[FP8_VECS];

        UNROLL for (unsigned r = 0; r < FP8_VECS; r++) w[r] =
            v_from_f16(half[s][r][q / 2][c / 2][c % 2][q % 2]);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_flt one = v_bcastf((const float *)(x + m * d->act_stride) + s * PANEL_K_F32);

            UNROLL for (unsigned r = 0; r < FP8_VECS; r++) a->part[s][r][m] =
                v_fma(w[r], one, a->part[s][r][m]);
        }
    }
}

/* Describes the step that is converted while the step before it is added. */
struct fp8_next {
    const uint8_t *w; /* of the first chunk */
    unsigned n;       /* chunks */
    fp8_halves (*to)[FP8_VECS];
};

/* Converts VEC_N rows of a chunk of the next step: @i is less than 4. */
INLINE void fp8_convert_next(struct matmul_direct *d, const struct fp8_next *next, unsigned i,
                             struct fp8_seen *seen)
{
    const unsigned s = i / FP8_VECS, r = i % FP8_VECS;

    if (s < next->n)
        fp8_convert(d, next->w + r * VEC_N * d->row_bytes + s * PANEL_K_F32, seen, next->to[s][r]);
}

/* Adds a step of the @n chunks from chunk @s0 on. The step of chunk 0 begins at @k, and is in part
 * @i_part of the chunk. If @next is not NULL, converts that step, a little at a time, so that a CPU
 * that executes instructions out of order always finds shuffles and multiplications close
 * together. */
INLINE void fp8_add(struct matmul_direct *d, const unsigned m_n, const unsigned part,
                    const unsigned s0, const unsigned n, size_t k, uint32_t i_part,
                    fp8_halves half[FP8_SIDE][FP8_VECS], struct fp8_sums *a,
                    const struct fp8_next *next, struct fp8_seen *seen)
{
    for (unsigned q = 0; q < VEC_N / 4; q++) {
        const uint8_t *x = d->act + (k + 16 * q) * sizeof(float);

        UNROLL for (unsigned c = 0; c < 16; c++)
        {
            if (next && c % VEC_N == 0)
                fp8_convert_next(d, next, (16 * q + c) / VEC_N, seen);
            fp8_add_one(d, m_n, s0, n, x + c * sizeof(float), q, c, half, a);
        }
        if (part == 32 && q % 2 == 1)
            UNROLL for (unsigned s = s0; s < s0 + n; s++) fp8_end_part(a, m_n, s, i_part + q / 2);
    }
}

/* Adds a step of the first @n chunks, and converts the step @next. */
INLINE void fp8_add_chunks(struct matmul_direct *d, const unsigned m_n, const unsigned part,
                           const unsigned n, size_t k, uint32_t i_part,
                           fp8_halves half[FP8_SIDE][FP8_VECS], struct fp8_sums *a,
                           const struct fp8_next *next, struct fp8_seen *seen)
{
    const unsigned some = FP8_SIDE / 2;

    if (n == FP8_SIDE && 4 * m_n <= VEC_N) {
        fp8_add(d, m_n, part, 0, FP8_SIDE, k, i_part, half, a, next, seen);
        return;
    }
    for (unsigned i = 0; i < 4; i++)
        fp8_convert_next(d, next, i, seen);
    UNROLL for (unsigned s = 0; s < FP8_SIDE; s += some)
    {
        if (s + some <= n)
            fp8_add(d, m_n, part, s, some, k, i_part, half, a, NULL, seen);
        else if (s < n)
            fp8_add(d, m_n, part, s, 1, k, i_part, half, a, NULL, seen);
    }
}
