/* SPDX-License-Identifier: Apache-2.0 */
#include "draft/rates.h"

#include <assert.h>

#include "core/macros.h"

#define OWN_FADE 0.9f
#define WEIGHT   4.0f

static void fade_count(float *tried, float *n_hit, float fade, bool hit)
{
    *tried = *tried * fade + 1;
    *n_hit = *n_hit * fade + (float)hit;
}

void draft_rates_note(struct draft_rates *all, struct draft_own_rates *own, uint32_t i_class,
                      uint32_t position, bool hit)
{
    assert(i_class < DRAFT_CLASSES && position < DRAFT_MAX);
    if (i_class == DRAFT_FORCED)
        return;
    fade_count(&all->tried[i_class][position], &all->hit[i_class][position], DRAFT_FADE, hit);
    fade_count(&own->tried, &own->hit, OWN_FADE, hit);
}

void draft_rates_chances(const struct draft_rates *all, const struct draft_own_rates *own,
                         uint32_t i_class, uint32_t n, float *ret_chances)
{
    float chance = 1;

    for (uint32_t i = 0; i < n; i++) {
        const float common =
            (all->hit[i_class][i] + WEIGHT / 2) / (all->tried[i_class][i] + WEIGHT);

        if (i_class != DRAFT_FORCED)
            chance *= (own->hit + WEIGHT * common) / (own->tried + WEIGHT);
        ret_chances[i] = chance;
    }
}

uint32_t draft_class(uint32_t len, float share)
{
    const uint32_t by_len = len > 1 ? 31 - (uint32_t)__builtin_clz(len) : 0;

    return MIN(by_len, DRAFT_FORCED / 2 - 1) * 2 + (share >= 0.7f);
}
