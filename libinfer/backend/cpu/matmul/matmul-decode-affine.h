/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes the affine formats of MLX (quant/affine.h) into a panel. Include it after
 * matmul-decode.h.
 *
 * Codes and planes are decoded by separate functions. The panel is then like one of Q4_1, so that
 * the kernel that multiplies panels of Q4_K multiplies it.
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

            prefetch_step(*ahead, 0, PANEL_AHEAD(VEC_N * 8), false);
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

static void TILE_NAME(decode_mlx4)(struct matmul_panel *p, unsigned half, const uint8_t *w,
                                   size_t row_bytes, uint32_t kc, const uint8_t **ahead)
{
    for (uint32_t k = 0; k < kc; k += 32, w += 16) {
        for (unsigned c = 0; c < 16; c += VEC_N) {
            v_int v[4];

            load_rows16_ahead(w + c * row_bytes, row_bytes, v, *ahead, 0, VEC_N * 4);
            *ahead += PANEL_AHEAD(VEC_N * 16);
            UNROLL for (unsigned i = 0; i < 8; i++)
                v_store(p->q[k / 4 + i][16 * half + c], affine_spread4(v[i / 2], i % 2 * 2));
        }
    }
}

/* Returns the bits of a float, or for F16 and E4M3 the bits of a half. The half is the number in
 * F16; in E4M3 it is 2^-8 of the number. */
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

/* Loads element @at of a plane from each row, and converts it (see plane_bits()). Missing rows are
 * 0. */
INLINE void plane_fields(const struct matmul_planes *p, const uint8_t *plane, size_t at, float *dst)
{
    uint32_t words[16] __attribute__((aligned(64))) = {0};
    const bool halves = p->type == PLANE_F16 || p->type == PLANE_E4M3;

    for (unsigned i = 0; i < p->n_rows; i++)
        words[i] = plane_bits(p->type, plane + i * p->row_bytes + at * plane_bytes(p->type));
    for (unsigned c = 0; c < 16; c += VEC_N) {
        const v_int v = v_load(&words[c]);

        if (halves)
            v_storef(dst + c, v_from_f16_low(v));
        else
            v_store(dst + c, v);
    }
}

static void TILE_NAME(decode_planes)(struct matmul_panel *panel, unsigned half,
                                     const struct matmul_planes *p, uint32_t k, uint32_t kc)
{
    for (uint32_t b = 0; b < kc / 32; b++) {
        const uint32_t at = (k + 32 * b) / p->group;
        float *scale = &panel->scale[b][16 * half], *offset = &panel->offset[b][16 * half];

        if (b > 0 && at == (k + 32 * (b - 1)) / p->group) {
            memcpy(scale, scale - PANEL_N, 16 * sizeof(float));
            memcpy(offset, offset - PANEL_N, 16 * sizeof(float));
            continue;
        }
        plane_fields(p, p->scales, at, scale);
        plane_fields(p, p->offsets, at, offset);
    }
}
