/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decodes pieces to text.
 *
 * A decoder is a list of steps, as in tokenizer.json. Each step maps a list of strings to a list of
 * strings. At the end the strings are joined.
 */

#include "core/str.h"
#include "tokenizer/pattern.h"

struct inf_tokenizer;

/* Meaning of the text of a normal piece. */
enum piece_style {
    STYLE_PLAIN,
    STYLE_SPACES, /* U+2581 is a space; byte pieces are bytes */
    STYLE_BYTES,  /* each character stands for a byte */
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
    DEC_CLEANUP,     /* cleans up English punctuation across pieces, as transformers does for
                        BERT */
    DEC_FIRST_SPACE, /* SentencePiece: removes the leading space of the first piece */
};

/* A step. The comment of a member names the kinds of steps that use the member. */
struct dec_step {
    enum dec_kind kind;
    const char *text, *content; /* borrowed */
    size_t text_len, content_len;
    struct pattern *regex; /* REPLACE; owned */
    size_t start, stop;    /* STRIP */
    bool first;            /* METASPACE: removes the spaces of the first piece; FIRST_SPACE: removes
                              a space from every piece until there is text */
    bool cleanup;          /* WORDPIECE, CTC */
};

#define DEC_MAX_STEPS 64

struct decoder {
    struct dec_step *steps; /* owned */
    size_t n;
    bool join_spaces; /* the file has no decoder: pieces are joined by spaces */
    bool user_spaces; /* STYLE_SPACES: U+2581 is a space in user-defined pieces as well */
    bool each_byte;   /* each invalid byte becomes U+FFFD, as in SentencePiece; otherwise each
                         invalid sequence becomes one U+FFFD */
};

struct dec_step *decoder_add(struct decoder *d, enum dec_kind kind);
void decoder_done(struct decoder *d);

struct span {
    size_t start, len;
    bool byte; /* the string comes from a byte piece */
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

/* Appends the string of the piece @id. */
int decode_piece(const struct inf_tokenizer *tok, int32_t id, struct strings *s);
/*
 * Runs the steps over @s and appends the result to @out. Afterwards the content of @s and @scratch
 * is undefined. With @raw, invalid UTF-8 is kept; otherwise it becomes U+FFFD. With @raw, no memory
 * is allocated if @s, @scratch and @out are already large enough, except by DEC_CTC, DEC_WORDPIECE,
 * and DEC_REPLACE with a regular expression.
 */
int decoder_run(const struct decoder *d, struct strings *s, struct strings *scratch, bool raw,
                struct str *out);
/* Returns true if each piece, decoded with @raw, adds a text that does not depend on other pieces.
 */
bool decoder_is_local(const struct decoder *d);
/* Appends @s, with U+FFFD in place of invalid UTF-8. */
int put_lossy(struct str *out, const char *s, size_t len, bool each_byte);
