/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes single words with WordPiece and WordLevel.
 */
#include "tokenizer/wordpiece.h"

#include <errno.h>
#include <string.h>

int wordpiece_init(struct wordpiece *w, const struct vocab *vocab, const char *prefix,
                   size_t prefix_len)
{
    int r = 0;

    w->vocab = vocab;
    for (uint32_t i = 0; r == 0 && i < vocab->n; i++) {
        const struct piece *p = &vocab->pieces[i];

        if (!p->text)
            continue;
        r = trie_add(&w->first, p->text, p->len, (int32_t)i);
        if (r == 0 && p->len > prefix_len && memcmp(p->text, prefix, prefix_len) == 0)
            r = trie_add(&w->next, p->text + prefix_len, p->len - (uint32_t)prefix_len, (int32_t)i);
    }
    trie_seal(&w->first);
    trie_seal(&w->next);
    return r;
}

void wordpiece_done(struct wordpiece *w)
{
    trie_done(&w->first);
    trie_done(&w->next);
    *w = (struct wordpiece){0};
}

static int put_unknown(const struct wordpiece *w, struct ids *out)
{
    if (w->unknown < 0)
        return w->skip_words ? 0 : -EINVAL;
    return ids_push(out, w->unknown);
}

static size_t count_chars(const char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)s[i] & 0xc0) != 0x80;
    return n;
}

/* Finds the longest piece at the start of @s that ends at the border of a code point. Returns its
 * length, or 0. */
static size_t longest_piece(const struct trie *t, const char *s, size_t len, int32_t *ret_id)
{
    struct trie_walk w = trie_start(t);
    size_t best = 0;
    int32_t id;

    for (size_t i = 0; i < len && trie_step(t, &w, (unsigned char)s[i], &id); i++) {
        if (id >= 0 && (i + 1 == len || ((unsigned char)s[i + 1] & 0xc0) != 0x80)) {
            best = i + 1;
            *ret_id = id;
        }
    }
    return best;
}

int wordpiece_encode(const struct wordpiece *w, const char *word, size_t len, struct ids *out)
{
    const size_t start = out->n;
    size_t n;
    int32_t id;
    int r;

    if (w->whole) {
        id = vocab_find(w->vocab, word, len);
        return id >= 0 ? ids_push(out, id) : put_unknown(w, out);
    }
    if (w->max_chars && count_chars(word, len) > w->max_chars)
        return put_unknown(w, out);
    for (size_t i = 0; i < len; i += n) {
        n = longest_piece(i == 0 ? &w->first : &w->next, word + i, len - i, &id);
        if (n == 0) {
            out->n = start;
            return put_unknown(w, out);
        }
        r = ids_push(out, id);
        if (r < 0)
            return r;
    }
    return 0;
}
