/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that blocks made of weights with planes (graph/weight.h) have the values of these
 * weights. */
#include "backend/joined.h"

#include <string.h>

#include "core/half.h"
#include "lib/test.h"
#include "quant/dtype.h"

enum { ROWS = 8, COLS_MOST = 384, DECODED_MOST = ROWS * COLS_MOST * sizeof(float) };

static uint8_t codes[ROWS * COLS_MOST], planes[2][2 * ROWS * COLS_MOST],
    blocks[DECODED_MOST] __attribute__((aligned(4)));

/* Fills codes with random bytes, and planes with ordinary F16 numbers. */
static void fill(void)
{
    uint32_t x = 1;

    for (size_t i = 0; i < sizeof(codes); i++) {
        x = x * 1664525 + 1013904223;
        codes[i] = (uint8_t)(x >> 24);
    }
    for (size_t i = 0; i < sizeof(planes) / sizeof(planes[0]); i++)
        for (size_t j = 0; j < sizeof(planes[i]); j += 2) {
            const uint16_t h = f16_from_f32(0.01f * (float)((i + 3) * j % 1009));

            memcpy(planes[i] + j, &h, sizeof(h));
        }
}

static unsigned code_of(const uint8_t *words, uint32_t k)
{
    return words[k / 16 * 4 + k % 4] >> (k / 4 % 4 * 2) & 3;
}

static float half_at(const uint8_t *p)
{
    uint16_t h;

    memcpy(&h, p, sizeof(h));
    return f16_to_f32(h);
}

/* Returns weight @i of a block with floats as scales. */
static float wide_at(const struct weight *w, enum inf_dtype dtype, const uint8_t *block, uint32_t i)
{
    float d[2];
    uint32_t q;

    memcpy(d, block, sizeof(d));
    if (dtype == INF_DTYPE_FP8)
        return d[0] * e4m3_to_f32(block[4 + i]);
    q = dtype == INF_DTYPE_MLX8 ? block[8 + i] : block[8 + i % 16] >> i / 16 * 4 & 15;
    return dtype == INF_DTYPE_NF4 ? d[i / 16] * joined_table(w)[q] : d[0] * (float)q + d[1];
}

/* Decodes a row of blocks as joined.h describes them. */
static void decode(const struct weight *w, enum inf_dtype dtype, const uint8_t *row, float *dst)
{
    for (uint32_t k = 0; k < w->cols; k++) {
        const uint8_t *block = row + k / 128 * 36;

        if (dtype == INF_DTYPE_BITNET)
            dst[k] = joined_factor(w) * (float)((int)code_of(row, k) - 1);
        else if (dtype == INF_DTYPE_MLX2)
            dst[k] = half_at(block) * (float)code_of(block + 4, k % 128) + half_at(block + 2);
        else if (joined_wide_bytes(dtype) > 0)
            dst[k] = wide_at(w, dtype, row + k / 32 * joined_wide_bytes(dtype), k % 32);
    }
    if (dtype_info(dtype)->decode)
        dtype_info(dtype)->decode(row, dst, w->cols);
}

static void check_weight(const struct weight *w, enum inf_dtype dtype)
{
    float want[COLS_MOST], got[COLS_MOST];
    struct joined j;

    assert_true(joined_layout(w, &j));
    assert_int_equal(j.dtype, dtype);
    assert_int_equal(joined_bytes(w), w->rows * j.row_bytes);
    assert_true(w->rows * j.row_bytes <= sizeof(blocks));
    memset(blocks, 0xee, sizeof(blocks));
    joined_rows(w, dtype, 0, 3, blocks);
    joined_rows(w, dtype, 3, w->rows - 3, blocks + 3 * j.row_bytes);
    for (uint32_t i = 0; i < w->rows; i++) {
        weight_decode_row(w, i, want);
        decode(w, j.dtype, blocks + i * j.row_bytes, got);
        for (uint32_t k = 0; k < w->cols; k++)
            if (want[k] != got[k])
                fail_msg("%s, row %u, column %u: %g instead of %g", dtype_info(w->dtype)->name, i,
                         k, (double)got[k], (double)want[k]);
    }
}

