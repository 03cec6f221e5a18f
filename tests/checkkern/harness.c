/* SPDX-License-Identifier: Apache-2.0 */

/* Provides guarded memory, test numbers, and reports of failures (harness.h). */

#include "harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "core/pages.h"

#define GUARD_BYTE 0xa5

bool check_draws(struct check *c)
{
    return c->share <= 1 || rng_u32(&c->rng) % c->share == 0;
}

void check_fail(struct check *c, const char *format, ...)
{
    va_list ap;

    c->n_failed++;
    if (c->n_failed > 10)
        return;
    fprintf(stderr, "checkkern: %s, %s: ", c->test, c->rung);
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void check_report(const struct check *c, double seconds)
{
    printf("%s %-20s %-8s %5u cases, %u failed, %.2f s", c->n_failed ? "not ok" : "ok", c->test,
           c->rung, c->n_cases, c->n_failed, seconds);
    if (c->n_other > 0)
        printf(", %u of %u results depend on other rows", c->n_other, c->n_same);
    putchar('\n');
}

struct guarded guarded_new(size_t size, bool at_end)
{
    const size_t page = pages_size(), body = ALIGN_UP(size + 1, page);
    struct guarded g = {.size = size, .map_size = body + 2 * page};

    g.map = mmap(NULL, g.map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, body, PROT_READ | PROT_WRITE) < 0) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(2);
    }
    memset(g.map + page, GUARD_BYTE, body);
    g.data = g.map + page + (at_end ? body - size : 0);
    return g;
}

bool guarded_done(struct guarded *g)
{
    const size_t page = pages_size();
    const uint8_t *p = g->map + page, *end = g->map + g->map_size - page;
    bool ok = true;

    for (; p < (uint8_t *)g->data; p++)
        ok &= *p == GUARD_BYTE;
    for (p += g->size; p < end; p++)
        ok &= *p == GUARD_BYTE;
    munmap(g->map, g->map_size);
    g->data = NULL;
    return ok;
}

const char *fill_name(enum fill fill)
{
    static const char *const names[FILL_N] = {"normal",  "zero",    "max",
                                              "all-min", "outlier", "denormal"};

    return names[fill];
}

float rng_normal(struct rng *rng)
{
    const double u = 1 - rng_double(rng), v = rng_double(rng);

    return (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
}

void fill_floats(struct check *c, enum fill fill, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (fill) {
        case FILL_ZERO:
            x[i] = 0;
            break;
        case FILL_MAX:
            x[i] = rng_u32(&c->rng) & 1 ? 60000 : -60000;
            break;
        case FILL_ALL_MIN:
            x[i] = -60000;
            break;
        case FILL_DENORMAL:
            x[i] = rng_normal(&c->rng) * 0x1p-135f;
            break;
        default:
            x[i] = rng_normal(&c->rng);
        }
    }
    if (fill == FILL_OUTLIER && n > 0)
        x[rng_u32(&c->rng) % n] *= 1000;
}
