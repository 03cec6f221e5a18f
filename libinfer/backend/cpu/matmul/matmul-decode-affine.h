/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes the formats of MLX (quant/affine.h) into a panel. Include it after matmul-decode.h.
 *
 * Codes and planes are decoded by separate functions. With codes of up to 4 bits, the panel is like
 * a panel of Q4_1, so the kernel for panels of Q4_K multiplies it. Codes of 8 bits are like those
 * of Q8_0: a weight is scale × (q - 128) + (offset + 128 × scale), where the second term is rounded
 * once. The panel holds a weight of NVFP4 as v + 32, where the integer v, -12 … 12, is twice the
 * value of the code. The kernel of Q6_K multiplies this panel. MXFP8 is decoded to floats.
 */

/* Returns the 4 codes of 2 bits in byte @i of each lane, one per byte. */
INLINE v_int affine_spread2(v_int v, const unsigned i)
{
    v = v_and(v_shr(v, 8 * i), v_set(0xff));
    v = v_or(v, v_shl(v, 12));
    return v_and(v_or(v, v_shl(v, 6)), v_set(0x03030303));
}

/* Returns the 4 codes of 4 bits in bytes @i and @i + 1 of each lane, one per byte. */
INLINE v_int affine_spread4(v_int v, const unsigned i)
{
    v = v_and(v_shr(v, 8 * i), v_set(0xffff));
    v = v_and(v_or(v, v_shl(v, 8)), v_set(0x00ff00ff));
    return v_and(v_or(v, v_shl(v, 4)), v_set(0x0f0f0f0f));
}

/* Loads 4 bytes of each of VEC_N rows. */
INLINE v_int affine_load(const uint8_t *p, size_t row_bytes)
{
    uint32_t words[VEC_N] __attribute__((aligned(64)));

    UNROLL for (unsigned i = 0; i < VEC_N; i++) memcpy(&words[i], p + i * row_bytes, 4);
    return v_load(words);
}

static void TILE_NAME(decode_mlx2)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 8) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            const unsigned col = 16 * half + c;

            prefetch_step(*ahead, 0, PANEL_AHEAD(VEC_N * 8));
            *ahead += PANEL_AHEAD(VEC_N * 8);
            UNROLL for (unsigned j = 0; j < 2; j++)
            {
                const v_int v = affine_load(w + 4 * j + c * row_bytes, row_bytes);

                UNROLL for (unsigned i = 0; i < 4; i++)
                    v_store(p->q[k / 4 + 4 * j + i][col], affine_spread2(v, i));
            }
        }
    }
}

/* Decodes codes of 4 bits. @table has the byte in the panel for each code; NULL: the code itself.
 */
INLINE void affine_decode4(struct matmul_panel *p, unsigned half, const uint8_t *w,
                           size_t row_bytes, uint32_t kc, const uint8_t **ahead,
                           const uint8_t *table)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 16) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * 4);
            *ahead += PANEL_AHEAD(VEC_N * 16);
            UNROLL for (unsigned i = 0; i < 8; i++)
            {
                const v_int q = affine_spread4(v[i / 2], i % 2 * 2);

                v_store(p->q[k / 4 + i][16 * half + c], table ? v_table16(q, table) : q);
            }
        }
    }
}

static void TILE_NAME(decode_mlx4)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    affine_decode4(p, half, w, row_bytes, kc, ahead, NULL);
}

/* Returns the 4 codes of @bits bits that begin at bit @at of the @bits words of each lane, one per
 * byte. */
INLINE v_int affine_spread(const v_int *w, const unsigned bits, const unsigned at)
{
    const uint32_t mask = (1u << bits) - 1;
    v_int v = at % 32 > 0 ? v_shr(w[at / 32], at % 32) : w[at / 32];

    if (at % 32 + 4 * bits > 32)
        v = v_or(v, v_shl(w[at / 32 + 1], 32 - at % 32));
    const v_int a = v_and(v, v_set(mask)), b = v_and(v_shl(v, 8 - bits), v_set(mask << 8));
    const v_int c = v_and(v_shl(v, 16 - 2 * bits), v_set(mask << 16));
    const v_int d = v_and(v_shl(v, 24 - 3 * bits), v_set(mask << 24));

    return v_or(v_or(a, b), v_or(c, d));
}

/* Decodes codes of 3, 5 or 6 bits, some of which lie in two bytes: 32 codes of a row are @bits
 * words. */
