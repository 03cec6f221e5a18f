/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds added tokens in a text, and splits the text there.
 */
#include "tokenizer/added.h"

#include <errno.h>

#include "core/array.h"
#include "core/utf8.h"
#include "tokenizer/codepoint.h"

int added_put(struct added *a, const char *text, uint32_t len, int32_t id, unsigned flags)
{
    if (ARRAY_GROW(a->tokens, a->cap, a->n + 1u) < 0)
        return -ENOMEM;
    a->tokens[a->n] = (struct added_token){id, flags};
    return trie_add(&a->trie, text, len, (int32_t)a->n++);
}

void added_seal(struct added *a)
{
    trie_seal(&a->trie);
}

void added_done(struct added *a)
{
    trie_done(&a->trie);
    free(a->tokens);
    *a = (struct added){0};
}

/* Returns the code point that ends at @s + @end. */
static uint32_t code_point_before(const char *s, size_t end, size_t *ret_len)
{
    size_t n = 1;
    uint32_t cp = 0;

    while (n < end && n < 4 && ((unsigned char)s[end - n] & 0xc0) == 0x80)
        n++;
    utf8_decode(s + end - n, n, &cp);
    *ret_len = n;
    return cp;
}

static bool is_single_word(const char *s, size_t len, size_t start, size_t end)
{
    uint32_t cp;
    size_t n;

    if (start > 0 && uni_word_rust(code_point_before(s, start, &n)))
        return false;
    return end == len || utf8_decode(s + end, len - end, &cp) == 0 || !uni_word_rust(cp);
}

static bool is_space(const struct added *a, uint32_t cp)
{
    return uni_space(cp) && (cp < 0x80 || !a->ascii_space);
}

static size_t strip_left(const struct added *a, const char *s, size_t start)
{
    size_t n;

    while (start > 0 && is_space(a, code_point_before(s, start, &n)))
        start -= n;
    return start;
}

static size_t strip_right(const struct added *a, const char *s, size_t len, size_t end)
{
    uint32_t cp;
    size_t n;

    while (end < len && (n = utf8_decode(s + end, len - end, &cp)) > 0 && is_space(a, cp))
        end += n;
    return end;
}

int added_split(const struct added *a, const char *buf, struct seg seg, bool parse_special,
                struct segs *out)
{
    const char *s = buf + seg.start;
    size_t done = 0, i = 0;
    int r;

    if (a->n == 0)
        return seg.len ? segs_push(out, seg.start, seg.len, -1) : 0;
    while (i < seg.len) {
        int32_t index;
        size_t n = 0, start, end;
        const struct added_token *t;

        if (trie_any(&a->trie, (unsigned char)s[i]))
            n = trie_longest(&a->trie, s + i, seg.len - i, &index);
        if (n == 0) {
            i++;
            continue;
        }
        t = &a->tokens[index];
        start = i;
        end = i + n;
        i = end;
        /* A match that is ignored still hides later tokens that overlap it. */
        if (!parse_special && (t->flags & ADDED_SPECIAL))
            continue;
        if ((t->flags & ADDED_SINGLE_WORD) && !is_single_word(s, seg.len, start, end))
            continue;
        if (t->flags & ADDED_LSTRIP)
            start = MAX(strip_left(a, s, start), done);
        if (t->flags & ADDED_RSTRIP)
            end = strip_right(a, s, seg.len, end);
        if (start > done) {
            r = segs_push(out, seg.start + done, start - done, -1);
            if (r < 0)
                return r;
        }
        r = segs_push(out, seg.start + start, end > start ? end - start : 0, t->id);
        if (r < 0)
            return r;
        done = end;
    }
    return done < seg.len ? segs_push(out, seg.start + done, seg.len - done, -1) : 0;
}
