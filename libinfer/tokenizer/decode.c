/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs decoder steps, which turn pieces into text.
 */
#include "tokenizer/decode.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/utf8.h"
#include "tokenizer/pipeline.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

struct dec_step *decoder_add(struct decoder *d, enum dec_kind kind)
{
    struct dec_step *p;

    if (d->n == DEC_MAX_STEPS)
        return NULL;
    p = realloc(d->steps, (d->n + 1) * sizeof(*p));
    if (!p)
        return NULL;
    d->steps = p;
    p[d->n] = (struct dec_step){.kind = kind};
    return &p[d->n++];
}

void decoder_done(struct decoder *d)
{
    for (size_t i = 0; i < d->n; i++)
        pattern_free(d->steps[i].regex);
    free(d->steps);
    *d = (struct decoder){0};
}

void strings_done(struct strings *s)
{
    str_done(&s->buf);
    free(s->v);
    *s = (struct strings){0};
}

void strings_clear(struct strings *s)
{
    str_clear(&s->buf);
    s->n = 0;
}

int strings_end(struct strings *s)
{
    const size_t start = s->n ? s->v[s->n - 1].start + s->v[s->n - 1].len : 0;

    if (ARRAY_GROW(s->v, s->cap, s->n + 1) < 0)
        return -ENOMEM;
    s->v[s->n++] = (struct span){start, s->buf.len - start, false};
    return 0;
}

int put_lossy(struct str *out, const char *s, size_t len, bool each_byte)
{
    int r = 0;

    while (r == 0 && len > 0) {
        const size_t good = utf8_valid_prefix(s, len);
        size_t bad = 0;

        r = str_append(out, s, good);
        if (r == 0 && good < len) {
            bad = each_byte ? 1 : utf8_bad_length(s + good, len - good);
            r = str_puts(out, REPLACEMENT);
        }
        s += good + bad;
        len -= good + bad;
    }
    return r;
}

/* Appends @s, with each @from replaced by @to. */
static int put_replaced(struct str *out, const char *s, size_t len, const char *from,
                        size_t from_len, const char *to, size_t to_len)
{
    const char *p;
    int r = 0;

    while (r == 0 && from_len && (p = memmem(s, len, from, from_len))) {
        r = str_append(out, s, (size_t)(p - s));
        if (r == 0)
            r = str_append(out, to, to_len);
        len -= (size_t)(p - s) + from_len;
        s = p + from_len;
    }
    return r < 0 ? r : str_append(out, s, len);
}

/* Writes the bytes that the characters of a byte-level vocabulary stand for. If a character stands
 * for no byte, copies the text instead. */
static int put_from_bytes(struct str *out, const char *s, size_t len)
{
    const size_t start = out->len;
    size_t n;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i += n) {
        uint32_t cp;
        int byte = -1;

        n = utf8_decode(s + i, len - i, &cp);
        if (n > 0)
            byte = char_byte(cp);
        if (byte < 0) {
            out->len = start;
            return str_append(out, s, len);
        }
        r = str_putc(out, (char)byte);
    }
    return r;
}

int decode_piece(const struct inf_tokenizer *tok, int32_t id, struct strings *s)
{
    const struct piece *p = vocab_at(&tok->vocab, id);
    uint64_t shown;
    int r, byte;
    bool plain;

    if (!p)
        return strings_end(s);
    byte = p->kind == PIECE_BYTE ? piece_byte(p->text, p->len) : -1;
    plain = p->kind == PIECE_NORMAL || p->kind == PIECE_UNUSED;
    if (tok->style != STYLE_PLAIN && byte >= 0)
        r = str_putc(&s->buf, (char)byte);
    else if (tok->style == STYLE_SPACES &&
             (plain || (p->kind == PIECE_USER && tok->dec.user_spaces)))
        r = put_replaced(&s->buf, p->text, p->len, "\xe2\x96\x81", 3, " ", 1);
    else if (tok->style == STYLE_BYTES && plain)
        r = put_from_bytes(&s->buf, p->text, p->len);
    else if (map_find(&tok->shown, p->text, p->len, &shown))
        r = str_append(&s->buf, tok->added_normal.trie.items[shown].text,
                       tok->added_normal.trie.items[shown].len);
    else
        r = str_append(&s->buf, p->text, p->len);
    if (r == 0)
        r = strings_end(s);
    if (r == 0)
        s->v[s->n - 1].byte = tok->style != STYLE_PLAIN && byte >= 0;
    return r;
}

/* A function that decodes string @i of @n. */
typedef int (*map_fn)(const struct dec_step *st, const char *s, size_t len, size_t i, size_t n,
                      struct str *out);

static int decode_metaspace(const struct dec_step *st, const char *s, size_t len, size_t i,
                            size_t n, struct str *out)
{
    const bool drop = i == 0 && st->first;

    (void)n;
    return put_replaced(out, s, len, st->text, st->text_len, " ", drop ? 0 : 1);
}

