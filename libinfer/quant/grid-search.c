/* SPDX-License-Identifier: Apache-2.0 */

#include "quant/grid-search.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "core/macros.h"
#include "quant/grid.h"

#define N_NEAR     8u    /* points with which a lot (struct search) is compared */
#define N_CODES    6561u /* 3^8 combinations of levels, or 8^4 = 4096 */
#define MAX_POINTS 2048u
#define MAX_LEVELS 8u

typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));

/* A lot is 8 or 4 numbers that share a point. */
struct search {
    unsigned n_points, n_lot, n_levels;
    float level[MAX_LEVELS];
    float border[MAX_LEVELS - 1]; /* between a level and the next */
    float place[8];               /* n_levels^i */
    f32x4 point[MAX_POINTS][2];
    uint16_t near[N_CODES][N_NEAR];
    uint8_t n_near[N_CODES]; /* 1 if the combination of levels is a point */
};

static struct search searches[SEARCH_N];
static pthread_once_t onces[SEARCH_N] = {PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT,
                                         PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT};

/* ---- tables ---- */

static float point_distance(const struct search *s, const f32x4 at[2], unsigned point)
{
    const f32x4 a = s->point[point][0] - at[0], b = s->point[point][1] - at[1];
    const f32x4 sum = a * a + b * b;

    return sum[0] + sum[1] + sum[2] + sum[3];
}

/* Finds the N_NEAR points that are nearest to a combination of levels, in order of distance. */
static void near_find(struct search *s, unsigned code)
{
    float distance[N_NEAR], at_lane[8] = {0};
    uint16_t *near = s->near[code];
    unsigned n = 0, rest = code;
    f32x4 at[2];

    for (unsigned i = 0; i < s->n_lot; i++, rest /= s->n_levels)
        at_lane[i] = s->level[rest % s->n_levels];
    memcpy(at, at_lane, sizeof(at));
    for (unsigned point = 0; point < s->n_points; point++) {
        const float d = point_distance(s, at, point);
        unsigned to;

        if (n == N_NEAR && d >= distance[n - 1])
            continue;
        n = MIN(n + 1, N_NEAR);
        for (to = n - 1; to > 0 && d < distance[to - 1]; to--) {
            distance[to] = distance[to - 1];
            near[to] = near[to - 1];
        }
        distance[to] = d;
        near[to] = (uint16_t)point;
    }
    s->n_near[code] = distance[0] == 0 ? 1 : N_NEAR;
}

/* Fills the table of a grid. Point i has its coordinates in @n_lot bytes of the grid; @zero is the
 * byte that stands for 0. */
static void search_init(struct search *s, const void *grid, unsigned n_points, unsigned n_lot,
                        const float *level, unsigned n_levels, int zero)
{
    s->n_points = n_points;
    s->n_lot = n_lot;
    s->n_levels = n_levels;
    memcpy(s->level, level, n_levels * sizeof(*level));
    for (unsigned i = 1; i < n_levels; i++)
        s->border[i - 1] = (level[i - 1] + level[i]) / 2;
    for (unsigned i = 0; i < 8; i++)
        s->place[i] = i == 0 ? 1 : i < n_lot ? s->place[i - 1] * (float)n_levels : 0;
    for (unsigned point = 0; point < n_points; point++) {
        float lane[8] = {0};

        for (unsigned i = 0; i < n_lot; i++)
            lane[i] = (float)(((const uint8_t *)grid)[point * n_lot + i] - zero);
        memcpy(s->point[point], lane, sizeof(lane));
    }
    for (unsigned code = 0; code < (n_lot == 8 ? N_CODES : 4096); code++)
        near_find(s, code);
}

static const float iq2_levels[] = {8, 25, 43}, iq1_levels[] = {-8, 0, 8};
static const float iq3_xxs_levels[] = {4, 12, 20, 28, 36, 44, 52, 62};
static const float iq3_s_levels[] = {1, 3, 5, 7, 9, 11, 13, 15};

