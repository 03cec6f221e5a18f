/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the splitter steps of tokenizer.json and GGUF files. split-fast.c has the hand-written
 * splitters.
 */
#include "tokenizer/split.h"

#include <errno.h>
#include <string.h>

#include "core/utf8.h"
#include "tokenizer/normalize.h"

struct split_step *splitter_add(struct splitter *s, enum split_kind kind)
{
    struct split_step *p;

    if (s->n == SPLIT_MAX_STEPS)
        return NULL;
    p = realloc(s->steps, (s->n + 1) * sizeof(*p));
    if (!p)
        return NULL;
    s->steps = p;
    p[s->n] = (struct split_step){.kind = kind, .version = UNI_16, .behavior = SPLIT_ISOLATED};
    return &p[s->n++];
}

void splitter_done(struct splitter *s)
{
    for (size_t i = 0; i < s->n; i++)
        pattern_free(s->steps[i].regex);
    free(s->steps);
    *s = (struct splitter){0};
}

/* A cutter takes matches and the gaps between them, in order, and turns them into segments. */
struct cutter {
    struct segs *out;
    size_t base;
    enum split_behavior behavior;
    bool previous;     /* whether the part before the current one was a match */
    size_t first;      /* index of the first segment of the text that is being cut */
    size_t start, len; /* MERGED_NEXT: a delimiter that waits for the following part */
    bool waiting;
};

static int cut_push(struct cutter *c, size_t start, size_t len)
{
    return len ? segs_push(c->out, c->base + start, len, -1) : 0;
}

static int cut_extend(struct cutter *c, size_t len)
{
    c->out->v[c->out->n - 1].len += len;
    return 0;
}

/* Joins a delimiter with the part after it, unless that part is a delimiter too. */
static int cut_merged_next(struct cutter *c, size_t start, size_t len, bool match)
{
    int r = 0;

    if (c->waiting && !match) {
        start = c->start;
        len += c->len;
        c->waiting = false;
    } else if (c->waiting) {
        r = cut_push(c, c->start, c->len);
        c->waiting = false;
    }
    if (r < 0)
        return r;
    if (!match)
        return cut_push(c, start, len);
    c->start = start;
    c->len = len;
    c->waiting = true;
    return 0;
}

static int cut_part(struct cutter *c, size_t start, size_t len, bool match)
{
    const bool any = c->out->n > c->first, previous = c->previous;

    c->previous = match;
    switch (c->behavior) {
    case SPLIT_REMOVED:
        return match ? 0 : cut_push(c, start, len);
    case SPLIT_CONTIGUOUS:
        return match == previous && any ? cut_extend(c, len) : cut_push(c, start, len);
    case SPLIT_MERGED_PREVIOUS:
        return match && !previous && any ? cut_extend(c, len) : cut_push(c, start, len);
    case SPLIT_MERGED_NEXT:
        return cut_merged_next(c, start, len, match);
    default:
        return cut_push(c, start, len);
    }
}

static int cut_finish(struct cutter *c)
{
    return c->waiting ? cut_push(c, c->start, c->len) : 0;
}

static struct cutter cutter_init(struct segs *out, size_t base, enum split_behavior behavior)
{
    return (struct cutter){.out = out, .base = base, .behavior = behavior, .first = out->n};
}

static int by_regex(const struct split_step *st, struct pattern_work *work, const char *s,
                    size_t len, struct cutter *c)
{
    struct pattern_walk walk = {0};
    size_t done = 0, start, end;
    int r = 0;

    while (r == 0) {
        r = pattern_next(st->regex, work, s, len, &walk, &start, &end);
        if (r == PATTERN_NONE)
            break;
        if (r < 0)
            return r;
        if (start > done)
            r = cut_part(c, done, start - done, st->invert);
        if (r == 0)
            r = cut_part(c, start, end - start, !st->invert);
        done = end;
    }
    if (r >= 0 && done < len)
        r = cut_part(c, done, len - done, st->invert);
    return r < 0 ? r : cut_finish(c);
}

