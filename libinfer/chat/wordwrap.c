/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the parts of Python's textwrap that |wordwrap uses. The text is split into chunks:
 * runs of whitespace, words, parts of hyphenated words, and dashes between words. Lines are filled
 * with chunks.
 */
#include "chat/wordwrap.h"

#include <errno.h>
#include <string.h>

struct wrap {
    struct jinja *j;
    const char *start, *end;
    bool hyphens;
};

/* Returns whether textwrap counts @cp as whitespace. textwrap knows only ASCII whitespace. */
static bool is_ws(uint32_t cp)
{
    return cp == ' ' || (cp >= 9 && cp <= 13);
}

static bool is_word(uint32_t cp)
{
    return cp == '_' || cp_is_alnum(cp);
}

static bool is_wordish(uint32_t cp)
{
    return is_word(cp) || (cp < 0x80 && cp && strchr("!\"'&.,?", (int)cp));
}

static bool is_letter(uint32_t cp)
{
    return is_word(cp) && !cp_is_decimal(cp);
}

static uint32_t char_at(const struct wrap *w, const char *p)
{
    return p < w->end ? u8_next(&p) : 0;
}

/* Returns the character @back places before @p, or 0. */
static uint32_t char_before(const struct wrap *w, const char *p, int back)
{
    uint32_t cp = 0;

    for (; back > 0; back--) {
        if (p <= w->start)
            return 0;
        cp = u8_prev(&p);
    }
    return cp;
}

static const char *next_char(const struct wrap *w, const char *p)
{
    if (p < w->end)
        u8_next(&p);
    return p;
}

/* Returns the end of the hyphens if two or more hyphens and then a word are at @p, else NULL. */
static const char *match_dashes(const struct wrap *w, const char *p)
{
    const char *q = p;

    while (q < w->end && *q == '-')
        q++;
    return q - p >= 2 && q < w->end && is_word(char_at(w, q)) ? q : NULL;
}

/* Returns whether a hyphenated word may break after the hyphen at @p. */
static bool hyphen_break(const struct wrap *w, const char *p)
{
    const char *next = p + 1;
    const uint32_t b1 = char_before(w, p, 1), b2 = char_before(w, p, 2), b3 = char_before(w, p, 3);

    if (!(b1 && b2 && is_letter(b1) && is_letter(b2)) &&
        !(b1 && b2 == '-' && b3 && is_wordish(b1) && is_letter(b3)))
        return false;
    if (next >= w->end || !is_letter(char_at(w, next)))
        return false;
    next = next_char(w, next);
    if (next < w->end && *next == '-')
        next++;
    return next < w->end && is_letter(char_at(w, next));
}

static const char *find_chunk_end(const struct wrap *w, const char *p)
{
    const bool space = is_ws(char_at(w, p));
    const char *q = p;

    if (space || !w->hyphens) {
        while (q < w->end && is_ws(char_at(w, q)) == space)
            q = next_char(w, q);
        return q;
    }
    if (char_before(w, p, 1) && is_wordish(char_before(w, p, 1)) && (q = match_dashes(w, p)))
        return q;
    for (q = next_char(w, p); q < w->end && !is_ws(char_at(w, q)); q = next_char(w, q)) {
        if (*q == '-' && hyphen_break(w, q))
            return q + 1;
        if (is_wordish(char_before(w, q, 1)) && match_dashes(w, q))
            return q;
    }
    return q;
}

/* Finds the end of a chunk. Each call is charged (jinja_charge()), because the rest of a long word
 * that is split into lines is read again for each line. */
static const char *chunk_end(const struct wrap *w, const char *p)
{
    const char *end = find_chunk_end(w, p);

    jinja_chars(w->j, 4 * (size_t)(end - p));
    return end;
}

struct chunk {
    const char *s;
    size_t len, n; /* numbers of bytes and of code points */
};

static struct chunk chunk_of(const char *s, const char *end)
{
    struct chunk c = {.s = s, .len = (size_t)(end - s)};

    for (const char *p = s; p < end; c.n++)
        u8_next(&p);
    return c;
}

/* Returns how many bytes of a long word fit into @space characters. The cut is after the last
 * hyphen if there is one. */
static size_t long_cut(const struct wrap *w, const struct chunk *c, size_t space)
{
    const char *p = c->s, *hyphen = NULL;
    bool only = true;

    for (size_t i = 0; i < space; i++) {
        if (*p == '-' && w->hyphens && i > 0 && !only)
            hyphen = p + 1;
        only = only && *p == '-';
        u8_next(&p);
    }
    return (size_t)((hyphen ? hyphen : p) - c->s);
}

struct value wordwrap(struct jinja *j, struct jstr *s, int64_t width, bool break_long, bool hyphens)
{
    const struct wrap w = {.j = j, .start = s->data, .end = s->data + s->len, .hyphens = hyphens};
    struct value lines = val_list(j, 0);
    const char *p = s->data;

    if (width <= 0)
        raise_value(j, "invalid width %lld (must be > 0)", (long long)width);
    while (p < w.end) {
        const char *start = p, *stop, *end = p;
        size_t used = 0;

        if (lines.u.l->n && is_ws(char_at(&w, p)))
            start = end = p = chunk_end(&w, p);
        stop = p;
        while (p < w.end) {
            const struct chunk c = chunk_of(p, chunk_end(&w, p));

            if (used + c.n > (size_t)width) {
                if (c.n > (size_t)width && (break_long || used == 0)) {
                    const size_t space = (size_t)width - used;

                    if (break_long && space > 0)
                        p += long_cut(&w, &c, space);
                    else if (used == 0)
                        p += c.len;
                    end = p;
                    stop = p;
                }
                break;
            }
            used += c.n;
            end = p;
            p += c.len;
            if (!is_ws(char_at(&w, end)))
                stop = p;
        }
        /* Whitespace at the end of a line is dropped: stop is the end of the line's last word. */
        if (stop > start)
            jlist_push(j, lines.u.l, val_str(j, start, (size_t)(stop - start)));
        jinja_step(j, 1);
    }
    return lines;
}
