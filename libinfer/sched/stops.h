/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop strings in a stream of text
 *
 * The set is made once per request, the state once per choice. The match that ends first wins;
 * of several that end at the same byte, the one that starts first: how the text was cut into
 * tokens does not matter.
 */

#include <infer/engine.h>

#include "core/macros.h"

#define STOPS_MAX       256
#define STOPS_MAX_BYTES 65536

struct stop_set {
    uint32_t n;
    char *text;        /* all strings, one behind the other */
    uint32_t *start;   /* [n + 1] */
    uint32_t *failure; /* Knuth-Morris-Pratt, beside text */
};

/* At most STOPS_MAX strings of STOPS_MAX_BYTES in all, none empty (asserted). -ENOMEM. */
int stop_set_init(struct stop_set *set, const struct inf_stop *stops, size_t n);
void stop_set_done(struct stop_set *set);

struct stop_match {
    uint32_t i_stop;
    uint32_t len; /* of the stop string */
    size_t end;   /* bytes of the text that were read, the match's last included */
};

/*
 * Reads @text. @state: [set->n], zero at the beginning. True when a stop string is complete; the
 * text behind ret->end was not read. Otherwise the state is that after the whole text.
 */
bool stop_set_scan(const struct stop_set *set, uint32_t *state, const char *text, size_t len,
                   struct stop_match *ret_match);
/* How many of the last bytes may be the beginning of a stop string. */
uint32_t stop_set_held(const struct stop_set *set, const uint32_t *state);
