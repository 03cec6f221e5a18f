/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decoders: pieces to text
 *
 * A step maps a list of strings to a list of strings, as those of tokenizer.json do; at the end
 * the strings are joined.
 */

#include "core/str.h"
#include "tokenizer/pattern.h"

struct inf_tokenizer;

/* What a normal piece's text is. */
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
    DEC_CLEANUP,     /* English punctuation across pieces, as transformers does for BERT */
    DEC_FIRST_SPACE, /* SentencePiece: the space that starts the first piece goes */
};

struct dec_step {
    enum dec_kind kind;
    const char *text, *content; /* borrowed */
    size_t text_len, content_len;
    struct pattern *regex; /* REPLACE; owned */
    size_t start, stop;    /* STRIP */
    bool first;            /* METASPACE: the first piece loses its spaces; FIRST_SPACE: see there */
    bool cleanup;          /* WORDPIECE, CTC */
};

#define DEC_MAX_STEPS 64

struct decoder {
    struct dec_step *steps; /* owned */
    size_t n;
    bool join_spaces; /* no decoder at all: pieces are joined by spaces */
    bool user_spaces; /* STYLE_SPACES: in pieces that a user defined as well */
    bool each_byte;   /* U+FFFD for each bad byte, as SentencePiece does, not for each sequence */
};

struct dec_step *decoder_add(struct decoder *d, enum dec_kind kind);
void decoder_done(struct decoder *d);

struct span {
    size_t start, len;
    bool byte; /* made by a byte piece */
};

/* A list of strings in one buffer. */
struct strings {
    struct str buf;
    struct span *v;
    size_t n, cap;
};

void strings_done(struct strings *s);
void strings_clear(struct strings *s); /* keeps the memory */
/* Ends the string that was written to s->buf since the last one. */
int strings_end(struct strings *s);

/* Appends the string of a piece. */
int decode_piece(const struct inf_tokenizer *tok, int32_t id, struct strings *s);
/*
 * Runs the steps over @s and appends the result to @out; @s and @scratch are void afterwards. With
 * @raw, bytes that are no UTF-8 stay as they are; otherwise they become U+FFFD. Raw runs allocate
 * nothing once their strings have grown, but for DEC_CTC.
 */
int decoder_run(const struct decoder *d, struct strings *s, struct strings *scratch, bool raw,
                struct str *out);
/* Whether what a piece adds to a raw text depends on no other piece. */
bool decoder_is_local(const struct decoder *d);
/* Appends @s with U+FFFD for what is no UTF-8. */
int put_lossy(struct str *out, const char *s, size_t len, bool each_byte);