/* Cleans up English text as WordPiece and CTC do. */
static int cleanup_text(struct str *text, bool do_not)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        struct str next = {0};
        int r;

        if (!do_not && strcmp(pairs[i][0], " do not") == 0)
            continue;
        if (!text->data || !memmem(text->data, text->len, pairs[i][0], strlen(pairs[i][0])))
            continue;
        r = put_replaced(&next, text->data, text->len, pairs[i][0], strlen(pairs[i][0]),
                         pairs[i][1], strlen(pairs[i][1]));
        if (r < 0) {
            str_done(&next);
            return r;
        }
        str_done(text);
        *text = next;
    }
    return 0;
}

static int decode_wordpiece(const struct dec_step *st, const char *s, size_t len, size_t i,
                            size_t n, struct str *out)
{
    _cleanup_str_ struct str text = {0};
    int r = 0;

    (void)n;
    if (i != 0) {
        if (len >= st->text_len && memcmp(s, st->text, st->text_len) == 0) {
            s += st->text_len;
            len -= st->text_len;
        } else {
            r = str_putc(&text, ' ');
        }
    }
    if (r == 0)
        r = str_append(&text, s, len);
    if (r == 0 && st->cleanup)
        r = cleanup_text(&text, true);
    return r < 0 ? r : str_append(out, text.data, text.len);
}

static int decode_suffix(const struct dec_step *st, const char *s, size_t len, size_t i, size_t n,
                         struct str *out)
{
    return put_replaced(out, s, len, st->text, st->text_len, " ", i + 1 == n ? 0 : 1);
}

static int decode_strip(const struct dec_step *st, const char *s, size_t len, size_t i, size_t n,
                        struct str *out)
{
    const size_t k = st->text_len;

    (void)i;
    (void)n;
    for (size_t c = 0; c < st->start && len >= k && memcmp(s, st->text, k) == 0; c++) {
        s += k;
        len -= k;
    }
    for (size_t c = 0; c < st->stop && len >= k && memcmp(s + len - k, st->text, k) == 0; c++)
        len -= k;
    return str_append(out, s, len);
}

static int decode_replace(const struct dec_step *st, const char *s, size_t len, size_t i, size_t n,
                          struct str *out)
{
    _cleanup_(pattern_work_freep) struct pattern_work *work = NULL;
    struct pattern_walk walk = {0};
    size_t done = 0, start, end;
    int r;

    (void)i;
    (void)n;
    if (!st->regex)
        return put_replaced(out, s, len, st->text, st->text_len, st->content, st->content_len);
    /* An earlier step may have written raw bytes, which are not text that can be searched. */
    if (!utf8_valid(s, len))
        return str_append(out, s, len);
    r = pattern_work_new(&work);
    while (r == 0) {
        r = pattern_next(st->regex, work, s, len, &walk, &start, &end);
        if (r == PATTERN_NONE)
            break;
        if (r < 0)
            return r;
        r = str_append(out, s + done, start - done);
        if (r == 0)
            r = str_append(out, st->content, st->content_len);
        done = end;
    }
    return r < 0 ? r : str_append(out, s + done, len - done);
}

static int map_strings(const struct dec_step *st, map_fn fn, const struct strings *in,
                       struct strings *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n; i++) {
        r = fn(st, in->buf.data + in->v[i].start, in->v[i].len, i, in->n, &out->buf);
        if (r == 0)
            r = strings_end(out);
    }
    return r;
}

/* Joins all pieces to one string, because a string of Hugging Face's tokenizers cannot hold a part
 * of a code point. */
static int decode_bytes(const struct strings *in, bool raw, struct strings *out)
{
    _cleanup_str_ struct str all = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n; i++)
        r = put_from_bytes(raw ? &out->buf : &all, in->buf.data + in->v[i].start, in->v[i].len);
    if (r == 0 && !raw)
        r = put_lossy(&out->buf, all.data, all.len, false);
    return r < 0 ? r : strings_end(out);
}

/* Ends a run of byte pieces, whose bytes were written after the other strings. If not all of the
 * run is valid UTF-8, each of its bytes becomes U+FFFD. */
static int end_run(struct strings *out, size_t start, bool raw)
{
    const size_t len = out->buf.len - start;
    int r = 0;

    if (len == 0)
        return 0;
    if (!raw && !utf8_valid(out->buf.data + start, len)) {
        out->buf.len = start;
        for (size_t i = 0; r == 0 && i < len; i++)
            r = str_puts(&out->buf, REPLACEMENT);
    }
    return r < 0 ? r : strings_end(out);
}