TEST(affine_weights_become_blocks)
{
    static const struct {
        enum inf_dtype dtype, joined;
        uint32_t cols, group;
    } rows[] = {
        {INF_DTYPE_MLX2, INF_DTYPE_MLX2, 256, 128}, {INF_DTYPE_MLX2, INF_DTYPE_MLX2, 256, 256},
        {INF_DTYPE_MLX2, INF_DTYPE_Q4_1, 192, 64},  {INF_DTYPE_MLX2, INF_DTYPE_Q4_1, 96, 32},
        {INF_DTYPE_MLX4, INF_DTYPE_Q4_1, 384, 128}, {INF_DTYPE_MLX4, INF_DTYPE_Q4_1, 64, 32},
        {INF_DTYPE_MLX3, INF_DTYPE_Q4_1, 96, 32},   {INF_DTYPE_MLX5, INF_DTYPE_Q5_1, 128, 64},
        {INF_DTYPE_MLX6, INF_DTYPE_MLX8, 128, 64},  {INF_DTYPE_MLX8, INF_DTYPE_MLX8, 96, 32},
    };

    fill();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        check_weight(
            &(struct weight){.data = codes,
                             .dtype = rows[i].dtype,
                             .rows = ROWS,
                             .cols = rows[i].cols,
                             .group = rows[i].group,
                             .plane_type = PLANE_F16,
                             .planes = {[WEIGHT_SCALES] = planes[0], [WEIGHT_ZEROS] = planes[1]}},
            rows[i].joined);
}

/* F16 has the values of most scales in BF16, but not of the smallest ones. */
TEST(scales_in_bf16_become_f16_if_their_values_fit)
{
    struct weight w = {.data = codes,
                       .dtype = INF_DTYPE_MLX4,
                       .rows = 4,
                       .cols = 64,
                       .group = 32,
                       .plane_type = PLANE_BF16,
                       .planes = {[WEIGHT_SCALES] = planes[0], [WEIGHT_ZEROS] = planes[1]}};
    const uint16_t small = bf16_from_f32(0x1.02p-20f);

    fill();
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 16; j += 2) {
            const uint16_t half = bf16_from_f32(0.125f * (float)(i + j) - 0.375f);

            memcpy(planes[i] + j, &half, sizeof(half));
        }
    check_weight(&w, INF_DTYPE_Q4_1);
    memcpy(planes[0] + 14, &small, sizeof(small));
    check_weight(&w, INF_DTYPE_MLX4);
    w.dtype = INF_DTYPE_MLX5;
    check_weight(&w, INF_DTYPE_MLX8);
}

TEST(floats_of_8_and_4_bits_keep_their_codes)
{
    struct weight w = {.data = codes,
                       .dtype = INF_DTYPE_MXFP8,
                       .rows = ROWS,
                       .cols = 96,
                       .group = 32,
                       .plane_type = PLANE_E8M0,
                       .planes = {[WEIGHT_SCALES] = planes[0]}};

    fill();
    for (size_t i = 0; i < sizeof(codes); i++)
        codes[i] = (uint8_t)((codes[i] & 0x7f) == 0x7f ? 0 : codes[i]);
    for (size_t i = 0; i < sizeof(planes[0]); i++)
        planes[0][i] = (uint8_t)(60 + i % 60);
    check_weight(&w, INF_DTYPE_FP8);
    w.dtype = INF_DTYPE_NVFP4_PLANES;
    w.group = 16;
    w.plane_type = PLANE_E4M3;
    check_weight(&w, INF_DTYPE_NF4);
}

TEST(ternary_rows_lie_in_their_order)
{
    static const float factor = 0.375f;
    static const uint32_t cols[] = {4, 16, 28, 64, 100, 384};

    fill();
    for (size_t i = 0; i < ARRAY_SIZE(cols); i++)
        check_weight(&(struct weight){.data = codes,
                                      .dtype = INF_DTYPE_BITNET,
                                      .rows = ROWS,
                                      .cols = cols[i],
                                      .planes = {[WEIGHT_SCALES] = &factor}},
                     INF_DTYPE_BITNET);
}

