/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds stop strings in a stream of text.
 *
 * A request has one set of stop strings, and each of its choices (answers) has its own state. The
 * match that ends first counts; of several matches that end at the same byte, the match that starts
 * first counts. The result does not depend on how the text was split into tokens.
 */

#include <infer/engine.h>

#include "core/macros.h"

#define STOPS_MAX       256
#define STOPS_MAX_BYTES 65536

struct stop_set {
    uint32_t n;
    char *text;        /* all strings, concatenated */
    uint32_t *start;   /* [n + 1] */
    uint32_t *failure; /* Knuth-Morris-Pratt failure function, parallel to text */
};

/* Initializes @set with at most STOPS_MAX strings, of at most STOPS_MAX_BYTES bytes together. No
 * string may be empty. The function asserts these conditions. Returns 0 or -ENOMEM. */
int stop_set_init(struct stop_set *set, const struct inf_stop *stops, size_t n);
void stop_set_done(struct stop_set *set);

struct stop_match {
    uint32_t i_stop;
    uint32_t len; /* length of the stop string */
    size_t end;   /* bytes of the scanned piece up to and including the last byte of the match */
};

/*
 * Scans @text, the next piece of the text. @state has set->n elements, which the caller sets to
 * zero before the first call. Returns true if a stop string is complete; then the bytes of the
 * piece after ret_match->end were not scanned.
 */
bool stop_set_scan(const struct stop_set *set, uint32_t *state, const char *text, size_t len,
                   struct stop_match *ret_match);
/* Returns how many of the last bytes of the text may be the beginning of a stop string. */
uint32_t stop_set_held(const struct stop_set *set, const uint32_t *state);
