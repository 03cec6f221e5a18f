/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Remembers recent answers, so that drafts for new answers can be taken from them.
 *
 * Answers are remembered by key. The key of a request is the root of the names of its KV blocks
 * (kv/prefix.h), which depends on the tenant and the salt. So drafts, like KV blocks, never carry
 * text from one tenant to another. Each key has two automata (suffix.h). New answers go to the
 * newer one; when it is full, the older one is dropped, and an empty one takes its place. Only
 * DRAFT_MEMORY_KEYS keys are remembered; the key that has been unused for the longest time is
 * forgotten first.
 */

#include "core/macros.h"
#include "draft/suffix.h"

#define DRAFT_MEMORY_KEYS   8u
#define DRAFT_MEMORY_TOKENS 16384u /* of one automaton */
#define DRAFT_KEY_BYTES     32u

struct draft_memory;

/* The places in the two automata of a key that match the end of a text. All zero: the beginning of
 * a text. */
struct draft_memory_place {
    struct suffix_place places[2];
    uint64_t versions[2]; /* the automata that the places belong to; 0: none */
};

/* -ENOMEM. */
int draft_memory_new(struct draft_memory **ret_memory);
struct draft_memory *draft_memory_free(struct draft_memory *m);

/* Adds an answer of @n tokens to the texts of @key [DRAFT_KEY_BYTES]. Only the
 * last DRAFT_MEMORY_TOKENS ÷ 4 tokens of a longer answer are added. If the automaton cannot be
 * allocated, nothing is added. */
void draft_memory_add(struct draft_memory *m, const uint8_t *key, const int32_t *tokens,
                      uint32_t n);
/* Moves @place forward to the end of the text @tokens [n], of which the last @n_new tokens are
 * new. */
void draft_memory_follow(struct draft_memory *m, const uint8_t *key,
                         struct draft_memory_place *place, const int32_t *tokens, uint32_t n,
                         uint32_t n_new);
/* Like suffix_draft(), from the automaton in which @place has the longer match. *ret_len: the
 * length of this match; 0: there is none. */
uint32_t draft_memory_draft(const struct draft_memory *m, const uint8_t *key,
                            const struct draft_memory_place *place, uint32_t n, int32_t *ret_tokens,
                            float *ret_share, uint32_t *ret_len);
