/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prepares rows as struct turn_params (graph/params.h) says. elem-simd.h includes this file.
 *
 * The two columns of a pair can be anywhere in their group. Therefore the lanes of a vector are
 * rows: a tile holds one group of columns of VF_N rows, column by column. If there are only a few
 * rows, they are computed without vectors. Both ways give the same bits as the reference.
 */

/* Below this number of rows, single rows are faster than a tile. */
#define TURN_TILE_ROWS_MIN 3u

/* Copies columns of group @i_group of @n rows to a tile, whose other rows are 0. */
static void turn_load(const struct turn_args *a, uint32_t i_group, uint32_t i_row, uint32_t n,
                      float *tile)
{
    const struct turn_params *p = a->params;
    const uint32_t first = i_group * p->group;

    for (uint32_t k = 0; k < p->group; k++) {
        const float *x = a->x + i_row * a->ld_x + (p->order ? p->order[first + k] : first + k);
        const float f = p->factors ? p->factors[first + k] : 1;
        float *to = tile + (size_t)k * VF_N;

        for (uint32_t r = 0; r < VF_N; r++)
            to[r] = r < n ? x[r * a->ld_x] * f : 0;
    }
}

static void turn_store(const struct turn_args *a, uint32_t i_group, uint32_t i_row, uint32_t n,
                       const float *tile)
{
    const uint32_t group = a->params->group;

    for (uint32_t r = 0; r < n; r++) {
        float *y = a->y + (i_row + r) * a->ld_y + i_group * group;

        for (uint32_t k = 0; k < group; k++)
            y[k] = tile[(size_t)k * VF_N + r];
    }
}

static void turn_tile(const struct turn_args *a, uint32_t i_group, uint32_t i_row, uint32_t n)
{
    const struct turn_params *p = a->params;
    const uint8_t *pairs = p->pairs + (size_t)i_group * p->group;
    const float *turns = p->turns + (size_t)i_group * p->group;
    float tile[TURN_GROUP_MAX * VF_N];

    turn_load(a, i_group, i_row, n, tile);
    for (uint32_t i = 0; i < p->n_rounds; i++, pairs += p->width, turns += p->width)
        for (uint32_t k = 0; k < p->group; k += 2) {
            float *at = tile + (size_t)pairs[k] * VF_N, *bt = tile + (size_t)pairs[k + 1] * VF_N;
            const vf u = vf_load(at), v = vf_load(bt);
            const vf c = vf_set1(turns[k]), s = vf_set1(turns[k + 1]);

            vf_store(at, vf_add(vf_mul(u, c), vf_mul(v, s)));
            vf_store(bt, vf_sub(vf_mul(v, c), vf_mul(u, s)));
        }
    turn_store(a, i_group, i_row, n, tile);
}

static void turn(const struct turn_args *a)
{
    for (uint32_t row = 0; row < a->n_rows; row += VF_N) {
        const uint32_t n = a->n_rows - row < VF_N ? a->n_rows - row : VF_N;

        for (uint32_t g = a->begin; g < a->end; g++) {
            if (n >= TURN_TILE_ROWS_MIN)
                turn_tile(a, g, row, n);
            for (uint32_t r = 0; n < TURN_TILE_ROWS_MIN && r < n; r++)
                elem_turn_group(a, g, row + r);
        }
    }
}