static int by_string(const struct split_step *st, const char *s, size_t len, struct cutter *c)
{
    size_t done = 0;
    const char *p;
    int r = 0;

    while (r == 0 && st->text_len && (p = memmem(s + done, len - done, st->text, st->text_len))) {
        const size_t start = (size_t)(p - s);

        if (start > done)
            r = cut_part(c, done, start - done, st->invert);
        if (r == 0)
            r = cut_part(c, start, st->text_len, !st->invert);
        done = start + st->text_len;
    }
    if (r == 0 && done < len)
        r = cut_part(c, done, len - done, st->invert);
    return r < 0 ? r : cut_finish(c);
}

static bool is_delimiter(const struct split_step *st, uint32_t cp)
{
    switch (st->kind) {
    case SPLIT_SPACES:
        return uni_space(cp);
    case SPLIT_PUNCTUATION:
        return uni_bert_punct(cp);
    default:
        return uni_numeric(cp);
    }
}

/* Splits at delimiters. Each delimiter is one code point and one match. */
static int by_code_point(const struct split_step *st, const char *s, size_t len, struct cutter *c)
{
    size_t done = 0, n;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i += n) {
        uint32_t cp;

        n = utf8_decode(s + i, len - i, &cp);
        if (!is_delimiter(st, cp))
            continue;
        if (i > done)
            r = cut_part(c, done, i - done, false);
        if (r == 0)
            r = cut_part(c, i, n, true);
        done = i + n;
    }
    if (r == 0 && done < len)
        r = cut_part(c, done, len - done, false);
    return r < 0 ? r : cut_finish(c);
}

static int by_fast(const struct split_step *st, const char *s, size_t len, size_t base,
                   struct segs *out)
{
    int r = 0;

    for (size_t i = 0, end; r == 0 && i < len; i = end) {
        end = split_fast_word(st, s, len, i);
        r = segs_push(out, base + i, end - i, -1);
    }
    return r;
}

/* Splits by \w+|[^\w\s]+ of Rust's regex. */
static int by_words(const char *s, size_t len, size_t base, struct segs *out)
{
    size_t start = 0, n;
    int last = 0, r = 0; /* 0: space, 1: word, 2: other */

    for (size_t i = 0; r == 0 && i < len; i += n) {
        uint32_t cp;
        int kind;

        n = utf8_decode(s + i, len - i, &cp);
        kind = uni_word_rust(cp) ? 1 : uni_space(cp) ? 0 : 2;
        if (kind == last)
            continue;
        if (last != 0)
            r = segs_push(out, base + start, i - start, -1);
        start = i;
        last = kind;
    }
    return r == 0 && last != 0 ? segs_push(out, base + start, len - start, -1) : r;
}

/* Returns the number of a code point's script as in SentencePiece, where kana and U+30FC count as
 * Han. A space belongs to any script (-1). */
static int script_of(uint32_t cp)
{
    return cp == ' ' ? -1 : uni_script(cp);
}

static int by_scripts(const char *s, size_t len, size_t base, struct segs *out)
{
    size_t start = 0, n;
    int last = -2, r = 0;
    bool open = false;

    /* Text before the first code point with a script is dropped, as in Hugging Face's
     * tokenizers. */
    for (size_t i = 0; r == 0 && i < len; i += n) {
        uint32_t cp;
        int script;

        n = utf8_decode(s + i, len - i, &cp);
        script = script_of(cp);
        if (script < 0 || script == last)
            continue;
        if (open)
            r = segs_push(out, base + start, i - start, -1);
        open = true;
        start = i;
        last = script;
    }
    return r == 0 && open ? segs_push(out, base + start, len - start, -1) : r;
}

static int by_length(const struct split_step *st, const char *s, size_t len, size_t base,
                     struct segs *out)
{
    size_t start = 0, chars = 0, n;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i += n) {
        uint32_t cp;

        n = utf8_decode(s + i, len - i, &cp);
        if (++chars == st->length) {
            r = segs_push(out, base + start, i + n - start, -1);
            start = i + n;
            chars = 0;
        }
    }
    return r == 0 && start < len ? segs_push(out, base + start, len - start, -1) : r;
}