static int byte_fallback(const struct strings *in, bool raw, struct strings *out)
{
    size_t start = 0; /* start of the run of byte pieces */
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n; i++) {
        const char *s = in->buf.data + in->v[i].start;
        const int byte = piece_byte(s, in->v[i].len);

        if (byte >= 0) {
            r = str_putc(&out->buf, (char)byte);
            continue;
        }
        r = end_run(out, start, raw);
        if (r == 0)
            r = str_append(&out->buf, s, in->v[i].len);
        if (r == 0)
            r = strings_end(out);
        start = out->buf.len;
    }
    return r < 0 ? r : end_run(out, start, raw);
}

static int fuse_strings(const struct strings *in, struct strings *out)
{
    const int r = str_append(&out->buf, in->buf.data, in->buf.len);

    return r < 0 ? r : strings_end(out);
}

/* Merges repeated pieces and removes padding. With st->cleanup, also cleans up the text and turns
 * the word delimiter into a space. */
static int decode_ctc(const struct dec_step *st, const struct strings *in, struct strings *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n; i++) {
        const char *s = in->buf.data + in->v[i].start;
        _cleanup_str_ struct str text = {0};

        if (i > 0 && in->v[i].len == in->v[i - 1].len &&
            memcmp(s, in->buf.data + in->v[i - 1].start, in->v[i].len) == 0)
            continue;
        r = put_replaced(&text, s, in->v[i].len, st->text, st->text_len, "", 0);
        if (r == 0 && st->cleanup)
            r = cleanup_text(&text, true);
        if (r < 0 || text.len == 0)
            continue;
        r = st->cleanup
                ? put_replaced(&out->buf, text.data, text.len, st->content, st->content_len, " ", 1)
                : str_append(&out->buf, text.data, text.len);
        if (r == 0)
            r = strings_end(out);
    }
    return r;
}

static int decode_clean(const struct dec_step *st, const char *s, size_t len, size_t i, size_t n,
                        struct str *out)
{
    _cleanup_str_ struct str text = {0};
    int r = str_append(&text, s, len);

    (void)st;
    (void)i;
    (void)n;
    if (r == 0)
        r = cleanup_text(&text, false);
    return r < 0 ? r : str_append(out, text.data, text.len);
}

/* Removes the leading space of the first piece. With st->first, every piece loses a leading space
 * until there is text. */
static int first_space(const struct dec_step *st, const struct strings *in, struct strings *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n; i++) {
        const char *s = in->buf.data + in->v[i].start;
        const bool at_start = i == 0 || (st->first && out->buf.len == 0);
        const size_t skip = at_start && !in->v[i].byte && in->v[i].len > 0 && *s == ' ';

        r = str_append(&out->buf, s + skip, in->v[i].len - skip);
        if (r == 0)
            r = strings_end(out);
    }
    return r;
}

static int run_step(const struct dec_step *st, const struct strings *in, bool raw,
                    struct strings *out)
{
    switch (st->kind) {
    case DEC_BYTES:
        return decode_bytes(in, raw, out);
    case DEC_METASPACE:
        return map_strings(st, decode_metaspace, in, out);
    case DEC_WORDPIECE:
        return map_strings(st, decode_wordpiece, in, out);
    case DEC_SUFFIX:
        return map_strings(st, decode_suffix, in, out);
    case DEC_BYTE_FALLBACK:
        return byte_fallback(in, raw, out);
    case DEC_FUSE:
        return fuse_strings(in, out);
    case DEC_STRIP:
        return map_strings(st, decode_strip, in, out);
    case DEC_REPLACE:
        return map_strings(st, decode_replace, in, out);
    case DEC_CLEANUP:
        return map_strings(st, decode_clean, in, out);
    case DEC_FIRST_SPACE:
        return first_space(st, in, out);
    default:
        return decode_ctc(st, in, out);
    }
}

static int join_strings(const struct decoder *d, const struct strings *s, struct str *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++) {
        if (d->join_spaces && i > 0)
            r = str_putc(out, ' ');
        if (r == 0 && s->v[i].len > 0)
            r = str_append(out, s->buf.data + s->v[i].start, s->v[i].len);
    }
    return r;
}

int decoder_run(const struct decoder *d, struct strings *s, struct strings *scratch, bool raw,
                struct str *out)
{
    _cleanup_str_ struct str joined = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < d->n; i++) {
        struct strings swap;

        /* This step is skipped for a stream, because a stream cannot change text that it has
         * returned. */
        if (raw && d->steps[i].kind == DEC_CLEANUP)
            continue;
        strings_clear(scratch);
        r = str_reserve(&s->buf, 0);
        if (r == 0)
            r = run_step(&d->steps[i], s, raw, scratch);
        swap = *s;
        *s = *scratch;
        *scratch = swap;
    }
    if (r < 0 || raw)
        return r < 0 ? r : join_strings(d, s, out);
    r = join_strings(d, s, &joined);
    return r < 0 ? r : put_lossy(out, joined.data, joined.len, d->each_byte);
}

bool decoder_is_local(const struct decoder *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->steps[i].kind != DEC_BYTES && d->steps[i].kind != DEC_FUSE)
            return false;
    return !d->join_spaces;
}
