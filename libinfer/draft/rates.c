/* SPDX-License-Identifier: Apache-2.0 */
#include "draft/rates.h"

#include <assert.h>

#include "core/macros.h"

#define OWN_FADE 0.9f
#define WEIGHT   4.0f
/* The first estimate of the chance of a token that follows from a grammar. */
#define FIRST_GRAMMAR 0.9f

static void fade_count(float *tried, float *n_hit, float fade, bool hit)
{
    *tried = *tried * fade + 1;
    *n_hit = *n_hit * fade + (float)hit;
}

/* Returns the source of the tokens of a class. */
static uint32_t class_source(uint32_t i_class)
{
    return (i_class > DRAFT_FORCED) + (i_class > DRAFT_LIKELY);
}

/* Returns the position for which the tokens of a class are counted. */
static uint32_t class_position(uint32_t i_class, uint32_t position)
{
    return class_source(i_class) == 1 ? 0 : position;
}

void draft_rates_note(struct draft_rates *all, struct draft_own_rates *own, uint32_t i_class,
                      uint32_t position, bool hit)
{
    const uint32_t i = class_position(i_class, position), k = class_source(i_class);

    assert(i_class < DRAFT_CLASSES && position < DRAFT_MAX);
    if (i_class == DRAFT_FORCED)
        return;
    fade_count(&all->tried[i_class][i], &all->hit[i_class][i], DRAFT_FADE, hit);
    fade_count(&own[k].tried, &own[k].hit, OWN_FADE, hit);
}

void draft_rates_chances(const struct draft_rates *all, const struct draft_own_rates *own,
                         const uint8_t *classes, uint32_t n, float *ret_chances)
{
    float chance = 1;

    for (uint32_t j = 0; j < n; j++) {
        const uint32_t c = classes[j], i = class_position(c, j), k = class_source(c);
        const float first = k == 1 ? FIRST_GRAMMAR : 0.5f;
        const float common = (all->hit[c][i] + WEIGHT * first) / (all->tried[c][i] + WEIGHT);

        if (c != DRAFT_FORCED)
            chance *= (own[k].hit + WEIGHT * common) / (own[k].tried + WEIGHT);
        ret_chances[j] = chance;
    }
}

uint32_t draft_class(uint32_t len, float share)
{
    const uint32_t by_len = len > 1 ? 31 - (uint32_t)__builtin_clz(len) : 0;

    return MIN(by_len, DRAFT_FORCED / 2 - 1) * 2 + (share >= 0.7f);
}
