/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores a vocabulary: finds pieces by id, and ids by the text of a piece.
 *
 * A vocabulary is filled while a tokenizer is loaded, and never changes after that. The texts are
 * stored in the arena or in the file that they came from, and need not end with NUL. Ids may have
 * gaps; ids in a gap have no text.
 */

#include <infer/types.h>

#include "core/arena.h"
#include "core/index.h"
#include "core/macros.h"
#include "core/map.h"

#define VOCAB_MAX_PIECES (1u << 24)
#define VOCAB_MAX_PIECE  65536u /* bytes per piece */

/* The kinds are numbered as in GGUF and SentencePiece. */
enum piece_kind {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN = 2,
    PIECE_CONTROL = 3,
    PIECE_USER = 4,
    PIECE_UNUSED = 5,
    PIECE_BYTE = 6,
};

struct piece {
    const char *text; /* NULL: there is no piece with this id */
    uint32_t len;
    uint8_t kind;
    bool eog;
};

struct vocab {
    struct arena arena;
    struct piece *pieces;
    double *scores; /* [cap]; NULL: all are 0 */
    uint32_t n, cap;
    uint32_t max_len; /* longest piece in the index */
    uint64_t seed;    /* seed of the hashes in the index */
    struct index ids;
    struct map lost; /* maps the text of each lost piece to its id; a piece is lost if a later piece
                        has taken its id */
};

/* Reserves room for @n pieces with ids below @n_ids; the caller has checked that both are within
 * the limits. */
int vocab_reserve(struct vocab *v, uint32_t n, uint32_t n_ids);
/* Stores the piece with id @id. If two ids have the same text, the text maps to the later one. */
int vocab_put(struct vocab *v, uint32_t id, const char *text, size_t len, enum piece_kind kind,
              struct inf_err *reterr);
/* Like vocab_put(), but borrows @text, which must outlive the vocabulary. */
int vocab_put_borrowed(struct vocab *v, uint32_t id, const char *text, size_t len,
                       enum piece_kind kind, struct inf_err *reterr);
/* Sets the score of an existing piece. */
int vocab_set_score(struct vocab *v, uint32_t id, double score);
static inline double vocab_score(const struct vocab *v, int32_t id)
{
    return v->scores ? v->scores[id] : 0;
}
/* Returns the id of the piece with this text, or -1. */
int32_t vocab_find(const struct vocab *v, const char *text, size_t len);
/* Like vocab_find(), for a caller that already has the hash_text() of the text with v->seed. */
int32_t vocab_find_hashed(const struct vocab *v, uint32_t hash, const char *text, size_t len);
static inline const struct piece *vocab_at(const struct vocab *v, int32_t id)
{
    return id >= 0 && (uint32_t)id < v->n && v->pieces[id].text ? &v->pieces[id] : NULL;
}
void vocab_done(struct vocab *v);

/* Returns the byte that a piece such as "<0x0A>" represents, or -1. */
int piece_byte(const char *text, size_t len);
/* Finds the ids of "<0x00>" … "<0xFF>"; -1: the piece is missing. Returns true if no piece is
 * missing. */
bool vocab_bytes(const struct vocab *v, int32_t ret_ids[256]);
