/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tokens of a tokenizer as a trie of bytes
 *
 * A slice is a set of tokens that many grammars permit all together: for example all tokens of
 * characters that stand for themselves inside of a JSON string. Where a grammar permits a slice,
 * only the other tokens are looked up one by one. A family is a set of characters. Each family has
 * several slices: each slice has the tokens that consist of characters of the family and are not
 * longer than a limit, because grammars limit the lengths of texts.
 */

#include <infer/grammar.h>

#include <stdatomic.h>

#include "grammar/dfa.h"

enum {
    N_LEVELS = 18, /* slices of one family */
    FAMILY_PHASES = UTF8_STATES + 2,
};

/* A node; nodes are stored in depth-first order. */
struct trie_node {
    uint32_t size;  /* nodes of the subtree, this one included */
    int32_t token;  /* id; -1: none; below -1: several ids, in the list number -2 - token */
    uint16_t depth; /* number of bytes before this node's byte */
    uint8_t byte;
};

struct token_trie {
    struct trie_node *nodes;
    uint32_t n;
};

/* The tokens of a family up to a length. */
struct slice {
    uint32_t min_len, max_len; /* characters of its own tokens; UINT32_MAX: any number */
    uint32_t *mask;            /* [n_words] its tokens */
    struct token_trie ascii;   /* its own tokens (those that shorter slices do not have) of ASCII */
    struct token_trie wide;    /* its own tokens that have other characters */
    uint32_t n_other;          /* number of nodes in the tries of all tokens outside of the slice */
};

struct family {
    struct slice slices[N_LEVELS]; /* slices by ascending length */
    struct token_trie others;      /* the tokens outside of the family */
    uint32_t others_at[256]; /* the node of the trie `others` for a first byte; UINT32_MAX: none */
    int32_t *members; /* its tokens, sorted by the first byte: members[members_at[byte]] … */
    uint32_t members_at[257];
};

struct inf_grammar_vocab {
    atomic_uint refs;
    atomic_size_t memory; /* bytes of the automaton of a new grammar */
    const struct inf_tokenizer *tok;
    uint32_t n_vocab, n_words, max_len;
    struct token_trie all;
    uint32_t *lists; /* ids of tokens with equal bytes: the number of ids, then the ids */
    uint32_t *list_at;
    uint32_t n_lists;
    struct family families[N_FAMILIES];
    int32_t *ends; /* tokens that end the generation */
    uint32_t n_ends;
};

/* Returns the phase after @byte in a text of @family, or UTF8_INVALID. A phase is a state between
 * two bytes of a text: it says how the current character may continue. */
uint8_t family_step(unsigned family, uint8_t phase, uint8_t byte);
struct inf_grammar_vocab *grammar_vocab_ref(struct inf_grammar_vocab *vocab);
/* Returns whether a token stands for its bytes. */
bool vocab_has_bytes(const struct inf_grammar_vocab *vocab, int32_t token);
