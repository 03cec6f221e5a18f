/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes ids to text, all at once or token by token.
 *
 * The text that a token adds depends on the tokens around it: the first token loses its space, and
 * in some vocabularies the last token loses a suffix. Therefore struct inf_detok decodes a window
 * of the last tokens with and without the new token; the difference is the added text. Bytes are
 * held until they form whole code points.
 */
#include <errno.h>
#include <string.h>

#include "core/utf8.h"
#include "tokenizer/pipeline.h"

#define WINDOW 8
#define KEEP   4
/* Initial bytes of memory of a struct inf_detok; windows of common tokens fit into it. */
#define USUAL_BYTES 255

static bool is_hidden(const struct inf_tokenizer *tok, int32_t id)
{
    return inf_tokenizer_token_flags(tok, id) & (INF_TOKEN_SPECIAL | INF_TOKEN_UNKNOWN);
}

int inf_tokenizer_decode(const struct inf_tokenizer *tok, const int32_t *ids, size_t n,
                         bool show_special, char **ret_text, size_t *ret_len)
{
    _cleanup_(strings_done) struct strings s = {0}, scratch = {0};
    _cleanup_str_ struct str out = {0};
    int r = 0;

    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= tok->vocab.n)
            return -EINVAL;
    for (size_t i = 0; r == 0 && i < n; i++)
        if (vocab_at(&tok->vocab, ids[i]) && (show_special || !is_hidden(tok, ids[i])))
            r = decode_piece(tok, ids[i], &s);
    if (r == 0)
        r = decoder_run(&tok->dec, &s, &scratch, false, &out);
    if (r == 0)
        r = str_reserve(&out, 0);
    if (r < 0)
        return r;
    *ret_text = str_take(&out, ret_len);
    return 0;
}

struct inf_detok {
    const struct inf_tokenizer *tok;
    bool show_special;
    int32_t *shown; /* [n_shown]: special tokens that are shown in any case */
    size_t n_shown;
    bool is_local; /* the text of a piece does not depend on other pieces, so no window is needed */
    int32_t window[WINDOW];
    unsigned n;
    struct str before, after; /* the window's text without and with the new token */
    struct str pending;       /* bytes that do not form a whole code point yet */
    struct str out;
    struct strings strings, scratch; /* working memory of one decoding, reused by the next */
};

int inf_detok_new(const struct inf_tokenizer *tok, bool show_special, struct inf_detok **ret_detok)
{
    struct inf_detok *d = NEW(struct inf_detok, 1);

    if (!d)
        return -ENOMEM;
    d->tok = tok;
    d->show_special = show_special;
    d->is_local = decoder_is_local(&tok->dec);
    if (str_reserve(&d->before, USUAL_BYTES) < 0 || str_reserve(&d->after, USUAL_BYTES) < 0 ||
        str_reserve(&d->pending, USUAL_BYTES) < 0 || str_reserve(&d->out, USUAL_BYTES) < 0 ||
        str_reserve(&d->strings.buf, USUAL_BYTES) < 0 ||
        str_reserve(&d->scratch.buf, USUAL_BYTES) < 0) {
        inf_detok_free(d);
        return -ENOMEM;
    }
    *ret_detok = d;
    return 0;
}

struct inf_detok *inf_detok_free(struct inf_detok *d)
{
    if (!d)
        return NULL;
    str_done(&d->before);
    str_done(&d->after);
    str_done(&d->pending);
    str_done(&d->out);
    strings_done(&d->strings);
    strings_done(&d->scratch);
    free(d->shown);
    free(d);
    return NULL;
}

/* Decodes the window to @out. */
static int decode_window(struct inf_detok *d, struct str *out)
{
    int r = 0;

    str_clear(out);
    strings_clear(&d->strings);
    for (unsigned i = 0; r == 0 && i < d->n; i++)
        r = decode_piece(d->tok, d->window[i], &d->strings);
    return r < 0 ? r : decoder_run(&d->tok->dec, &d->strings, &d->scratch, true, out);
}

/* Makes room for one more token in the window. */
static int trim_window(struct inf_detok *d)
{
    if (d->is_local) {
        str_clear(&d->before);
        d->n = 0;
    }
    if (d->n < WINDOW)
        return 0;
    memmove(d->window, d->window + WINDOW - KEEP, KEEP * sizeof(*d->window));
    d->n = KEEP;
    return decode_window(d, &d->before);
}

static bool is_shown(const struct inf_detok *d, int32_t id)
{
    if (!vocab_at(&d->tok->vocab, id))
        return false;
    if (d->show_special || !is_hidden(d->tok, id))
        return true;
    for (size_t i = 0; i < d->n_shown; i++)
        if (d->shown[i] == id)
            return true;
    return false;
}

