/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the transform with the compiler's vector types of SPECTRUM_WIDTH doubles. One file per
 * instruction set includes this header.
 */
#include <math.h>
#include <string.h>

#include "media/spectrum.h"

typedef double lanes __attribute__((vector_size(8 * SPECTRUM_WIDTH)));

struct point {
    lanes re, im;
};

static inline void turned(struct point *out, lanes re, lanes im, const struct spectrum_turn *w)
{
    out->re = re * w->re - im * w->im;
    out->im = re * w->im + im * w->re;
}

static inline void butterfly2(const struct point *x, uint32_t step, struct point *b)
{
    const struct point *u = x, *v = x + step;

    b[0] = (struct point){u->re + v->re, u->im + v->im};
    b[1] = (struct point){u->re - v->re, u->im - v->im};
}

static inline void butterfly4(const struct point *x, uint32_t step, struct point *b)
{
    struct point even[2], odd[2];

    butterfly2(x, 2 * step, even);
    butterfly2(x + step, 2 * step, odd);
    b[0] = (struct point){even[0].re + odd[0].re, even[0].im + odd[0].im};
    b[2] = (struct point){even[0].re - odd[0].re, even[0].im - odd[0].im};
    b[1] = (struct point){even[1].re + odd[1].im, even[1].im - odd[1].re};
    b[3] = (struct point){even[1].re - odd[1].im, even[1].im + odd[1].re};
}

/* Transforms five terms. The factors of terms 1 and 4 are conjugates of each other, and so are the
 * factors of terms 2 and 3. Therefore sums of two terms are multiplied by cosines, and differences
 * by sines. */
static inline void butterfly5(const struct point *x, uint32_t step, struct point *b)
{
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410;
    const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;
    const struct point *a0 = x, *a1 = x + step, *a2 = x + 2 * step, *a3 = x + 3 * step,
                       *a4 = x + 4 * step;
    const struct point sum1 = {a1->re + a4->re, a1->im + a4->im};
    const struct point sum2 = {a2->re + a3->re, a2->im + a3->im};
    const struct point dif1 = {a1->re - a4->re, a1->im - a4->im};
    const struct point dif2 = {a2->re - a3->re, a2->im - a3->im};
    const struct point m1 = {a0->re + sum1.re * c1 + sum2.re * c2,
                             a0->im + sum1.im * c1 + sum2.im * c2};
    const struct point m2 = {a0->re + sum1.re * c2 + sum2.re * c1,
                             a0->im + sum1.im * c2 + sum2.im * c1};
    const struct point n1 = {dif1.re * s1 + dif2.re * s2, dif1.im * s1 + dif2.im * s2};
    const struct point n2 = {dif1.re * s2 - dif2.re * s1, dif1.im * s2 - dif2.im * s1};

    b[0] = (struct point){a0->re + sum1.re + sum2.re, a0->im + sum1.im + sum2.im};
    b[1] = (struct point){m1.re + n1.im, m1.im - n1.re};
    b[4] = (struct point){m1.re - n1.im, m1.im + n1.re};
    b[2] = (struct point){m2.re + n2.im, m2.im - n2.re};
    b[3] = (struct point){m2.re - n2.im, m2.im + n2.re};
}

/* Computes one pass of the transform. @radix is a constant in all calls. */
static inline void run_stage(const struct spectrum_stage *st, uint32_t radix, const struct point *x,
                             struct point *y)
{
    const uint32_t s = st->stride, step = s * st->m;
    struct point b[5];

    for (uint32_t p = 0; p < st->m; p++)
        for (uint32_t q = 0; q < s; q++) {
            const struct point *from = x + q + s * p;
            struct point *to = y + q + s * radix * p;

            if (radix == 2)
                butterfly2(from, step, b);
            else if (radix == 4)
                butterfly4(from, step, b);
            else
                butterfly5(from, step, b);
            to[0] = b[0];
            for (uint32_t j = 1; j < radix; j++)
                turned(&to[s * j], b[j].re, b[j].im, &st->turns[p * radix + j]);
        }
}

/* Computes X[k] = E[k] + e^(-2πik/N) O[k] and its power. E and O are the transforms of the even and
 * of the odd samples, and follow from the complex transform Z: E is half the sum of Z[k] and conj
 * Z[N/2 - k], and O is half their difference divided by i. */
static inline void power_of(const struct spectrum_plan *plan, const struct point *z, uint32_t k,
                            lanes *power)
{
    const struct point *a = &z[k % SPECTRUM_HALF], *b = &z[(SPECTRUM_HALF - k) % SPECTRUM_HALF];
    const lanes even_re = (a->re + b->re) * 0.5, even_im = (a->im - b->im) * 0.5;
    struct point odd;

    turned(&odd, (a->im + b->im) * 0.5, (b->re - a->re) * 0.5, &plan->turns[k]);
    odd.re += even_re;
    odd.im += even_im;
    *power = odd.re * odd.re + odd.im * odd.im;
}

static void powers(const struct spectrum_plan *plan, const double *x, double *power)
{
    struct point a[SPECTRUM_HALF], b[SPECTRUM_HALF];

    memcpy(a, x, sizeof(a));
    run_stage(&plan->stages[0], 5, a, b);
    run_stage(&plan->stages[1], 5, b, a);
    run_stage(&plan->stages[2], 4, a, b);
    run_stage(&plan->stages[3], 2, b, a);
    for (uint32_t k = 0; k < SPECTRUM_BINS; k++)
        power_of(plan, a, k, (lanes *)power + k);
}
