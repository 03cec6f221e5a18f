/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TOKENIZER_H
#define INFER_TOKENIZER_H

/*
 * Tokenizers
 *
 * Text in, token ids out, and back. A tokenizer is immutable: any thread may use it at any time.
 * Texts are UTF-8; invalid bytes are read as U+FFFD, as Python's errors="replace" does.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_tokenizer;
struct inf_detok;

enum inf_encode_flags {
    INF_ENCODE_ADD_SPECIAL = 1 << 0,   /* BOS, EOS, [CLS]… as the model wants them */
    INF_ENCODE_PARSE_SPECIAL = 1 << 1, /* "<|im_end|>" in the text is the token, not letters */
};

enum inf_token_flags {
    INF_TOKEN_SPECIAL = 1 << 0, /* control token: not shown to people */
    INF_TOKEN_BYTE = 1 << 1,    /* stands for one byte */
    INF_TOKEN_UNKNOWN = 1 << 2,
    INF_TOKEN_EOG = 1 << 3, /* ends a generation */
};

/*
 * Encodes @len bytes. On success *ret_ids is an array of *ret_n ids that the caller frees with
 * free(); it is NULL when there are none. -ENOMEM, or -E2BIG when the result would be more than
 * @max_ids (0: no limit); encoding stops there and costs no more.
 */
INF_PUBLIC int inf_tokenizer_encode(const struct inf_tokenizer *tok, const char *text, size_t len,
                                    unsigned flags, size_t max_ids, int32_t **ret_ids,
                                    size_t *ret_n);

/* Where a text that is too long loses its tokens. */
enum inf_cut {
    INF_CUT_NONE, /* it is refused */
    INF_CUT_END,  /* what is behind the cut costs next to nothing */
    INF_CUT_START,
};

struct inf_encode_text {
    const char *text;
    size_t len;
};

/* ids and types are two arrays in one piece of memory: the caller frees ids alone. */
struct inf_encoding {
    int32_t *ids;
    uint8_t *types; /* which segment a token belongs to, as encoders of pairs want it */
    size_t n;
};

/*
 * Encodes a text as a model wants it whole, or with @pair, which may be NULL, both as one: "[CLS]
 * text [SEP] pair [SEP]". With more than @max_ids tokens (0: no limit) texts are cut, of a pair the
 * longer one first; tokens around them stay. -E2BIG: too many tokens and INF_CUT_NONE, or no room
 * for those around the texts; -ENOMEM.
 */
INF_PUBLIC int inf_tokenizer_encode_texts(const struct inf_tokenizer *tok,
                                          const struct inf_encode_text *text,
                                          const struct inf_encode_text *pair, unsigned flags,
                                          enum inf_cut cut, size_t max_ids,
                                          struct inf_encoding *ret_encoding);

/*
 * The text of @n ids, as one string that the caller frees; *ret_len without its final NUL.
 * Special tokens are left out unless @show_special. Bytes that are no UTF-8 become U+FFFD.
 * -EINVAL for an id outside the vocabulary.
 */
INF_PUBLIC int inf_tokenizer_decode(const struct inf_tokenizer *tok, const int32_t *ids, size_t n,
                                    bool show_special, char **ret_text, size_t *ret_len);

INF_PUBLIC uint32_t inf_tokenizer_n_vocab(const struct inf_tokenizer *tok);
/* "bpe", "spm", "unigram", "wordpiece" */
INF_PUBLIC const char *inf_tokenizer_kind(const struct inf_tokenizer *tok);
/* Ids of the model's own tokens; -1 where it has none. */
INF_PUBLIC int32_t inf_tokenizer_bos(const struct inf_tokenizer *tok);
INF_PUBLIC int32_t inf_tokenizer_eos(const struct inf_tokenizer *tok);
INF_PUBLIC int32_t inf_tokenizer_pad(const struct inf_tokenizer *tok);
INF_PUBLIC bool inf_tokenizer_adds_bos(const struct inf_tokenizer *tok);
/* A set of inf_token_flags; 0 for plain tokens and for ids outside the vocabulary. */
INF_PUBLIC unsigned inf_tokenizer_token_flags(const struct inf_tokenizer *tok, int32_t id);
/* The piece as the vocabulary stores it; borrowed; NULL outside the vocabulary. */
INF_PUBLIC const char *inf_tokenizer_token_text(const struct inf_tokenizer *tok, int32_t id,
                                                size_t *ret_len);
/* The bytes that this one token adds to a text; into @buf of @size; returns the full length.
 * Needed by logprobs ("bytes") and by grammars. */
INF_PUBLIC size_t inf_tokenizer_token_bytes(const struct inf_tokenizer *tok, int32_t id,
                                            unsigned char *buf, size_t size);
/* The id of a token by its exact piece, or -1. */
INF_PUBLIC int32_t inf_tokenizer_find(const struct inf_tokenizer *tok, const char *piece,
                                      size_t len);

/*
 * Streaming: text leaves as whole code points only. A detok belongs to one thread and holds a
 * borrowed tokenizer.
 */
INF_PUBLIC int inf_detok_new(const struct inf_tokenizer *tok, bool show_special,
                             struct inf_detok **ret_detok);
INF_PUBLIC struct inf_detok *inf_detok_free(struct inf_detok *detok);
/* Starts after @n tokens of prompt, so that the first word keeps or drops its space rightly. */
INF_PUBLIC int inf_detok_prime(struct inf_detok *detok, const int32_t *ids, size_t n);
/* Appends one token; *ret_text (borrowed until the next call, NUL-terminated) is what became
 * final by it, possibly of length 0. */
INF_PUBLIC int inf_detok_push(struct inf_detok *detok, int32_t id, const char **ret_text,
                              size_t *ret_len);
/* The rest: an unfinished code point leaves as U+FFFD. */
INF_PUBLIC int inf_detok_flush(struct inf_detok *detok, const char **ret_text, size_t *ret_len);

#ifdef __cplusplus
}
#endif
#endif
