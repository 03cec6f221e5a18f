/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_tokenizer.h"

#include <errno.h>
#include <string.h>

#include "core/str.h"
#include "core/utf8.h"

struct inf_tokenizer {
    int dummy;
};

struct inf_detok {
    bool shows_eos;
    char tail[8]; /* an unfinished code point */
    size_t n_tail;
    struct str out;
};

const char *const fake_words[FAKE_N_WORDS] = {"", "ab", "stop", " über", "STOP"};
static struct inf_tokenizer the_tokenizer;
struct inf_tokenizer *const fake_tokenizer = &the_tokenizer;

uint32_t inf_tokenizer_n_vocab(const struct inf_tokenizer *tok)
{
    (void)tok;
    return FAKE_N_VOCAB;
}

unsigned inf_tokenizer_token_flags(const struct inf_tokenizer *tok, int32_t id)
{
    (void)tok;
    return id == FAKE_EOS ? INF_TOKEN_EOG | INF_TOKEN_SPECIAL : 0;
}

/* Only words have a text here. */
const char *inf_tokenizer_token_text(const struct inf_tokenizer *tok, int32_t id, size_t *ret_len)
{
    const char *text = id >= FAKE_WORDS && id < FAKE_N_VOCAB ? fake_words[id - FAKE_WORDS] : "";

    (void)tok;
    *ret_len = strlen(text);
    return text;
}

int inf_detok_new(const struct inf_tokenizer *tok, bool show_special, struct inf_detok **ret_detok)
{
    (void)tok;
    (void)show_special;
    *ret_detok = NEW(struct inf_detok, 1);
    return *ret_detok ? 0 : -ENOMEM;
}

struct inf_detok *inf_detok_free(struct inf_detok *d)
{
    if (d)
        str_done(&d->out);
    free(d);
    return NULL;
}

int inf_detok_show(struct inf_detok *d, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d->shows_eos |= ids[i] == FAKE_EOS;
    return 0;
}

int inf_detok_prime(struct inf_detok *d, const int32_t *ids, size_t n)
{
    (void)d;
    (void)ids;
    (void)n;
    return 0;
}

/* Emits whole code points, and bad bytes as U+FFFD; keeps an unfinished code point
 * unless @all is set. */
static void drain(struct inf_detok *d, bool all)
{
    while (d->n_tail > 0) {
        size_t n = utf8_valid_prefix(d->tail, d->n_tail);

        if (n > 0) {
            str_append(&d->out, d->tail, n);
        } else if (!all && utf8_incomplete(d->tail, d->n_tail) > 0) {
            return;
        } else {
            n = utf8_bad_length(d->tail, d->n_tail);
            str_puts(&d->out, "\xef\xbf\xbd");
        }
        d->n_tail -= n;
        memmove(d->tail, d->tail + n, d->n_tail);
    }
}

int inf_detok_push(struct inf_detok *d, int32_t id, const char **ret_text, size_t *ret_len)
{
    char byte = (char)id;
    const char *text = id >= FAKE_WORDS ? fake_words[id - FAKE_WORDS]
                       : id == FAKE_EOS ? (d->shows_eos ? FAKE_EOS_TEXT : "")
                                        : &byte;
    const size_t len = id < FAKE_EOS ? 1 : strlen(text);

    if (id < 0 || id >= FAKE_N_VOCAB)
        return -EINVAL;
    str_clear(&d->out);
    if (str_reserve(&d->out, 64) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < len; i++) {
        d->tail[d->n_tail++] = text[i];
        drain(d, false);
    }
    *ret_text = d->out.data;
    *ret_len = d->out.len;
    return 0;
}

size_t inf_tokenizer_token_bytes(const struct inf_tokenizer *tok, int32_t id, unsigned char *buf,
                                 size_t size)
{
    const size_t n = id < FAKE_EOS ? 1 : id == FAKE_EOS ? 0 : strlen(fake_words[id - FAKE_WORDS]);

    (void)tok;
    if (id < FAKE_EOS)
        buf[0] = (unsigned char)id;
    else if (n <= size && n > 0)
        memcpy(buf, fake_words[id - FAKE_WORDS], n);
    return n;
}

/* Every byte becomes a token. */
int inf_tokenizer_encode(const struct inf_tokenizer *tok, const char *text, size_t len,
                         unsigned flags, size_t max_ids, int32_t **ret_ids, size_t *ret_n)
{
    int32_t *ids = NEW(int32_t, len);

    (void)tok;
    (void)flags;
    (void)max_ids;
    if (!ids)
        return -ENOMEM;
    for (size_t i = 0; i < len; i++)
        ids[i] = (unsigned char)text[i];
    *ret_ids = ids;
    *ret_n = len;
    return 0;
}

int inf_detok_flush(struct inf_detok *d, const char **ret_text, size_t *ret_len)
{
    str_clear(&d->out);
    if (str_reserve(&d->out, 64) < 0)
        return -ENOMEM;
    drain(d, true);
    *ret_text = d->out.data;
    *ret_len = d->out.len;
    return 0;
}
