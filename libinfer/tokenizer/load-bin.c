/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the vocabularies of Whisper's .bin files.
 *
 * Such a file lists the bytes of all text tokens, in the order of the merges that made them. The
 * merges are reconstructed: the bytes of each token are merged by the merges of all tokens before
 * it until two parts are left. The control tokens follow from the size of the vocabulary alone:
 * they have Whisper's order, as many languages as fit, and the timestamp tokens at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/str.h"
#include "format/whisper/ggml-bin.h"
#include "tokenizer/normalize.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/pre-names.h"
#include "tokenizer/whisper-languages.h"

#define PRE "gpt-2"
#define END "<|endoftext|>"

enum {
    MAX_PARTS = 256, /* limit of the characters of a token; no merge makes a longer token */
    N_TIMES = 1501,
};

static const char *const before_languages[] = {END, "<|startoftranscript|>"};
static const char *const behind_languages[] = {
    "<|translate|>",   "<|transcribe|>", "<|startoflm|>",
    "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>",
};

struct load {
    struct inf_tokenizer *tok;
    const struct ggml_bin_token *tokens;
    uint32_t n_text, n_vocab;
    struct inf_err *reterr;
};

static bool is_end(const struct ggml_bin_token *token)
{
    return token->len == strlen(END) && memcmp(token->text, END, token->len) == 0;
}

/* Converts the bytes of token @id to the characters that represent them. */
static int put_text(struct load *l, uint32_t id)
{
    const struct ggml_bin_token *token = &l->tokens[id];
    struct str text = {0};
    char empty[32];
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < token->len; i++)
        r = str_put_cp(&text, byte_char((unsigned char)token->text[i]));
    if (r >= 0 && token->len > 0)
        r = vocab_put(&l->tok->vocab, id, text.data, text.len, PIECE_NORMAL, l->reterr);
    str_done(&text);
    if (r < 0 || token->len > 0)
        return r;
    snprintf(empty, sizeof(empty), "[EMPTY_%u]", id);
    return vocab_put(&l->tok->vocab, id, empty, strlen(empty), PIECE_UNUSED, l->reterr);
}

static int put_control(struct load *l, uint32_t *id, const char *name)
{
    const uint32_t at = (*id)++;
    int r;

    r = vocab_put(&l->tok->vocab, at, name, strlen(name), PIECE_CONTROL, l->reterr);
    if (r == 0)
        r = added_put(&l->tok->added, l->tok->vocab.pieces[at].text, l->tok->vocab.pieces[at].len,
                      (int32_t)at, ADDED_SPECIAL);
    return r;
}

static int put_controls(struct load *l)
{
    const uint32_t n_around = ARRAY_SIZE(before_languages) + ARRAY_SIZE(behind_languages);
    const uint32_t n_other = n_around + N_TIMES;
    uint32_t id = l->n_text, n_languages;
    char name[32];
    int r = 0;

    if (l->n_vocab - l->n_text < n_other || l->n_vocab - l->n_text - n_other > WHISPER_N_LANGUAGES)
        return err_set(l->reterr, EBADMSG, "not a Whisper vocabulary: %u tokens, %u of them text",
                       l->n_vocab, l->n_text);
    n_languages = l->n_vocab - l->n_text - n_other;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(before_languages); i++)
        r = put_control(l, &id, before_languages[i]);
    for (uint32_t i = 0; r == 0 && i < n_languages; i++) {
        snprintf(name, sizeof(name), "<|%s|>", whisper_languages[i].code);
        r = put_control(l, &id, name);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(behind_languages); i++)
        r = put_control(l, &id, behind_languages[i]);
    for (unsigned i = 0; r == 0 && i < N_TIMES; i++) {
        snprintf(name, sizeof(name), "<|%u.%02u|>", i / 50, i % 50 * 2);
        r = put_control(l, &id, name);
    }
    return r;
}