/* The bytes after the last column must not add anything to a product. */
TEST(codes_behind_the_last_column_are_zero)
{
    static const float factor = 1;
    const struct weight w = {.data = codes,
                             .dtype = INF_DTYPE_BITNET,
                             .rows = 4,
                             .cols = 20,
                             .planes = {[WEIGHT_SCALES] = &factor}};

    fill();
    joined_rows(&w, INF_DTYPE_BITNET, 0, 4, blocks);
    for (uint32_t k = w.cols; k < 32; k++)
        assert_int_equal(code_of(blocks, k), 1);
}

TEST(mxfp4_of_experts_becomes_blocks)
{
    const uint32_t cols = 96, rows = 4;
    const struct weight both = {.data = codes,
                                .dtype = INF_DTYPE_FP4_PLANES,
                                .rows = rows,
                                .cols = cols,
                                .n_experts = 2,
                                .expert_bytes = 2 * rows * cols / 2,
                                .group = 32,
                                .row_step = 2,
                                .plane_type = PLANE_E8M0,
                                .planes = {[WEIGHT_SCALES] = planes[0]}};

    fill();
    for (uint32_t i = 0; i < both.n_experts; i++) {
        const struct weight one = weight_of_expert(&both, i);

        check_weight(&one, INF_DTYPE_MXFP4);
    }
    assert_int_equal(joined_bytes(&both), 2 * rows * (cols / 32) * 17);
}

/* Checks that the blocks of a coded matrix have its values, in the order of places, also if it is a
 * part of a matrix. */
static void coded_case(const struct coded *c, enum inf_dtype joined)
{
    const struct weight w = {.data = c->codes,
                             .dtype = c->dtype,
                             .rows = c->rows - 8,
                             .cols = c->cols,
                             .planes = {[WEIGHT_SCALES] = c->scales},
                             .coded = c,
                             .coded_first = 8};
    static float is[COLS_MOST], expected[COLS_MOST];
    static _Alignas(4) uint8_t block[4 * COLS_MOST];
    struct joined j;

    assert_true(joined_layout(&w, &j));
    assert_int_equal(j.dtype, joined);
    for (uint32_t i = 0; i < w.rows; i++) {
        joined_rows(&w, j.dtype, i, 1, block);
        coded_decode(c, 8 + i, 0, w.cols, expected);
        decode(&w, joined, block, is);
        assert_memory_equal(is, expected, w.cols * sizeof(float));
    }
}

TEST(coded_matrices_become_blocks_if_these_have_their_values)
{
    static uint8_t words[64 * 64], zeros[64 * 64], scales[4 * 64 * 64];
    static uint32_t order[64];
    static float table[16];
    struct coded c = {.dtype = INF_DTYPE_GPTQ4,
                      .rows = 32,
                      .cols = 64,
                      .codes = words,
                      .scales = scales,
                      .zeros = zeros,
                      .scale_type = INF_DTYPE_F16,
                      .group = 32,
                      .group_rows = 1,
                      .factor = 1};

    for (size_t i = 0; i < sizeof(words); i++) {
        words[i] = (uint8_t)(i * 167 + i / 7);
        zeros[i] = (uint8_t)(i * 59 + i / 3);
    }
    for (size_t i = 0; i < sizeof(scales) / 2; i++)
        memcpy(scales + 2 * i, &(uint16_t){(uint16_t)(0x2000 + i % 4096)}, 2);
    for (uint32_t i = 0; i < 64; i++)
        order[i] = i * 5 % 64;
    for (uint32_t i = 0; i < 16; i++)
        table[i] = 0.3f * (float)i - 2;
    coded_case(&c, INF_DTYPE_Q5_0);
    c.dtype = INF_DTYPE_GPTQ3;
    coded_case(&c, INF_DTYPE_Q4_0);
    c.dtype = INF_DTYPE_GPTQ8;
    coded_case(&c, INF_DTYPE_MLX8);
    c.zeros = NULL;
    coded_case(&c, INF_DTYPE_Q8_0);
    c.dtype = INF_DTYPE_CT4;
    coded_case(&c, INF_DTYPE_Q4_0);
    c.order = order;
    coded_case(&c, INF_DTYPE_Q4_0);
    c.scale_type = INF_DTYPE_BF16;
    coded_case(&c, INF_DTYPE_MLX4);
    c.order = NULL;
    c.dtype = INF_DTYPE_FP8;
    coded_case(&c, INF_DTYPE_FP8);
    c.dtype = INF_DTYPE_NF4;
    c.table = table;
    coded_case(&c, INF_DTYPE_NF4);
    c.dtype = INF_DTYPE_CTFP4;
    c.group = 16;
    c.factor = 3;
    coded_case(&c, INF_DTYPE_NF4);
    c.dtype = INF_DTYPE_CT4;
    coded_case(&c, INF_DTYPE_F32);
}