INLINE void affine_words(struct matmul_panel *p, unsigned half, const uint8_t *w, size_t row_bytes,
                         uint32_t kc, const unsigned bits, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 4 * bits) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int words[6];

            prefetch_step(*ahead, 0, PANEL_AHEAD(VEC_N * 4 * bits));
            *ahead += PANEL_AHEAD(VEC_N * 4 * bits);
            UNROLL for (unsigned i = 0; i < bits; i++) words[i] =
                affine_load(w + 4 * i + c * row_bytes, row_bytes);
            UNROLL for (unsigned i = 0; i < 8; i++)
                v_store(p->q[k / 4 + i][16 * half + c], affine_spread(words, bits, 4 * bits * i));
        }
    }
}

#define AFFINE_WORDS(bits)                                                                         \
    static void TILE_NAME(decode_mlx##bits)(struct matmul_panel * p, unsigned half,                \
                                            const uint8_t *w, size_t row_bytes, uint32_t kc,       \
                                            const uint8_t **ahead)                                 \
    {                                                                                              \
        affine_words(p, half, w, row_bytes, kc, bits, ahead);                                      \
    }
AFFINE_WORDS(3)
AFFINE_WORDS(5)
AFFINE_WORDS(6)

static void TILE_NAME(decode_mlx8)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    const v_int sign = v_set(VEC_S8 ? 0x80808080 : 0);

    for (uint32_t k = 0; k < kc; k += 16, w += 16) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * 4);
            *ahead += PANEL_AHEAD(VEC_N * 16);
            UNROLL for (unsigned i = 0; i < 4; i++)
                v_store(p->q[k / 4 + i][16 * half + c], v_xor(v[i], sign));
        }
    }
}

/* v + 32 for each code, where v is twice the value of the code. */
static const uint8_t nvfp4_codes[16] __attribute__((aligned(16))) = {
    32, 33, 34, 35, 36, 38, 40, 44, 32, 31, 30, 29, 28, 26, 24, 20,
};

static void TILE_NAME(decode_nvfp4_planes)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                           size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    affine_decode4(p, half, w, row_bytes, kc, ahead, nvfp4_codes);
}

/* Converts the number in E4M3 in byte @i of each lane to float, divided by 256. */
INLINE v_flt e4m3_get(v_int v, const unsigned i)
{
    const v_int x = v_shl(v_and(v_shr(v, 8 * i), v_set(0x7f)), 7);
    /* The exponent of NaN becomes that of NaN in F16. */
    const v_int nan = v_and(v_add(x, v_set(0x80)), v_set(0x4000));
    const v_int sign = v_and(i > 0 ? v_shr(v, 8 * i - 8) : v_shl(v, 8), v_set(0x8000));

    return v_from_f16_low(v_or(v_or(x, nan), sign));
}

static void TILE_NAME(decode_mxfp8)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                    size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 16, w += 16) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * 4);
            *ahead += PANEL_AHEAD(VEC_N * 16);
            UNROLL for (unsigned i = 0; i < 16; i++)
                v_storef(&p->f[k + i][16 * half + c], e4m3_get(v[i / 4], i % 4));
        }
    }
}

/* Returns the bits of the number at @p as a float or, for F16 and E4M3, as a half (binary16). The
 * half for a number in E4M3 is 2^-8 times the number. */
INLINE uint32_t plane_bits(enum plane_type type, const uint8_t *p)
{
    uint32_t word = 0;
    uint16_t half;

    if (type == PLANE_E8M0)
        return *p > 0 ? (uint32_t)*p << 23 : 0x00400000;
    if (type == PLANE_E4M3)
        return (*p & 0x80u) << 8 | ((*p & 0x7f) == 0x7f ? 0x7e00 : (*p & 0x7fu) << 7);
    if (type == PLANE_F32) {
        memcpy(&word, p, sizeof(word));
        return word;
    }
    memcpy(&half, p, sizeof(half));
    return type == PLANE_BF16 ? (uint32_t)half << 16 : half;
}

/* Reads @n elements of a plane from element @at on: words[g][i] is the element of group g and row
 * i. */
