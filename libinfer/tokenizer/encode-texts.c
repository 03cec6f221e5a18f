/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes complete inputs of models: texts or pairs with special tokens, truncated if the caller
 * asks for it.
 *
 * A text that is truncated at its end need not be encoded completely. A beginning of the text can
 * be encoded alone if it ends right before a space that stands between two letters, because no
 * splitter makes a word across such a place.
 */
#include <errno.h>
#include <string.h>

#include "tokenizer/pipeline.h"

/* Bytes of text that are encoded per requested token. The number is doubled if these bytes give too
 * few tokens. */
#define BYTES_PER_TOKEN 8u
#define BYTES_MIN       256u

struct body {
    int32_t *ids;
    size_t n;
};

static void body_done(struct body *b)
{
    free(b->ids);
}

static bool splits_words(const struct inf_tokenizer *tok)
{
    for (size_t i = 0; i < tok->split.n; i++) {
        const struct split_step *st = &tok->split.steps[i];

        if (st->kind == SPLIT_FAST || st->kind == SPLIT_SPACES || st->kind == SPLIT_WORDS ||
            (st->kind == SPLIT_METASPACE && st->split) || st->kind == SPLIT_BYTES)
            return true;
    }
    return false;
}

/* Returns whether an added token contains a space. Such a token may lie across the place where a
 * beginning ends. */
static bool added_have_spaces(const struct added *a)
{
    for (uint32_t i = 0; i < a->trie.n; i++)
        if (memchr(a->trie.items[i].text, ' ', a->trie.items[i].len))
            return true;
    return false;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns the last place before @end at which a text may be cut, so that the part before the cut
 * keeps its tokens; 0: there is none. */
static size_t safe_end(const char *s, size_t end)
{
    for (size_t i = end - 2; i > 0; i--)
        if (s[i] == ' ' && is_letter(s[i - 1]) && is_letter(s[i + 1]))
            return i;
    return 0;
}

static int encode_whole(const struct inf_tokenizer *tok, const char *s, size_t len, unsigned flags,
                        size_t max, struct body *ret)
{
    return inf_tokenizer_encode(tok, s, len, flags & ~(unsigned)INF_ENCODE_ADD_SPECIAL, max,
                                &ret->ids, &ret->n);
}

/* Encodes enough of a text to know at least its first @max tokens. -E2BIG if that gives more than
 * @limit tokens (0: no limit). */
static int encode_start(const struct inf_tokenizer *tok, const char *s, size_t len, unsigned flags,
                        size_t max, size_t limit, struct body *ret)
{
    size_t take = max <= len / BYTES_PER_TOKEN ? max * BYTES_PER_TOKEN + BYTES_MIN : len;
    int r;

    if (take >= len || !splits_words(tok) || added_have_spaces(&tok->added) ||
        added_have_spaces(&tok->added_normal))
        return encode_whole(tok, s, len, flags, limit, ret);
    for (; take < len; take *= 2) {
        const size_t end = safe_end(s, take);

        if (end < take / 2)
            continue;
        r = encode_whole(tok, s, end, flags, limit, ret);
        if (r < 0 || ret->n >= max)
            return r;
        free(ret->ids);
        *ret = (struct body){0};
    }
    return encode_whole(tok, s, len, flags, limit, ret);
}

/* Encodes one text. If the text will be truncated at its end, it is enough to encode a beginning
 * that gives at least @max tokens. If texts that are too long are refused, the text is encoded only
 * until it is known to be too long. */
static int encode_body(const struct inf_tokenizer *tok, const struct inf_encode_text *text,
                       unsigned flags, enum inf_cut cut, size_t max, struct body *ret)
{
    if (cut == INF_CUT_END && max < SIZE_MAX)
        return encode_start(tok, text->text, text->len, flags, max, 0, ret);
    if (cut == INF_CUT_NONE && max < SIZE_MAX)
        return encode_start(tok, text->text, text->len, flags, max + 1, max, ret);
    return encode_whole(tok, text->text, text->len, flags, 0, ret);
}

/* Reduces the token counts @n of two texts to @max tokens in all. The longer text is shortened
 * first, as with Hugging Face's "longest_first". */
static void share_tokens(size_t n[2], size_t max)
{
    const unsigned small = n[0] > n[1];
    size_t a = n[small], b = n[!small];

    if (a + b <= max)
        return;
    b = a > max ? a : MAX(a, max - a);
    if (a + b > max) {
        a = max / 2;
        b = a + max % 2;
    }
    n[small] = a;
    n[!small] = b;
}

static void put_tokens(struct inf_encoding *e, const int32_t *ids, size_t n, const uint8_t *types,
                       uint8_t type)
{
    if (n == 0)
        return;
    memcpy(e->ids + e->n, ids, n * sizeof(*ids));
    if (types)
        memcpy(e->types + e->n, types, n);
    else
        memset(e->types + e->n, type, n);
    e->n += n;
}

static void put_body(struct inf_encoding *e, const struct body *b, size_t keep, enum inf_cut cut,
                     uint8_t type)
{
    if (keep > 0)
        put_tokens(e, b->ids + (cut == INF_CUT_START ? b->n - keep : 0), keep, NULL, type);
}

int inf_tokenizer_encode_texts(const struct inf_tokenizer *tok, const struct inf_encode_text *text,
                               const struct inf_encode_text *pair, unsigned flags, enum inf_cut cut,
                               size_t max_ids, struct inf_encoding *ret_encoding)
{
    _cleanup_(body_done) struct body a = {0}, b = {0};
    const bool around = flags & INF_ENCODE_ADD_SPECIAL;
    const struct around_pair *p = &tok->pair;
    struct inf_encoding e = {0};
    size_t n_around = 0, max = SIZE_MAX, keep[2];
    int r;

    if (around)
        n_around = pair ? p->n[0] + p->n[1] + p->n[2] : tok->n_prefix + tok->n_suffix;
    if (max_ids > 0 && n_around >= max_ids)
        return -E2BIG;
    if (max_ids > 0)
        max = max_ids - n_around;
    r = encode_body(tok, text, flags, cut, max, &a);
    if (r == 0 && pair)
        r = encode_body(tok, pair, flags, cut, max, &b);
    if (r < 0)
        return r;
    if (cut == INF_CUT_NONE && a.n + b.n > max)
        return -E2BIG;
    keep[0] = a.n;
    keep[1] = b.n;
    if (pair)
        share_tokens(keep, max);
    keep[0] = MIN(keep[0], max);

    e.ids = malloc((n_around + keep[0] + keep[1] + 1) * (sizeof(int32_t) + 1));
    if (!e.ids)
        return -ENOMEM;
    e.types = (uint8_t *)(e.ids + n_around + keep[0] + keep[1] + 1);
    if (around)
        put_tokens(&e, pair ? p->ids[0] : tok->prefix, pair ? p->n[0] : tok->n_prefix,
                   pair ? p->types[0] : NULL, 0);
    put_body(&e, &a, keep[0], cut, pair ? p->text_types[0] : 0);
    if (around && pair)
        put_tokens(&e, p->ids[1], p->n[1], p->types[1], 0);
    if (pair)
        put_body(&e, &b, keep[1], cut, p->text_types[1]);
    if (around)
        put_tokens(&e, pair ? p->ids[2] : tok->suffix, pair ? p->n[2] : tok->n_suffix,
                   pair ? p->types[2] : NULL, 0);
    if (tok->one_type)
        memset(e.types, 0, e.n);
    *ret_encoding = e;
    return 0;
}
