/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial selection: a bounded heap over a row, quickselect (Hoare) over candidates, and prefixes
 * that are sorted in growing pieces. A vocabulary has 10^5 entries and almost all of them are
 * rejected by one comparison.
 */
#include "sample/select.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/macros.h"

#define LANES 4

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_mask __attribute__((vector_size(4 * LANES)));

/* Maximum of a row; sets *ret_bad when one is NaN. */
static float row_max(const float *x, uint32_t n, bool *ret_bad)
{
    lanes max;
    lanes_mask bad = {0};
    float m = -INFINITY;
    uint32_t i = 0;

    for (int l = 0; l < LANES; l++)
        max[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES) {
        lanes v;
        lanes_mask more;

        memcpy(&v, x + i, sizeof(v));
        more = v > max;
        max = (lanes)((more & (lanes_mask)v) | (~more & (lanes_mask)max));
        bad |= v != v;
    }
    *ret_bad = false;
    for (int l = 0; l < LANES; l++) {
        m = MAX(m, max[l]);
        *ret_bad |= bad[l] != 0;
    }
    for (; i < n; i++) {
        *ret_bad |= isnan(x[i]);
        m = x[i] > m ? x[i] : m;
    }
    return m;
}

int32_t row_argmax(const float *x, uint32_t n)
{
    bool bad;
    const float max = row_max(x, n, &bad);

    if (bad || isinf(max))
        return -1;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == max)
            return (int32_t)i;
    return -1;
}

/* Restores the heap whose root (the worst of the kept) was replaced. */
static void heap_sift(struct cand *h, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t worst = i;
        const uint32_t l = 2 * i + 1, r = l + 1;

        if (l < n && cand_before(&h[worst], &h[l]))
            worst = l;
        if (r < n && cand_before(&h[worst], &h[r]))
            worst = r;
        if (worst == i)
            return;
        const struct cand t = h[i];

        h[i] = h[worst];
        h[worst] = t;
        i = worst;
    }
}

uint32_t row_top(const float *x, uint32_t n, uint32_t k, struct cand *out)
{
    k = MIN(k, n);
    if (k == 0)
        return 0;
    for (uint32_t i = 0; i < k; i++)
        out[i] = (struct cand){x[i], 0, (int32_t)i};
    for (uint32_t i = k / 2; i-- > 0;)
        heap_sift(out, k, i);
    for (uint32_t i = k; i < n; i++) {
        /* An equal key with a higher id loses, and ids only grow here. */
        if (LIKELY(x[i] <= out[0].key))
            continue;
        out[0] = (struct cand){x[i], 0, (int32_t)i};
        heap_sift(out, k, 0);
    }
    cand_sort(out, k);
    return k;
}

void cand_select(struct cand *c, uint32_t n, uint32_t k)
{
    uint32_t lo = 0, hi = n; /* the border lies in [lo, hi) */

    assert(k <= n);
    while (hi - lo > 1 && k > lo && k < hi) {
        const struct cand pivot = c[lo + (hi - lo) / 2];
        uint32_t i = lo, j = hi - 1;

        /* Hoare's partition: no pair is equal, since ids differ. */
        for (;;) {
            while (cand_before(&c[i], &pivot))
                i++;
            while (cand_before(&pivot, &c[j]))
                j--;
            if (i >= j)
                break;
            const struct cand t = c[i];

            c[i++] = c[j];
            c[j--] = t;
        }
        /* All before i come first, all from i on come later. */
        if (k <= i)
            hi = i;
        else
            lo = i;
    }
}

/* Heapsort: qsort() may allocate. */
void cand_sort(struct cand *c, uint32_t n)
{
    for (uint32_t i = n / 2; i-- > 0;)
        heap_sift(c, n, i);
    while (n > 1) {
        const struct cand worst = c[0];

        c[0] = c[--n];
        c[n] = worst;
        heap_sift(c, n, 0);
    }
}

uint32_t cand_prefix(struct cand *c, uint32_t n, double mass)
{
    uint32_t done = 0, piece = 32;
    double sum = 0;

    assert(n > 0);
    while (done < n) {
        piece = MIN(piece, n - done);
        cand_select(c + done, n - done, piece);
        cand_sort(c + done, piece);
        for (uint32_t i = done; i < done + piece; i++) {
            sum += (double)c[i].mass;
            if (sum >= mass)
                return i + 1;
        }
        done += piece;
        piece *= 4;
    }
    return n;
}