INLINE void plane_gather(const struct matmul_planes *p, const uint8_t *plane,
                         const enum plane_type type, size_t at, uint32_t n, uint32_t (*words)[16])
{
    plane += at * plane_bytes(type);
    for (unsigned i = 0; i < p->n_rows; i++, plane += p->row_bytes)
        for (uint32_t g = 0; g < n; g++)
            words[g][i] = plane_bits(type, plane + g * plane_bytes(type));
}

/* Does what plane_gather() does. All words are stored before the first is loaded as a part of a
 * vector, because a load of bytes that several stores have just written waits for these stores.
 * Missing rows are 0. */
static void TILE_NAME(plane_words)(const struct matmul_planes *p, const uint8_t *plane, size_t at,
                                   uint32_t n, uint32_t (*words)[16])
{
    if (p->n_rows < 16)
        memset(words, 0, n * sizeof(*words));
    if (p->type == PLANE_F32)
        plane_gather(p, plane, PLANE_F32, at, n, words);
    else if (p->type == PLANE_F16)
        plane_gather(p, plane, PLANE_F16, at, n, words);
    else if (p->type == PLANE_BF16)
        plane_gather(p, plane, PLANE_BF16, at, n, words);
    else if (p->type == PLANE_E8M0)
        plane_gather(p, plane, PLANE_E8M0, at, n, words);
    else
        plane_gather(p, plane, PLANE_E4M3, at, n, words);
}

/* Converts the elements of a group in VEC_N rows, as plane_bits() describes them. */
INLINE v_flt plane_floats(const struct matmul_planes *p, const uint32_t *words)
{
    const v_int v = v_load(words);

    return p->type == PLANE_F16 || p->type == PLANE_E4M3 ? v_from_f16_low(v) : v_bits(v);
}

static void TILE_NAME(decode_planes)(struct matmul_panel *panel, unsigned half,
                                     const struct matmul_planes *p, uint32_t k, uint32_t kc)
{
    uint32_t scales[PANEL_K / 32][16] __attribute__((aligned(64)));
    uint32_t offsets[PANEL_K / 32][16] __attribute__((aligned(64)));
    const uint32_t first = k / p->group, n = (k + kc - 1) / p->group - first + 1;

    TILE_NAME(plane_words)(p, p->scales, first, n, scales);
    TILE_NAME(plane_words)(p, p->offsets, first, n, offsets);
    for (uint32_t b = 0; b < kc / 32; b++) {
        const uint32_t g = (k + 32 * b) / p->group - first;

        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_storef(&panel->scale[b][16 * half + c], plane_floats(p, &scales[g][c]));
            v_storef(&panel->offset[b][16 * half + c], plane_floats(p, &offsets[g][c]));
        }
    }
}

static void TILE_NAME(decode_planes8)(struct matmul_panel *panel, unsigned half,
                                      const struct matmul_planes *p, uint32_t k, uint32_t kc)
{
    TILE_NAME(decode_planes)(panel, half, p, k, kc);
    for (uint32_t b = 0; b < kc / 32; b++)
        for (unsigned c = 16 * half; c < 16 * half + 16; c += VEC_N)
            v_storef(&panel->offset[b][c], v_fma(v_setf(128), v_loadf(&panel->scale[b][c]),
                                                 v_loadf(&panel->offset[b][c])));
}

static void TILE_NAME(decode_planes_nvfp4)(struct matmul_panel *panel, unsigned half,
                                           const struct matmul_planes *p, uint32_t k, uint32_t kc)
{
    uint32_t scales[PANEL_K / 16][16] __attribute__((aligned(64)));

    TILE_NAME(plane_words)(p, p->scales, k / 16, kc / 16, scales);
    for (uint32_t b = 0; b < kc / 16; b++)
        for (unsigned c = 0; c < 16; c += VEC_N)
            v_storef(&panel->scale[b][16 * half + c],
                     v_mulf(plane_floats(p, &scales[b][c]), v_setf(128)));
}

static void TILE_NAME(decode_planes_mxfp8)(struct matmul_panel *panel, unsigned half,
                                           const struct matmul_planes *p, uint32_t k, uint32_t kc)
{
    uint32_t scales[PANEL_K_F32 / 32][16] __attribute__((aligned(64)));

    TILE_NAME(plane_words)(p, p->scales, k / 32, kc / 32, scales);
    for (uint32_t b = 0; b < kc / 32; b++)
        for (unsigned c = 0; c < 16; c += VEC_N)
            v_storef(&panel->scale[b][16 * half + c], plane_floats(p, &scales[b][c]));
}
