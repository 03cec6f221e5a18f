/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Chooses how many drafted tokens a step verifies, by the measured times of steps.
 *
 * A step of n decoding sequences that also computes e drafted tokens takes time(n, e). It gives
 * n + Σ chances tokens, where the chances (rates.h) are those of the e drafted tokens. The choice
 * is the e with the most tokens per second; drafted tokens are taken in order of their chances.
 * Times are measured for each n and e, because kernels have cliffs: a fifth row may cost more than
 * a fourth. A time that was not measured is interpolated between its neighbors.
 *
 * Tokens that were found in a text cost only their verification. A draft model also needs a step
 * of its own for each position of its drafts; one step serves all sequences that draft there. If m
 * sequences draft at a position, this step takes model_time(m). The time of a choice is then
 *     time(n, e) + Σ over positions of model_time(number of drafts that reach the position).
 * Some draft models draft all tokens in one step (`at_once`). model_time(m) is then the time of a
 * step that drafts m tokens, for any number of sequences, and the time of a choice is
 *     time(n, e) + model_time(number of drafted tokens).
 *
 * If the model has a state that cannot go back (`replays`), the step after a rejected draft
 * computes the accepted tokens again, and verifies no draft. The tokens and the time of this step,
 * times the mean chance of a rejection, are then added to those of a choice. The functions are
 * pure: they depend only on their arguments.
 */

#include <stdbool.h>
#include <stdint.h>

#include "draft/rates.h"

#define DRAFT_MAX_SEQS  32u /* with more sequences, nothing is drafted */
#define DRAFT_MAX_EXTRA 48u /* drafted tokens of a step */

struct draft_time {
    double usec; /* 0: not measured */
    uint32_t n;  /* number of measurements, up to a small limit */
    uint64_t at; /* number of the step of the last measurement */
};

#define DRAFT_MEASURE 2u /* steps without drafts that are measured before the first draft */

struct draft_cost {
    struct draft_time times[DRAFT_MAX_SEQS + 1][DRAFT_MAX_EXTRA + 1]; /* [n][e] */
    bool replays; /* a rejected draft makes the next step compute the accepted tokens again */
    /* Steps of a draft model, by the number of their sequences, or with `at_once`, of the tokens
     * that they draft. */
    struct draft_time models[DRAFT_MAX_EXTRA + 1];
    bool at_once; /* the draft model drafts all tokens in one step */
    uint64_t n_steps;
};

/* The tokens that one sequence could draft, and the chances that they are accepted. */
struct draft_offer {
    uint32_t n;               /* drafted tokens; 0: none */
    bool by_model;            /* a draft model makes them, one step for each position */
    float chances[DRAFT_MAX]; /* that at least j + 1 tokens are accepted */
};

/* Records that a step with @n_seqs decoding sequences and @n_extra drafted tokens took @usec. */
void draft_cost_note(struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra, uint64_t usec);
/* Returns the expected time of a step in microseconds; 0: the time of steps without drafts is
 * unknown. */
double draft_cost_time(const struct draft_cost *cost, uint32_t n_seqs, uint32_t n_extra);
/* Records that a step of the draft model with one row for each of @n sequences, or with `at_once`
 * one that drafted @n tokens, took @usec. */
void draft_cost_note_model(struct draft_cost *cost, uint32_t n, uint64_t usec);
/* Returns the expected time of such a step, with @n at most DRAFT_MAX_EXTRA. If none was measured,
 * assumes a part of a step of the model. */
double draft_cost_model_time(const struct draft_cost *cost, uint32_t n);
/* Returns the expected time of a draft of @n tokens for one sequence alone. */
double draft_cost_alone_time(const struct draft_cost *cost, uint32_t n);
/* Chooses how many tokens of each of the @n offers the next step verifies, @max_extra in all. Fills
 * @ret_n [n], and returns their sum. @cost NULL: drafts cost nothing. *ret_gain: the expected
 * tokens per second, as a multiple of those without drafts; NULL: not wanted. */
uint32_t draft_cost_choose(const struct draft_cost *cost, const struct draft_offer *offers,
                           uint32_t n, uint32_t max_extra, uint32_t *ret_n, double *ret_gain);
