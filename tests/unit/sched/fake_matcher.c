/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_matcher.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fake_tokenizer.h"

struct grammar_matcher {
    struct inf_grammar *grammar;
    char text[256];
    size_t len;
    bool ended;
};

struct inf_grammar *inf_grammar_ref(struct inf_grammar *grammar)
{
    grammar->n_refs++;
    return grammar;
}

struct inf_grammar *inf_grammar_unref(struct inf_grammar *grammar)
{
    if (grammar)
        grammar->n_refs--;
    return NULL;
}

int grammar_matcher_new(struct inf_grammar *grammar, struct grammar_matcher **ret_matcher)
{
    struct grammar_matcher *m = NEW(struct grammar_matcher, 1);

    if (!m)
        return -ENOMEM;
    m->grammar = inf_grammar_ref(grammar);
    *ret_matcher = m;
    return 0;
}

struct grammar_matcher *grammar_matcher_free(struct grammar_matcher *m)
{
    if (m)
        inf_grammar_unref(m->grammar);
    free(m);
    return NULL;
}

int grammar_matcher_clone(const struct grammar_matcher *m, struct grammar_matcher **ret_matcher)
{
    struct grammar_matcher *copy = NEW(struct grammar_matcher, 1);

    if (!copy)
        return -ENOMEM;
    *copy = *m;
    inf_grammar_ref(copy->grammar);
    *ret_matcher = copy;
    return 0;
}

static bool has_text(const struct grammar_matcher *m, const char *more, size_t n, bool whole)
{
    const size_t len = m->len + n;

    for (unsigned i = 0; i < FAKE_MAX_TEXTS && m->grammar->texts[i]; i++) {
        const char *text = m->grammar->texts[i];

        if (strlen(text) >= len && (!whole || strlen(text) == len) &&
            memcmp(text, m->text, m->len) == 0 && memcmp(text + m->len, more, n) == 0)
            return true;
    }
    return false;
}

static bool permits(const struct grammar_matcher *m, int32_t token)
{
    const char byte = (char)token;

    if (m->ended)
        return false;
    if (token == FAKE_EOS)
        return grammar_matcher_is_complete(m);
    if (token < FAKE_EOS)
        return has_text(m, &byte, 1, false);
    return fake_words[token - FAKE_WORDS][0] != 0 &&
           has_text(m, fake_words[token - FAKE_WORDS], strlen(fake_words[token - FAKE_WORDS]),
                    false);
}

int grammar_matcher_mask(struct grammar_matcher *m, uint32_t *ret_mask)
{
    m->grammar->n_masks++;
    if (m->grammar->mask_usec > 0)
        usleep(m->grammar->mask_usec);
    memset(ret_mask, 0, DIV_UP(FAKE_N_VOCAB, 32) * sizeof(*ret_mask));
    for (int32_t t = 0; t < FAKE_N_VOCAB; t++)
        if (permits(m, t))
            ret_mask[t / 32] |= 1u << t % 32;
    return m->grammar->mask_error;
}

/* Returns the byte that all texts of the grammar have next; -1: there is none. */
static int next_byte(const struct grammar_matcher *m, const char *more, size_t n)
{
    int byte = -1;

    if (has_text(m, more, n, true))
        return -1;
    for (unsigned i = 0; i < FAKE_MAX_TEXTS && m->grammar->texts[i]; i++) {
        const char *text = m->grammar->texts[i];

        if (strlen(text) <= m->len + n || memcmp(text, m->text, m->len) != 0 ||
            memcmp(text + m->len, more, n) != 0)
            continue;
        if (byte >= 0 && byte != (unsigned char)text[m->len + n])
            return -1;
        byte = (unsigned char)text[m->len + n];
    }
    return byte;
}

static bool is_only(struct grammar_matcher m, const char *text, size_t len)
{
    unsigned n = 0;

    memcpy(m.text + m.len, text, len);
    m.len += len;
    for (int32_t t = 0; t < FAKE_N_VOCAB; t++)
        n += permits(&m, t);
    return n == 1;
}

/* The tokens of the forced text are its bytes. */
int grammar_matcher_forced(struct grammar_matcher *m, const int32_t *tokens, uint32_t n_tokens,
                           uint32_t max, struct grammar_forced *ret)
{
    char text[GRAMMAR_FORCED_MAX];
    int byte;

    (void)tokens;
    (void)n_tokens;
    ret->n = 0;
    while (!m->ended && ret->n < MIN(max, GRAMMAR_FORCED_MAX) &&
           (byte = next_byte(m, text, ret->n)) >= 0) {
        ret->certainty[ret->n] = is_only(*m, text, ret->n) ? GRAMMAR_ONLY : GRAMMAR_BYTES;
        ret->tokens[ret->n] = byte;
        text[ret->n++] = (char)byte;
    }
    m->grammar->n_forced += ret->n;
    return 0;
}

int grammar_matcher_accept(struct grammar_matcher *m, int32_t token)
{
    const char byte = (char)token;
    const char *text = token > FAKE_EOS ? fake_words[token - FAKE_WORDS] : &byte;
    const size_t n = token > FAKE_EOS ? strlen(text) : token < FAKE_EOS;

    if (!permits(m, token))
        return MATCHER_REFUSED;
    m->ended = token == FAKE_EOS;
    memcpy(m->text + m->len, text, n);
    m->len += n;
    return 0;
}

bool grammar_matcher_is_complete(const struct grammar_matcher *m)
{
    return has_text(m, "", 0, true);
}

bool grammar_matcher_must_end(struct grammar_matcher *m)
{
    for (int32_t t = 0; t < FAKE_N_VOCAB; t++)
        if (t != FAKE_EOS && permits(m, t))
            return false;
    return grammar_matcher_is_complete(m);
}