/* Splits runs of digits into groups of three from the right. Text before a number stays with the
 * number's first group, as in llama.cpp, where a later step separates them. */
static int by_groups(const struct split_step *st, const char *s, size_t len, size_t base,
                     struct segs *out)
{
    size_t done = 0, i = 0, n;
    int r = 0;

    while (r == 0 && i < len) {
        size_t digits = 0, end = i;
        uint32_t cp;

        while (end < len && (n = utf8_decode(s + end, len - end, &cp)) > 0 &&
               (uni_class(cp, st->version) & UNI_N)) {
            digits++;
            end += n;
        }
        if (digits == 0) {
            i += utf8_decode(s + i, len - i, &cp);
            continue;
        }
        for (; r == 0 && digits > 0; digits--) {
            i += utf8_decode(s + i, len - i, &cp);
            if ((digits - 1) % 3 == 0) {
                r = segs_push(out, base + done, i - done, -1);
                done = i;
            }
        }
    }
    return r == 0 && done < len ? segs_push(out, base + done, len - done, -1) : r;
}

/* Splits a run of ASCII digits at each place where the number of remaining digits is a multiple of
 * three. These places are the matches of (?=(?:[0-9]{3})+(?![0-9])); matching that expression would
 * take quadratic time. */
static int by_ascii_groups(const char *s, size_t len, size_t base, struct segs *out)
{
    size_t done = 0, i = 0;
    int r = 0;

    while (r == 0 && i < len) {
        size_t end = i;

        while (end < len && s[end] >= '0' && s[end] <= '9')
            end++;
        if (end == i) {
            i++;
            continue;
        }
        for (; r == 0 && i < end; i++) {
            if ((end - i) % 3 != 0 || i == done)
                continue;
            r = segs_push(out, base + done, i - done, -1);
            done = i;
        }
    }
    return r == 0 && done < len ? segs_push(out, base + done, len - done, -1) : r;
}

static int split_seg(const struct split_step *st, struct pattern_work *work, const char *buf,
                     struct seg seg, struct segs *out)
{
    const char *s = buf + seg.start;
    struct cutter c = cutter_init(out, seg.start, st->behavior);

    switch (st->kind) {
    case SPLIT_REGEX:
        return by_regex(st, work, s, seg.len, &c);
    case SPLIT_STRING:
    case SPLIT_CHAR:
        return by_string(st, s, seg.len, &c);
    case SPLIT_FAST:
        return by_fast(st, s, seg.len, seg.start, out);
    case SPLIT_WORDS:
        return by_words(s, seg.len, seg.start, out);
    case SPLIT_SCRIPTS:
        return by_scripts(s, seg.len, seg.start, out);
    case SPLIT_LENGTH:
        return by_length(st, s, seg.len, seg.start, out);
    case SPLIT_ASCII_GROUPS:
        return by_ascii_groups(s, seg.len, seg.start, out);
    case SPLIT_GROUPS_OF_3:
        return by_groups(st, s, seg.len, seg.start, out);
    default:
        return by_code_point(st, s, seg.len, &c);
    }
}

static int put_bytes(struct str *out, const char *s, size_t len)
{
    int r = str_reserve(out, len * 2);

    for (size_t i = 0; r == 0 && i < len; i++) {
        const uint32_t cp = byte_char((unsigned char)s[i]);

        if (cp >= 0x80)
            out->data[out->len++] = (char)(0xc0 | cp >> 6);
        out->data[out->len++] = (char)(cp >= 0x80 ? 0x80 | (cp & 0x3f) : cp);
    }
    if (r == 0 && out->data)
        out->data[out->len] = 0;
    return r;
}

/* Appends a segment in which every ' ' is replaced by the symbol of the step, with a prefix if the
 * step adds one. */
