/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the preparation of rows (struct turn_params): all instruction sets have the same bits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/elem/elem.h"
#include "checkkern/turns.h"
#include "core/clock.h"

/* Fills @order with the numbers 0 … @n - 1 in a random order. */
static void shuffle(struct check *c, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t j = rng_u32(&c->rng) % (i + 1);

        order[i] = order[j];
        order[j] = i;
    }
}

struct turn_params *turns_new(struct check *c, uint32_t width, uint32_t group, uint32_t n_rounds,
                              bool has_factors, bool has_order)
{
    const size_t n = (size_t)n_rounds * width;
    struct turn_params *p = NEW(struct turn_params, 1);
    uint32_t *order = NEW(uint32_t, width), places[TURN_GROUP_MAX];
    float *factors = NEW(float, width), *turns = NEW(float, MAX(n, 1u));
    uint8_t *pairs = NEW(uint8_t, MAX(n, 1u));

    fill_floats(c, FILL_NORMAL, factors, width);
    shuffle(c, order, width);
    for (size_t i = 0; i < n; i += group) {
        shuffle(c, places, group);
        for (uint32_t k = 0; k < group; k++)
            pairs[i + k] = (uint8_t)places[k];
    }
    for (size_t i = 0; i < n; i += 2) {
        const float angle = (float)rng_double(&c->rng) * 6.2831853f;

        turns[i] = cosf(angle);
        turns[i + 1] = sinf(angle);
    }
    *p = (struct turn_params){.width = width,
                              .group = group,
                              .n_rounds = n_rounds,
                              .order = has_order ? order : NULL,
                              .factors = has_factors ? factors : NULL,
                              .pairs = pairs,
                              .turns = turns};
    if (!has_order)
        free(order);
    if (!has_factors)
        free(factors);
    return p;
}

void turns_free(struct turn_params *p)
{
    free((void *)(uintptr_t)p->order);
    free((void *)(uintptr_t)p->factors);
    free((void *)(uintptr_t)p->pairs);
    free((void *)(uintptr_t)p->turns);
    free(p);
}

/* Returns whether numbers have the same bits; all NaN count as the same. */
static bool turns_equal(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(isnan(a[i]) && isnan(b[i])) && memcmp(&a[i], &b[i], sizeof(float)) != 0)
            return false;
    return true;
}

static void turn_case(struct check *c, const struct turn_params *p, uint32_t n_rows, enum fill fill)
{
    const size_t ld = p->width + 3, size = n_rows * ld * sizeof(float);
    struct guarded x = guarded_new(size, true), y = guarded_new(size, false);
    struct guarded expected = guarded_new(size, false);
    struct turn_args a = {.params = p,
                          .y = expected.data,
                          .x = x.data,
                          .ld_y = ld,
                          .ld_x = ld,
                          .end = p->width / p->group,
                          .n_rows = n_rows};

    fill_floats(c, fill, x.data, n_rows * ld);
    memset(y.data, 0, size);
    memset(expected.data, 0, size);
    elem_ref.turn(&a);
    a.y = y.data;
    /* Two threads divide the groups. */
    a.end /= 2;
    elem_pick(c->flags)->turn(&a);
    a.begin = a.end;
    a.end = p->width / p->group;
    elem_pick(c->flags)->turn(&a);
    if (!turns_equal(y.data, expected.data, n_rows * ld))
        check_fail(c, "%u columns in groups of %u, %u rounds, %u rows, %s", p->width, p->group,
                   p->n_rounds, n_rows, fill_name(fill));
    if (!guarded_done(&x) || !guarded_done(&y) || !guarded_done(&expected))
        check_fail(c, "%u columns of %u rows wrote out of bounds", p->width, n_rows);
    c->n_cases++;
}

void check_turn(struct check *c)
{
    static const uint32_t cases[][3] = {{2, 2, 1},     {12, 4, 3},    {64, 64, 8}, {96, 32, 16},
                                        {384, 128, 8}, {512, 256, 1}, {40, 8, 0},  {512, 256, 0}};
    static const uint32_t rows[] = {1, 2, 3, 7, 16, 17, 33};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (unsigned how = 0; how < 4; how++) {
            struct turn_params *p =
                turns_new(c, cases[i][0], cases[i][1], cases[i][2], how & 1, how & 2);

            for (size_t j = 0; j < ARRAY_SIZE(rows); j++)
                for (int f = 0; f < FILL_N; f++)
                    turn_case(c, p, rows[j], (enum fill)f);
            turns_free(p);
        }
}

static void turn_time(struct check *c, const struct turn_params *p, float *x, uint32_t n_rows)
{
    const struct turn_args a = {.params = p,
                                .y = x + (size_t)n_rows * p->width,
                                .x = x,
                                .ld_y = p->width,
                                .ld_x = p->width,
                                .end = p->width / p->group,
                                .n_rows = n_rows};
    const uint64_t begin = clock_nsec();
    const unsigned n = 2048 / n_rows;

    for (unsigned i = 0; i < n; i++)
        elem_pick(c->flags)->turn(&a);
    printf("turn       %-8s %7.3f ns per element, %u rows\n", c->rung,
           (double)(clock_nsec() - begin) / ((double)n * n_rows * p->width), n_rows);
}

void bench_turn(struct check *c)
{
    struct turn_params *p = turns_new(c, 4096, 128, 8, true, false);
    float *x = NEW(float, (size_t)2 * 64 * p->width);

    fill_floats(c, FILL_NORMAL, x, (size_t)64 * p->width);
    turn_time(c, p, x, 1);
    turn_time(c, p, x, 64);
    free(x);
    turns_free(p);
}
