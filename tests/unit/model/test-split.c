/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how a matrix whose input is rotated is divided into parts of its columns. */
#include "model/arch.h"

#include <errno.h>
#include <math.h>

#include "backend/cpu/elem/elem.h"
#include "core/err.h"
#include "graph/params.h"
#include "lib/test.h"

enum { N_ROWS = 3, N_COLS = 24, GROUP = 4, N_ROUNDS = 2, N_PARTS = 3 };

/* A matrix with a rotation of its input. */
struct bed {
    struct model model;
    struct inf_err err;
    struct binder binder;
    float w[N_ROWS][N_COLS], factors[N_COLS], turns[N_ROUNDS * N_COLS];
    uint8_t pairs[N_ROUNDS * N_COLS];
    struct turn_params turn;
    struct weight weight;
};

static void bed_init(struct bed *b)
{
    static const uint8_t rounds[N_ROUNDS][GROUP] = {{0, 1, 2, 3}, {3, 0, 1, 2}};

    *b = (struct bed){.binder = {.m = &b->model, .err = &b->err}};
    for (unsigned i = 0; i < N_ROWS * N_COLS; i++)
        b->w[i / N_COLS][i % N_COLS] = (float)(i * 7 % 11) - 5;
    for (unsigned i = 0; i < N_COLS; i++)
        b->factors[i] = 1 + (float)i / 8;
    for (unsigned i = 0; i < N_ROUNDS * N_COLS; i++) {
        b->pairs[i] = rounds[i / N_COLS][i % GROUP];
        b->turns[i] = (float)(i * 5 % 17) / 16;
    }
    b->turn = (struct turn_params){.width = N_COLS,
                                   .group = GROUP,
                                   .n_rounds = N_ROUNDS,
                                   .factors = b->factors,
                                   .pairs = b->pairs,
                                   .turns = b->turns};
    b->weight = (struct weight){.data = b->w,
                                .dtype = INF_DTYPE_F32,
                                .rows = N_ROWS,
                                .cols = N_COLS,
                                .turn = &b->turn,
                                .name = "w"};
}

/* Adds the products of the rotated row @x and a matrix to @y. */
static void multiply(const struct weight *w, const float *x, double y[N_ROWS])
{
    float turned[N_COLS];
    const struct turn_args args = {.params = w->turn,
                                   .y = turned,
                                   .x = x,
                                   .ld_y = N_COLS,
                                   .ld_x = N_COLS,
                                   .end = w->cols / w->turn->group,
                                   .n_rows = 1};

    for (uint32_t i = 0; i < args.end; i++)
        elem_turn_group(&args, i, 0);
    for (uint32_t n = 0; n < w->rows; n++)
        for (uint32_t k = 0; k < w->cols; k++)
            y[n] += (double)((const float *)w->data)[n * w->cols + k] * (double)turned[k];
}

static void test_parts_rotate_their_columns(void **state)
{
    double whole[N_ROWS] = {0}, parts[N_ROWS] = {0};
    struct weight to[N_PARTS];
    float x[N_COLS];
    struct bed b;

    (void)state;
    bed_init(&b);
    for (unsigned i = 0; i < N_COLS; i++)
        x[i] = (float)(i * i % 13) - 6;
    assert_int_equal(bind_split(&b.binder, &b.weight, N_PARTS, to), 0);
    multiply(&b.weight, x, whole);
    for (unsigned k = 0; k < N_PARTS; k++) {
        assert_non_null(to[k].turn);
        multiply(&to[k], x + k * (N_COLS / N_PARTS), parts);
    }
    for (unsigned n = 0; n < N_ROWS; n++)
        assert_true(fabs(whole[n] - parts[n]) < 1e-9);
    arena_done(&b.model.arena);
}

static void test_group_across_parts_is_refused(void **state)
{
    struct weight to[2];
    struct bed b;

    (void)state;
    bed_init(&b);
    b.turn.group = 24;
    assert_int_equal(bind_split(&b.binder, &b.weight, 2, to), -EOPNOTSUPP);
    assert_non_null(strstr(b.err.text, "groups of 24 columns"));
    arena_done(&b.model.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_rotate_their_columns),
        cmocka_unit_test(test_group_across_parts_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