static int put_metaspace(const struct split_step *st, const char *s, size_t len, bool first,
                         struct str *out)
{
    const bool starts =
        (len >= st->text_len && memcmp(s, st->text, st->text_len) == 0) || (len > 0 && *s == ' ');
    int r = 0;

    if (st->prepend == SPLIT_PREPEND_FORCED)
        r = str_append(out, st->text, st->text_len);
    if (!starts &&
        (st->prepend == SPLIT_PREPEND_ALWAYS || (st->prepend == SPLIT_PREPEND_FIRST && first)))
        r = str_append(out, st->text, st->text_len);
    for (size_t i = 0, end; r == 0 && i < len; i = end) {
        const char *p = memchr(s + i, ' ', len - i);

        end = p ? (size_t)(p - s) : len;
        r = str_append(out, s + i, end - i);
        if (r == 0 && p) {
            r = str_append(out, st->text, st->text_len);
            end++;
        }
    }
    return r;
}

/* Runs a step that changes the text. A prefix that the step adds to the first word counts as a part
 * of the input's first code point, so @out->zero (text.h) includes it. */
static int rewrite_text(const struct split_step *st, struct text *in, struct text *out)
{
    const struct split_step at_text = {.kind = SPLIT_STRING,
                                       .behavior = SPLIT_MERGED_NEXT,
                                       .text = st->text,
                                       .text_len = st->text_len};
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->segs.n; i++) {
        const struct seg seg = in->segs.v[i];
        const char *s = (in->buf.data ? in->buf.data : "") + seg.start;
        const bool first = seg.start < in->zero;
        const size_t start = out->buf.len, zero = first ? MIN(seg.len, in->zero - seg.start) : 0;
        size_t end;

        if (seg.id >= 0) {
            r = str_append(&out->buf, s, seg.len);
            if (r == 0)
                r = segs_push(&out->segs, start, seg.len, seg.id);
        } else if (st->kind == SPLIT_BYTES) {
            if (st->prepend == SPLIT_PREPEND_ALWAYS && (seg.len == 0 || *s != ' '))
                r = put_bytes(&out->buf, " ", 1);
            if (r == 0)
                r = put_bytes(&out->buf, s, seg.len);
            if (r == 0)
                r = segs_push(&out->segs, start, out->buf.len - start, -1);
        } else {
            r = put_metaspace(st, s, seg.len, first, &out->buf);
            if (r == 0 && st->split)
                r = split_seg(&at_text, NULL, out->buf.data ? out->buf.data : "",
                              (struct seg){start, out->buf.len - start, -1}, &out->segs);
            else if (r == 0)
                r = segs_push(&out->segs, start, out->buf.len - start, -1);
        }
        end = out->buf.len;
        if (first)
            out->zero =
                zero == seg.len ? end : start + MIN(end - start, zero + (end - start) - seg.len);
    }
    return r;
}

static void swap_texts(struct text *a, struct text *b)
{
    const struct text t = *a;

    *a = *b;
    *b = t;
}

static int run_step(const struct split_step *st, struct pattern_work *work, struct text *text,
                    struct text *spare)
{
    const char *buf = text->buf.data ? text->buf.data : "";
    struct segs segs;
    int r = 0;

    spare->segs.n = 0;
    if (st->kind == SPLIT_BYTES || st->kind == SPLIT_METASPACE) {
        str_clear(&spare->buf);
        spare->zero = 0;
        r = rewrite_text(st, text, spare);
        swap_texts(text, spare);
        return r;
    }
    for (size_t i = 0; r == 0 && i < text->segs.n; i++) {
        const struct seg seg = text->segs.v[i];

        if (seg.id >= 0)
            r = segs_push(&spare->segs, seg.start, seg.len, seg.id);
        else if (seg.len > 0)
            r = split_seg(st, work, buf, seg, &spare->segs);
    }
    segs = text->segs;
    text->segs = spare->segs;
    spare->segs = segs;
    return r;
}

int splitter_run(const struct splitter *s, struct pattern_work *work, struct text *text,
                 struct text *spare)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++)
        r = run_step(&s->steps[i], work, text, spare);
    return r;
}