/* The blocks of all experts have one format, which has the values of each. */
TEST(experts_become_blocks_of_one_format)
{
    static const uint16_t scales[2][32 * 2] = {{0x3c00}, {0x3c00}};
    static const float tables[2][16] = {{1}, {2}};
    static uint8_t words[2 * 32 * 64], zeros[64];
    struct coded c[2];
    struct weight w = {.dtype = INF_DTYPE_GPTQ4,
                       .rows = 32,
                       .cols = 64,
                       .planes = {[WEIGHT_SCALES] = scales},
                       .n_experts = 2,
                       .coded = c};
    struct joined j;

    memset(zeros, 0x88, sizeof(zeros));
    for (size_t i = 0; i < 2; i++)
        c[i] = (struct coded){.dtype = INF_DTYPE_GPTQ4,
                              .rows = 32,
                              .cols = 64,
                              .codes = words,
                              .scales = scales[i],
                              .zeros = zeros,
                              .scale_type = INF_DTYPE_F16,
                              .group = 32,
                              .group_rows = 1,
                              .factor = 1,
                              .table = tables[i]};
    assert_true(joined_layout(&w, &j));
    assert_int_equal(j.dtype, INF_DTYPE_Q4_0);
    c[1].zero_add = 1;
    assert_true(joined_layout(&w, &j));
    assert_int_equal(j.dtype, INF_DTYPE_Q5_0);
    w.dtype = c[0].dtype = c[1].dtype = INF_DTYPE_NF4;
    assert_true(joined_layout(&w, &j));
    assert_int_equal(j.dtype, INF_DTYPE_F32);
    c[1].table = c[0].table;
    assert_true(joined_layout(&w, &j));
    assert_int_equal(j.dtype, INF_DTYPE_NF4);
}

TEST(weights_without_planes_stay_as_they_are)
{
    const struct weight w = {.data = codes, .dtype = INF_DTYPE_Q8_0, .rows = 4, .cols = 64};
    struct joined j;

    assert_false(joined_layout(&w, &j));
    assert_int_equal(joined_bytes(&w), 4 * 2 * 34);
    assert_true(joined_factor(&w) == 1);
}

RUN_TESTS(cmocka_unit_test(affine_weights_become_blocks),
          cmocka_unit_test(scales_in_bf16_become_f16_if_their_values_fit),
          cmocka_unit_test(floats_of_8_and_4_bits_keep_their_codes),
          cmocka_unit_test(coded_matrices_become_blocks_if_these_have_their_values),
          cmocka_unit_test(experts_become_blocks_of_one_format),
          cmocka_unit_test(ternary_rows_lie_in_their_order),
          cmocka_unit_test(codes_behind_the_last_column_are_zero),
          cmocka_unit_test(mxfp4_of_experts_becomes_blocks),
          cmocka_unit_test(weights_without_planes_stay_as_they_are))