static void init_iq2_xxs(void)
{
    search_init(&searches[SEARCH_IQ2_XXS], grid_iq2_xxs, 256, 8, iq2_levels, 3, 0);
}

static void init_iq2_xs(void)
{
    search_init(&searches[SEARCH_IQ2_XS], grid_iq2_xs, 512, 8, iq2_levels, 3, 0);
}

static void init_iq2_s(void)
{
    search_init(&searches[SEARCH_IQ2_S], grid_iq2_s, 1024, 8, iq2_levels, 3, 0);
}

static void init_iq1(void)
{
    search_init(&searches[SEARCH_IQ1], grid_iq1, 2048, 8, iq1_levels, 3, 10);
}

static void init_iq3_xxs(void)
{
    search_init(&searches[SEARCH_IQ3_XXS], grid_iq3_xxs, 256, 4, iq3_xxs_levels, 8, 0);
}

static void init_iq3_s(void)
{
    search_init(&searches[SEARCH_IQ3_S], grid_iq3_s, 512, 4, iq3_s_levels, 8, 0);
}

const struct search *search_get(enum search_grid grid)
{
    static void (*const init[SEARCH_N])(void) = {init_iq2_xxs, init_iq2_xs,  init_iq2_s,
                                                 init_iq1,     init_iq3_xxs, init_iq3_s};

    pthread_once(&onces[grid], init[grid]);
    return &searches[grid];
}

/* ---- the search ---- */

static inline float lanes_sum(f32x4 a)
{
    a += __builtin_shufflevector(a, a, 2, 3, 0, 1);
    return a[0] + a[1];
}

/* Holds a lot while its point is searched: the error is Σ (b u + a) u. The functions that follow
 * are inlined for lots of 4 and of 8 numbers, which are @n_vec vectors. */
struct lot {
    f32x4 x[2], w[2], a[2], b[2];
};

/* Returns the combination of the levels that are nearest to the numbers of a lot. */
static inline unsigned lot_code(const struct search *s, const struct lot *lot, float inverse,
                                float shift, const unsigned n_vec)
{
    f32x4 sum = {0};

    for (unsigned v = 0; v < n_vec; v++) {
        const f32x4 u = lot->x[v] * inverse - shift;
        i32x4 level = {0};
        f32x4 place;

        memcpy(&place, s->place + 4 * v, sizeof(place));
        for (unsigned j = 0; j + 1 < s->n_levels; j++)
            level -= u > s->border[j];
        sum += __builtin_convertvector(level, f32x4) * place;
    }
    return (unsigned)lanes_sum(sum);
}

/* Describes the best point for a lot. */
struct lot_fit {
    uint16_t index;
    float error, xu, uu;
};

static inline __attribute__((always_inline)) void lot_find(const struct search *s, struct lot *lot,
                                                           float scale, float shift,
                                                           const unsigned n_vec,
                                                           struct lot_fit *ret)
{
    const unsigned code = lot_code(s, lot, 1 / scale, shift, n_vec), n = s->n_near[code];
    f32x4 xu = {0}, uu = {0};

    for (unsigned v = 0; v < n_vec; v++) {
        lot->a[v] = lot->w[v] * lot->x[v] * (-2 * scale);
        lot->b[v] = lot->w[v] * (scale * scale);
    }
    ret->index = s->near[code][0];
    ret->error = INFINITY;
    for (unsigned i = 0; i < n; i++) {
        const f32x4 *p = s->point[s->near[code][i]];
        f32x4 sum = {0};
        float error;

        for (unsigned v = 0; v < n_vec; v++) {
            const f32x4 u = p[v] + shift;

            sum += (lot->b[v] * u + lot->a[v]) * u;
        }
        error = lanes_sum(sum);
        if (error < ret->error) {
            ret->error = error;
            ret->index = s->near[code][i];
        }
    }
    for (unsigned v = 0; v < n_vec; v++) {
        const f32x4 u = s->point[ret->index][v] + shift;

        xu += lot->w[v] * lot->x[v] * u;
        uu += lot->w[v] * u * u;
    }
    ret->xu = lanes_sum(xu);
    ret->uu = lanes_sum(uu);
}