/* Finds the offsets at which the characters of a piece begin, and its end. Returns the number of
 * characters, or 0 if there are more than MAX_PARTS. */
static uint32_t find_parts(const struct piece *p, uint32_t starts[MAX_PARTS + 1])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->len; i++) {
        if (((unsigned char)p->text[i] & 0xc0) == 0x80)
            continue;
        if (n == MAX_PARTS)
            return 0;
        starts[n++] = i;
    }
    starts[n] = p->len;
    return n;
}

/* Divides token @id into parts, at first its characters. Merges two adjacent parts that together
 * are an earlier token, again and again, until two parts are left or no two parts are such a token.
 * Returns where the second of two parts begins, or 0 if more than two parts are left. */
static uint32_t find_border(const struct vocab *v, uint32_t id)
{
    const struct piece *p = &v->pieces[id];
    uint32_t starts[MAX_PARTS + 1], n = find_parts(p, starts);

    while (n > 2) {
        uint32_t best = 0;
        int32_t least = (int32_t)id;

        for (uint32_t i = 0; i + 2 <= n; i++) {
            const int32_t merged = vocab_find(v, p->text + starts[i], starts[i + 2] - starts[i]);

            if (merged >= 0 && merged < least) {
                least = merged;
                best = i;
            }
        }
        if (least == (int32_t)id)
            return 0;
        memmove(starts + best + 1, starts + best + 2, (n - best - 1) * sizeof(*starts));
        n--;
    }
    return n == 2 ? starts[1] : 0;
}

static bool is_piece(const struct vocab *v, const char *text, uint32_t len)
{
    return vocab_find(v, text, len) >= 0;
}

static int put_merges(struct load *l)
{
    const struct vocab *v = &l->tok->vocab;
    struct bpe *b = &l->tok->bpe;
    int r;

    r = bpe_init(b, v, l->n_text);
    for (uint32_t id = 0; r == 0 && id < l->n_text; id++) {
        const struct piece *p = &v->pieces[id];
        const uint32_t at = p->kind == PIECE_NORMAL ? find_border(v, id) : 0;

        if (at > 0 && is_piece(v, p->text, at) && is_piece(v, p->text + at, p->len - at))
            r = bpe_add_merge(b, p->text, at, p->text + at, p->len - at, id, l->reterr);
    }
    b->unknown = -1;
    return r;
}

static int load_all(struct load *l)
{
    struct inf_tokenizer *tok = l->tok;
    unsigned pre = 0;
    int r;

    r = vocab_reserve(&tok->vocab, l->n_vocab, l->n_vocab);
    for (uint32_t id = 0; r == 0 && id < l->n_text; id++)
        r = put_text(l, id);
    if (r == 0)
        r = put_controls(l);
    if (r == 0)
        r = put_merges(l);
    if (r == 0)
        r = pre_find(PRE, strlen(PRE), &tok->split, &pre, l->reterr);
    if (r < 0)
        return r;
    tok->model = MODEL_BPE;
    tok->kind = "bpe";
    tok->style = STYLE_BYTES;
    tok->eos = (int32_t)l->n_text;
    if (!splitter_add(&tok->split, SPLIT_BYTES))
        return -ENOMEM;
    return pipeline_finish(tok);
}

int tokenizer_open_bin(const struct ggml_bin *bin, struct inf_tokenizer **ret_tok,
                       struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NEW(struct inf_tokenizer, 1);
    struct load l = {.tok = tok, .n_vocab = ggml_bin_whisper(bin)->n_vocab, .reterr = reterr};
    size_t n;
    int r;

    if (!tok)
        return err_set(reterr, ENOMEM, "out of memory");
    l.tokens = ggml_bin_tokens(bin, &n);
    l.n_text = (uint32_t)n - (is_end(&l.tokens[n - 1]) ? 1 : 0);
    pipeline_init(tok);
    r = load_all(&l);
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    *ret_tok = STEAL(tok);
    return 0;
}
