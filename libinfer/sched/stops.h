/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop strings in a stream of text
 *
 * The set is created once per request, the state once per choice. The match that ends first wins;
 * of several matches that end at the same byte, the one that starts first wins. The result does not
 * depend on how the text was split into tokens.
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

/* Takes at most STOPS_MAX strings of STOPS_MAX_BYTES in all, none empty (asserted). -ENOMEM. */
int stop_set_init(struct stop_set *set, const struct inf_stop *stops, size_t n);
void stop_set_done(struct stop_set *set);

struct stop_match {
    uint32_t i_stop;
    uint32_t len; /* length of the stop string */
    size_t end;   /* bytes of the text up to and including the last byte of the match */
};

/*
 * Scans @text. @state is [set->n], zero at the beginning. Returns true if a stop string is
 * complete; the text behind ret->end was not scanned. Otherwise the state covers the whole text.
 */
bool stop_set_scan(const struct stop_set *set, uint32_t *state, const char *text, size_t len,
                   struct stop_match *ret_match);
/* How many of the last bytes may be the beginning of a stop string. */
uint32_t stop_set_held(const struct stop_set *set, const uint32_t *state);