static void lot_search(const struct search *s, const float *x, const float *w, float scale,
                       float shift, struct lot_fit *ret)
{
    struct lot lot;

    memcpy(lot.x, x, s->n_lot * sizeof(*x));
    memcpy(lot.w, w, s->n_lot * sizeof(*w));
    if (s->n_lot == 4)
        lot_find(s, &lot, scale, shift, 1, ret);
    else
        lot_find(s, &lot, scale, shift, 2, ret);
}

void search_points(const struct search_how *how, const float *x, const float *w, unsigned n,
                   float scale, struct search_fit *ret)
{
    const struct search *s = how->search;

    memset(ret, 0, sizeof(*ret));
    for (unsigned l = 0; l < n / s->n_lot; l++) {
        const float *lot = x + l * s->n_lot, *weight = w + l * s->n_lot;
        struct lot_fit fit, other;

        lot_search(s, lot, weight, scale, how->both ? 1 : how->shift, &fit);
        if (how->both) {
            lot_search(s, lot, weight, scale, -1, &other);
            if (other.error < fit.error) {
                fit = other;
                ret->minus |= (uint8_t)(1u << l);
            }
        }
        ret->index[l] = fit.index;
        ret->error += fit.error;
        ret->xu += fit.xu;
        ret->uu += fit.uu;
    }
}

/* Finds the points of the elements for @scale, and then the scale that fits these points best. That
 * scale is xu / uu, and its error is Σ w x² - xu² / uu. Keeps the scale if its gain xu² / uu is
 * above *@best_gain, and returns whether it was kept. */
static bool scale_try(const struct search_how *how, const float *x, const float *w, unsigned n,
                      float scale, float *best_gain, float *best)
{
    struct search_fit fit;

    search_points(how, x, w, n, scale, &fit);
    if (!(fit.xu > 0 && fit.xu * fit.xu > *best_gain * fit.uu))
        return false;
    *best = fit.xu / fit.uu;
    *best_gain = fit.xu * *best;
    return true;
}

float search_scale(const struct search_how *how, const float *x, const float *w, unsigned n)
{
    /* The largest magnitude, in units of the largest coordinate. If it is above 1, the largest
     * numbers are cut off, and the others are more exact. With 8 levels, less is gained by that. */
    static const float few[] = {0.85f, 1.0f, 1.15f, 1.3f, 1.45f}, many[] = {0.9f, 1.05f, 1.2f};
    const struct search *s = how->search;
    const float *ratios = s->n_levels == MAX_LEVELS ? many : few;
    const size_t n_ratios = s->n_levels == MAX_LEVELS ? ARRAY_SIZE(many) : ARRAY_SIZE(few);
    float most = 0, mean = 0, best = 0, best_gain = 0;

    for (unsigned i = 0; i < n; i++) {
        most = MAX(most, fabsf(x[i]));
        mean += fabsf(x[i]) / (float)n;
    }
    if (!(most > 1e-30f))
        return 0;
    for (size_t i = 0; i < n_ratios; i++)
        scale_try(how, x, w, n, most / (s->level[s->n_levels - 1] * ratios[i]), &best_gain, &best);
    /* This scale suits numbers of nearly the same magnitude, because some grids have only low
     * points with 8 equal coordinates. */
    if (s->level[0] > 0)
        scale_try(how, x, w, n, mean / s->level[0], &best_gain, &best);
    for (unsigned i = 0; i < 2 && best > 0; i++)
        if (!scale_try(how, x, w, n, best, &best_gain, &best))
            break;
    return best;
}
