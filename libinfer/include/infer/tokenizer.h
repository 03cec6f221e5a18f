/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_TOKENIZER_H
#define INFER_TOKENIZER_H

/*
 * Tokenizers: text to token ids and back
 *
 * A tokenizer is immutable, so any thread may use it at any time. Texts are UTF-8; invalid bytes
 * are read as U+FFFD, as Python's errors="replace" does.
 */

#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_tokenizer;
struct inf_detok;

enum inf_encode_flags {
    INF_ENCODE_ADD_SPECIAL = 1 << 0,   /* add BOS, EOS, [CLS]… as the model expects them */
    INF_ENCODE_PARSE_SPECIAL = 1 << 1, /* a text like "<|im_end|>" becomes that special token, not
                                          plain text */
};

enum inf_token_flags {
    INF_TOKEN_SPECIAL = 1 << 0, /* control token: not shown to people */
    INF_TOKEN_BYTE = 1 << 1,    /* represents one byte */
    INF_TOKEN_UNKNOWN = 1 << 2,
    INF_TOKEN_EOG = 1 << 3, /* ends generation */
};

/*
 * Encodes @len bytes. On success *ret_ids is an array of *ret_n ids that the caller frees with
 * free(); *ret_ids is NULL if there are none. -ENOMEM; -E2BIG: the result would have more than
 * @max_ids ids (0: no limit); encoding then stops early.
 */
INF_PUBLIC int inf_tokenizer_encode(const struct inf_tokenizer *tok, const char *text, size_t len,
                                    unsigned flags, size_t max_ids, int32_t **ret_ids,
                                    size_t *ret_n);

/* Where to truncate a text that is too long. */
enum inf_cut {
    INF_CUT_NONE, /* nowhere: a text that is too long is refused */
    INF_CUT_END,  /* at the end; the removed text costs almost no time, because it is not encoded */
    INF_CUT_START,
};

struct inf_encode_text {
    const char *text;
    size_t len;
};

/* ids and types share one allocation: the caller frees only ids. */
struct inf_encoding {
    int32_t *ids;
    uint8_t *types; /* the token type of each token; many encoders tell the two texts of a pair
                       apart by it */
    size_t n;
};

/*
 * Encodes a complete input of the model: a text, or a text and @pair (may be NULL) as "[CLS] text
 * [SEP] pair [SEP]". Texts are truncated, the longer text of a pair first, until the input has at
 * most @max_ids tokens (0: no limit). The special tokens around the texts are not truncated.
 * -E2BIG: the input has too many tokens and @cut is INF_CUT_NONE, or @max_ids leaves no room for a
 * token besides the special tokens; -ENOMEM.
 */
INF_PUBLIC int inf_tokenizer_encode_texts(const struct inf_tokenizer *tok,
                                          const struct inf_encode_text *text,
                                          const struct inf_encode_text *pair, unsigned flags,
                                          enum inf_cut cut, size_t max_ids,
                                          struct inf_encoding *ret_encoding);

/*
 * Decodes @n ids into one string that the caller frees. *ret_len does not count the NUL at the end
 * of the string. Special and unknown tokens are left out unless @show_special. Invalid UTF-8
 * becomes U+FFFD. -EINVAL: an id is outside the vocabulary; -ENOMEM.
 */
INF_PUBLIC int inf_tokenizer_decode(const struct inf_tokenizer *tok, const int32_t *ids, size_t n,
                                    bool show_special, char **ret_text, size_t *ret_len);

INF_PUBLIC uint32_t inf_tokenizer_n_vocab(const struct inf_tokenizer *tok);
/* Returns the kind of the tokenizer: "bpe", "spm", "unigram" or "wordpiece". */
INF_PUBLIC const char *inf_tokenizer_kind(const struct inf_tokenizer *tok);
/* Return the ids of the model's special tokens; -1 if there is no such token. */
INF_PUBLIC int32_t inf_tokenizer_bos(const struct inf_tokenizer *tok);
INF_PUBLIC int32_t inf_tokenizer_eos(const struct inf_tokenizer *tok);
INF_PUBLIC int32_t inf_tokenizer_pad(const struct inf_tokenizer *tok);
INF_PUBLIC bool inf_tokenizer_adds_bos(const struct inf_tokenizer *tok);
/* Returns the set of inf_token_flags of a token; 0 for plain tokens and for ids outside the
 * vocabulary. */
INF_PUBLIC unsigned inf_tokenizer_token_flags(const struct inf_tokenizer *tok, int32_t id);
/* Returns the token's piece, its text as the vocabulary stores it; NULL if the id is outside the
 * vocabulary. Borrowed. */
INF_PUBLIC const char *inf_tokenizer_token_text(const struct inf_tokenizer *tok, int32_t id,
                                                size_t *ret_len);
/* Finds the bytes that this token alone adds to a text. Writes at most @size of them into @buf, and
 * returns how many there are. Responses report these bytes as "bytes", next to the log-probability
 * of the token. */
INF_PUBLIC size_t inf_tokenizer_token_bytes(const struct inf_tokenizer *tok, int32_t id,
                                            unsigned char *buf, size_t size);
/* Returns the id of the token whose piece is exactly @piece; -1 if there is none. */
INF_PUBLIC int32_t inf_tokenizer_find(const struct inf_tokenizer *tok, const char *piece,
                                      size_t len);

/*
 * Creates a streaming decoder, which emits only whole code points. The decoder belongs to one
 * thread and borrows its tokenizer.
 */
INF_PUBLIC int inf_detok_new(const struct inf_tokenizer *tok, bool show_special,
                             struct inf_detok **ret_detok);
INF_PUBLIC struct inf_detok *inf_detok_free(struct inf_detok *detok);
/* Sets the special tokens that the text includes even without @show_special of inf_detok_new();
 * call it before inf_detok_prime(). The function copies @ids. -ENOMEM. */
INF_PUBLIC int inf_detok_show(struct inf_detok *detok, const int32_t *ids, size_t n);
/* Sets the @n tokens of the prompt that precede the text, because they decide whether the first
 * word of the text keeps the space before it. */
INF_PUBLIC int inf_detok_prime(struct inf_detok *detok, const int32_t *ids, size_t n);
/* Appends one token. *ret_text is the text that became final, possibly empty. The text is
 * NUL-terminated and borrowed until the next call. */
INF_PUBLIC int inf_detok_push(struct inf_detok *detok, int32_t id, const char **ret_text,
                              size_t *ret_len);
/* Returns the rest of the text; an incomplete code point at its end becomes U+FFFD. */
INF_PUBLIC int inf_detok_flush(struct inf_detok *detok, const char **ret_text, size_t *ret_len);

#ifdef __cplusplus
}
#endif
#endif