int inf_detok_show(struct inf_detok *d, const int32_t *ids, size_t n)
{
    int32_t *shown = NEW(int32_t, n);

    if (!shown)
        return -ENOMEM;
    if (n > 0)
        memcpy(shown, ids, n * sizeof(*ids));
    free(d->shown);
    d->shown = shown;
    d->n_shown = n;
    return 0;
}

int inf_detok_prime(struct inf_detok *d, const int32_t *ids, size_t n)
{
    d->n = 0;
    for (size_t i = n; i > 0 && d->n < KEEP; i--)
        if (is_shown(d, ids[i - 1]))
            d->window[KEEP - ++d->n] = ids[i - 1];
    memmove(d->window, d->window + KEEP - d->n, d->n * sizeof(*d->window));
    return decode_window(d, &d->before);
}

/* Moves whole code points from pending to out. Bytes that cannot become a code point are moved as
 * U+FFFD. @all: moves incomplete code points as U+FFFD as well. */
static int release_pending(struct inf_detok *d, bool all)
{
    const bool each = d->tok->dec.each_byte;
    const char *s = d->pending.data;
    size_t end, at = 0;
    int r;

    if (d->pending.len == 0)
        return 0;
    for (end = 0; at < d->pending.len; end = at) {
        at += utf8_valid_prefix(s + at, d->pending.len - at);
        end = at;
        if (at == d->pending.len || (!all && utf8_incomplete(s + at, d->pending.len - at) > 0))
            break;
        at += each ? 1 : utf8_bad_length(s + at, d->pending.len - at);
    }
    r = put_lossy(&d->out, s, end, each);
    if (r < 0)
        return r;
    memmove(d->pending.data, s + end, d->pending.len - end);
    d->pending.len -= end;
    return 0;
}

static int give_text(struct inf_detok *d, const char **ret_text, size_t *ret_len)
{
    const int r = str_reserve(&d->out, 0);

    if (r < 0)
        return r;
    *ret_text = d->out.data;
    *ret_len = d->out.len;
    return 0;
}

int inf_detok_push(struct inf_detok *d, int32_t id, const char **ret_text, size_t *ret_len)
{
    struct str swap;
    size_t same;
    int r;

    if (id < 0 || (uint32_t)id >= d->tok->vocab.n)
        return -EINVAL;
    str_clear(&d->out);
    if (!is_shown(d, id))
        return give_text(d, ret_text, ret_len);
    r = trim_window(d);
    if (r < 0)
        return r;
    d->window[d->n++] = id;
    r = decode_window(d, &d->after);
    if (r < 0)
        return r;
    same = MIN(d->before.len, d->after.len);
    r = str_append(&d->pending, d->after.data ? d->after.data + same : NULL, d->after.len - same);
    swap = d->before;
    d->before = d->after;
    d->after = swap;
    if (r == 0)
        r = release_pending(d, false);
    return r < 0 ? r : give_text(d, ret_text, ret_len);
}

int inf_detok_flush(struct inf_detok *d, const char **ret_text, size_t *ret_len)
{
    int r;

    str_clear(&d->out);
    r = release_pending(d, true);
    return r < 0 ? r : give_text(d, ret_text, ret_len);
}

/* Decodes one piece after another string, so that no rule for the first piece applies. The result
 * is in @out, after one byte. Returns false if there is no such piece or memory is short. */
static bool decode_alone(const struct inf_tokenizer *tok, int32_t id, struct strings *s,
                         struct strings *scratch, struct str *out)
{
    strings_clear(s);
    str_clear(out);
    return vocab_at(&tok->vocab, id) && str_putc(&s->buf, '\1') == 0 && strings_end(s) == 0 &&
           decode_piece(tok, id, s) == 0 && decoder_run(&tok->dec, s, scratch, true, out) == 0 &&
           out->len >= 1;
}

size_t inf_tokenizer_token_bytes(const struct inf_tokenizer *tok, int32_t id, unsigned char *buf,
                                 size_t size)
{
    _cleanup_(strings_done) struct strings s = {0}, scratch = {0};
    _cleanup_str_ struct str out = {0};
    size_t n;

    if (!decode_alone(tok, id, &s, &scratch, &out))
        return 0;
    n = out.len - 1;
    if (size > 0)
        memcpy(buf, out.data + 1, MIN(n, size));
    return n;
}

int tokenizer_all_bytes(const struct inf_tokenizer *tok, struct str *ret_bytes, size_t *ret_ends)
{
    _cleanup_(strings_done) struct strings s = {0}, scratch = {0};
    _cleanup_str_ struct str out = {0}, bytes = {0};
    int r = 0;

    for (uint32_t id = 0; r == 0 && id < tok->vocab.n; id++) {
        if (decode_alone(tok, (int32_t)id, &s, &scratch, &out))
            r = str_append(&bytes, out.data + 1, out.len - 1);
        ret_ends[id] = bytes.len;
    }
    if (r < 0)
        return r;
    *ret_bytes = bytes;
    bytes = (struct str){0};
    return 0;
}
