/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Estimates how many tokens of a draft will be accepted, from earlier drafts.
 *
 * Position j of a draft counts as tried when all positions before it were accepted, and as a hit
 * when it was accepted as well. The estimate of a position's chance is
 *     (hits + 1/2 × weight) ÷ (tries + weight)
 * over all sequences, by the class of the draft (how it was found) and the position. The counts
 * fade: each new try multiplies the older ones by DRAFT_FADE. The chance for one sequence is the
 * same fraction of its own counts, with the common estimate in place of 1/2. The chance that j
 * tokens are accepted is the product of the chances of the first j positions. The tokens of one
 * draft may belong to several classes. Tokens that follow from a grammar are expected to be right
 * more often, and their position does not matter.
 */

#include <stdbool.h>
#include <stdint.h>

#define DRAFT_MAX     16u   /* tokens of a draft */
#define DRAFT_CLASSES 21u   /* classes of drafted tokens */
#define DRAFT_FORCED  16u   /* class of tokens that are certain to come */
#define DRAFT_BYTES   17u   /* the only text that a grammar permits */
#define DRAFT_LIKELY  18u   /* the text that a grammar makes likely */
#define DRAFT_MODEL   19u   /* tokens of a draft model, for greedy choices */
#define DRAFT_RANDOM  20u   /* the same, for random choices */
#define DRAFT_FADE    0.98f /* of the counts of all sequences */
#define DRAFT_SOURCES 3u    /* texts, grammars and draft models */

struct draft_rates {
    float tried[DRAFT_CLASSES][DRAFT_MAX], hit[DRAFT_CLASSES][DRAFT_MAX];
};

/* The counts of one sequence. */
struct draft_own_rates {
    float tried, hit;
};

/* Records one position of a draft, whose token is of class @i_class. @own [DRAFT_SOURCES] */
void draft_rates_note(struct draft_rates *all, struct draft_own_rates *own, uint32_t i_class,
                      uint32_t position, bool hit);
/* Fills in the chance that at least j + 1 tokens are accepted, for each j < @n. @own
 * [DRAFT_SOURCES]; @classes [n]: those of the tokens. */
void draft_rates_chances(const struct draft_rates *all, const struct draft_own_rates *own,
                         const uint8_t *classes, uint32_t n, float *ret_chances);
/* Returns the class of a draft that was found by a match of @len tokens. @share: the share of the
 * places with this match that are followed by the draft's first token. */
uint32_t draft_class(uint32_t len, float share);
