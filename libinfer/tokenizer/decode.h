/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decoders: pieces to text
 *
 * A step maps a list of strings to a list of strings, like the steps of tokenizer.json; at the end
 * the strings are joined.
 */

#include "core/str.h"
#include "tokenizer/pattern.h"

struct inf_tokenizer;

/* Meaning of a normal piece's text. */
enum piece_style {
    STYLE_PLAIN,
    STYLE_SPACES, /* U+2581 is a space; byte pieces are bytes */
    STYLE_BYTES,  /* characters that stand for bytes */
};

enum dec_kind {
    DEC_BYTES,
    DEC_METASPACE,
    DEC_WORDPIECE,
    DEC_SUFFIX, /* "BPEDecoder" */
    DEC_BYTE_FALLBACK,
    DEC_FUSE,
    DEC_STRIP,
    DEC_REPLACE,
    DEC_CTC,
    DEC_CLEANUP,     /* English punctuation across pieces, as in transformers for BERT */
    DEC_FIRST_SPACE, /* SentencePiece: removes the leading space of the first piece */
};

struct dec_step {
    enum dec_kind kind;
    const char *text, *content; /* borrowed */
    size_t text_len, content_len;
    struct pattern *regex; /* REPLACE; owned */
    size_t start, stop;    /* STRIP */
    bool first;            /* METASPACE: remove the spaces of the first piece; FIRST_SPACE: see
                              there */
    bool cleanup;          /* WORDPIECE, CTC */
};

#define DEC_MAX_STEPS 64

struct decoder {
    struct dec_step *steps; /* owned */
    size_t n;
    bool join_spaces; /* there is no decoder: pieces are joined by spaces */
    bool user_spaces; /* STYLE_SPACES: also in user-defined pieces */
    bool each_byte;   /* U+FFFD for each bad byte, as in SentencePiece, not for each sequence */
};

struct dec_step *decoder_add(struct decoder *d, enum dec_kind kind);
void decoder_done(struct decoder *d);

struct span {
    size_t start, len;
    bool byte; /* from a byte piece */
};

/* A list of strings in one buffer. */
struct strings {
    struct str buf;
    struct span *v;
    size_t n, cap;
};

void strings_done(struct strings *s);
void strings_clear(struct strings *s); /* keeps the memory */
/* Ends the string that was written to s->buf. */
int strings_end(struct strings *s);

/* Appends the string of a piece. */
int decode_piece(const struct inf_tokenizer *tok, int32_t id, struct strings *s);
/*
 * Runs the steps over @s and appends the result to @out. Afterwards the content of @s and @scratch
 * is undefined. With @raw, invalid UTF-8 is kept; otherwise it becomes U+FFFD. Raw runs allocate
 * nothing once their strings have grown, except for DEC_CTC.
 */
int decoder_run(const struct decoder *d, struct strings *s, struct strings *scratch, bool raw,
                struct str *out);
/* Whether the text that a piece adds to a raw text is independent of other pieces. */
bool decoder_is_local(const struct decoder *d);
/* Appends @s with U+FFFD for invalid UTF-8. */
int put_lossy(struct str *out, const char *s, size_t len, bool each_byte);
