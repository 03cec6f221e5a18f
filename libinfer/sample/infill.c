/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves out tokens that are unlikely in the middle of a text. */
#include "sample/infill.h"

#include <math.h>
#include <string.h>

static bool infill_ends(const struct sample_vocab *vocab, const struct cand *c)
{
    for (uint32_t i = 0; i < vocab->n_ends; i++)
        if (vocab->ends[i] == c->id)
            return true;
    return false;
}

/* Returns whether the text of @b begins with the text of @a. */
static bool infill_begins(const struct sample_vocab *vocab, const struct cand *a,
                          const struct cand *b)
{
    size_t n_a = 0, n_b = 0;
    const char *text_a = vocab->text(vocab->data, a->id, &n_a);
    const char *text_b = vocab->text(vocab->data, b->id, &n_b);

    return n_a > 0 && n_a <= n_b && memcmp(text_a, text_b, n_a) == 0;
}

/* Gives the mass of tokens with a common beginning to the likeliest of them. */
static void infill_join(const struct sample_vocab *vocab, struct cand *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n && c[i].mass > 0; k++) {
            struct cand *to = c[k].mass > c[i].mass ? &c[k] : &c[i];
            struct cand *from = to == &c[i] ? &c[k] : &c[i];

            if (k == i || c[k].mass <= 0 || !infill_begins(vocab, &c[i], &c[k]))
                continue;
            to->mass += from->mass;
            from->mass = 0;
        }
}

/* Leaves out the tokens with a mass below @least that do not end the text. */
static uint32_t infill_keep_likely(const struct sample_vocab *vocab, struct cand *c, uint32_t n,
                                   double least)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if ((double)c[i].mass >= least || infill_ends(vocab, &c[i]))
            c[kept++] = c[i];
    return kept;
}

/* Makes the likeliest token that ends the text the only candidate. If none may follow, the
 * likeliest candidate remains. */
static uint32_t infill_end(const struct sample_vocab *vocab, const float *logits, struct cand *c)
{
    struct cand best = c[0];
    float most = -INFINITY;

    for (uint32_t i = 0; i < vocab->n_ends; i++) {
        const float logit = logits[vocab->ends[i]];

        if (logit > most)
            best = (struct cand){.key = most = logit, .mass = 1, .id = vocab->ends[i]};
    }
    c[0] = best;
    return 1;
}

uint32_t infill_cut(const struct sample_vocab *vocab, const float *logits, struct cand *c,
                    uint32_t n, double total)
{
    double ends = 0, sum = 0;
    uint32_t n_likely = 0;

    cand_sort(c, n);
    for (uint32_t i = 0; i < n; i++)
        ends += infill_ends(vocab, &c[i]) ? (double)c[i].mass : 0;
    if (3 * ends * n > total - ends)
        return infill_keep_likely(vocab, c, n, INFINITY);
    infill_join(vocab, c, n);
    for (uint32_t i = 0; i < n; i++)
        n_likely += (double)c[i].mass >= 0.2 * total && !infill_ends(vocab, &c[i]);
    if (n_likely == 0)
        return infill_end(vocab, logits, c);
    n = infill_keep_likely(vocab, c, n, 0.2 * total);
    for (uint32_t i = 0; i < n; i++)
        sum += (double)c[i].mass;
    return infill_keep_likely(vocab, c, n, sum / (n_likely + 1));
}
