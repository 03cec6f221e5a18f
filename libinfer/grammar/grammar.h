/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A compiled grammar with its automaton, and the masks of configurations (see automaton.h). */

#include <pthread.h>

#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/vocab.h"

/* One step in a text of a family (see vocab.h): the symbol, and the phase after the symbol. */
struct family_move {
    uint16_t symbol;
    uint8_t phase;
};

struct family_moves {
    struct family_move *moves; /* by phase: moves[first[phase]] … moves[first[phase + 1] - 1] */
    uint32_t first[FAMILY_PHASES + 1];
};

/* A stored mask: all words, or the list of its tokens if that is shorter. */
struct stored_mask {
    uint32_t *words; /* [n] */
    uint32_t n;
    bool is_list;
};

struct grammar_matcher {
    struct inf_grammar *grammar;
    uint32_t config;
    bool has_ended; /* a token that ends the generation was accepted */
    struct grammar_matcher *prev, *next;
};

struct inf_grammar {
    atomic_uint refs;
    struct inf_grammar_vocab *vocab;
    struct program *program;
    struct family_moves moves[N_FAMILIES];

    pthread_mutex_t lock; /* protects all members below, and the configurations of matchers */
    struct automaton automaton;
    uint32_t *path; /* [vocab->max_len + 1] configurations of a walk */
    struct stored_mask *masks;
    uint32_t n_masks, cap_masks;
    size_t masks_size; /* bytes */
    size_t memory;     /* bytes that the automaton may usually have */
    size_t large_size; /* an automaton of more bytes than this forgets its unused parts */
    size_t size_limit; /* bytes that the automaton may have at the end of the call */
    struct grammar_matcher *matchers;
    uint32_t n_matchers;
};

/* Makes a grammar from a program. On success, the grammar owns the program. */
int grammar_new(struct inf_grammar_vocab *vocab, struct program *program,
                struct inf_grammar **ret_grammar);
/* Forgets most of the automaton if it has become large. Must be called before any work on the
 * automaton. */
int grammar_make_room(struct inf_grammar *g);
/* Finds the configuration that follows @config when the text continues with a symbol. */
int grammar_step(struct inf_grammar *g, uint32_t config, uint32_t symbol, uint32_t *ret_config);
/* Computes the mask of a configuration, or copies the stored mask. */
int grammar_mask(struct inf_grammar *g, uint32_t config, uint32_t *ret_mask);
void grammar_drop_masks(struct inf_grammar *g);

int family_moves_init(struct family_moves *m, const struct program *p, unsigned family);
/* Finds a slice whose tokens may all follow the configuration; NULL: none. */
int grammar_find_slice(struct inf_grammar *g, uint32_t config, const struct family **ret_family,
                       const struct slice **ret_slice);
/* Returns whether it is already known that all texts of a family that continue in @phase may
 * follow. */
bool grammar_covers_any(struct inf_grammar *g, unsigned family, uint32_t config, uint8_t phase);
/* Finds the length of the longest text of ASCII characters of a family that may follow; UINT32_MAX:
 * not known. */
int grammar_ascii_limit(struct inf_grammar *g, unsigned family, uint32_t config,
                        uint32_t *ret_limit);
