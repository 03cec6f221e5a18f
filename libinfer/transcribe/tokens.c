/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds Whisper's special tokens, and makes the lists of tokens that a transcript must not contain.
 */
#include "transcribe/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/err.h"
#include "tokenizer/whisper-languages.h"

/* Symbols for sounds other than speech, and for annotations, from the list of openai/whisper. Each
 * symbol is encoded alone and after a space. If the result is a single token, this token is
 * forbidden. For musical notes the first token is forbidden in any case. */
static const char *const symbols[] = {
    "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",   ">",
    "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",   "「",
    "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[",  "('",
    "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪",
};
static const char *const notes[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

enum {
    N_SYMBOL_IDS = 2 * (ARRAY_SIZE(symbols) + ARRAY_SIZE(notes)) + 2,
    N_CONTROL_IDS = 6,
};

static int32_t find_token(const struct inf_tokenizer *tok, const char *text)
{
    return inf_tokenizer_find(tok, text, strlen(text));
}

static int find_controls(struct speech_tokens *t, const struct inf_tokenizer *tok,
                         struct inf_err *reterr)
{
    const struct {
        const char *text;
        int32_t *to;
    } needed[] = {
        {"<|endoftext|>", &t->end},
        {"<|startoftranscript|>", &t->start},
        {"<|startofprev|>", &t->previous},
        {"<|notimestamps|>", &t->no_timestamps},
    };

    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        *needed[i].to = find_token(tok, needed[i].text);
        if (*needed[i].to < 0)
            return err_set(reterr, EBADMSG, "the vocabulary has no %s", needed[i].text);
    }
    t->translate = find_token(tok, "<|translate|>");
    t->transcribe = find_token(tok, "<|transcribe|>");
    t->no_speech = find_token(tok, "<|nospeech|>");
    if (t->no_speech < 0)
        t->no_speech = find_token(tok, "<|nocaptions|>");
    t->timestamp_begin = find_token(tok, "<|0.00|>");
    /* Older vocabularies do not list the time tokens, but the models use the next ids for these
     * tokens. */
    if (t->timestamp_begin < 0)
        t->timestamp_begin = t->no_timestamps + 1;
    if ((uint32_t)t->timestamp_begin >= t->n_vocab || (uint32_t)t->end >= t->n_vocab ||
        t->no_speech >= (int32_t)t->n_vocab || t->end > t->timestamp_begin)
        return err_set(reterr, EBADMSG, "the vocabulary has no time tokens");
    return 0;
}

static int find_languages(struct speech_tokens *t, const struct inf_tokenizer *tok,
                          struct inf_err *reterr)
{
    for (size_t i = 0; i < WHISPER_N_LANGUAGES; i++) {
        char name[16];
        int32_t id;

        snprintf(name, sizeof(name), "<|%s|>", whisper_languages[i].code);
        id = find_token(tok, name);
        if (id < 0 || (uint32_t)id >= t->n_vocab)
            continue;
        t->codes[t->n_languages] = whisper_languages[i].code;
        t->languages[t->n_languages++] = id;
    }
    if (t->multilingual && (t->n_languages == 0 || t->translate < 0 || t->transcribe < 0))
        return err_set(reterr, EBADMSG, "the vocabulary has no language or task tokens");
    return 0;
}

/* Sets *@ret_id to the first token of a text. If @any is false and the text is not a single token,
 * sets *@ret_id to -1. -ENOMEM. */
static int first_token(const struct inf_tokenizer *tok, const char *text, bool any, int32_t *ret_id)
{
    _cleanup_free_ int32_t *ids = NULL;
    size_t n = 0;
    const int r = inf_tokenizer_encode(tok, text, strlen(text), 0, 0, &ids, &n);

    *ret_id = r == 0 && (n == 1 || (n > 0 && any)) ? ids[0] : -1;
    return r;
}

static void add_id(int32_t *ids, size_t *n, int32_t id)
{
    for (size_t i = 0; i < *n; i++)
        if (ids[i] == id)
            return;
    if (id >= 0)
        ids[(*n)++] = id;
}

static int add_symbol(struct speech_tokens *t, const struct inf_tokenizer *tok, const char *symbol,
                      bool any)
{
    char spaced[32];
    int32_t id = -1;
    int r;

    r = first_token(tok, symbol, any, &id);
    if (r == 0)
        add_id(t->forbidden, &t->n_forbidden, id);
    snprintf(spaced, sizeof(spaced), " %s", symbol);
    if (r == 0)
        r = first_token(tok, spaced, any, &id);
    if (r == 0)
        add_id(t->forbidden, &t->n_forbidden, id);
    return r;
}

static int find_symbols(struct speech_tokens *t, const struct inf_tokenizer *tok)
{
    static const char *const beginnings[] = {" -", " '"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(beginnings); i++) {
        int32_t id = -1;

        r = first_token(tok, beginnings[i], true, &id);
        if (r == 0)
            add_id(t->forbidden, &t->n_forbidden, id);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(symbols); i++)
        r = add_symbol(t, tok, symbols[i], false);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(notes); i++)
        r = add_symbol(t, tok, notes[i], true);
    return r;
}

/* Removes the ids that only the tokenizer has. The model has no logits for them. */
static void drop_beyond(const struct speech_tokens *t, int32_t *ids, size_t *n)
{
    size_t kept = 0;

    for (size_t i = 0; i < *n; i++)
        if ((uint32_t)ids[i] < t->n_vocab)
            ids[kept++] = ids[i];
    *n = kept;
}

static int find_forbidden(struct speech_tokens *t, const struct inf_tokenizer *tok,
                          const struct whisper_config *c)
{
    const int32_t controls[N_CONTROL_IDS] = {
        t->transcribe, t->translate, t->start, t->previous, find_token(tok, "<|startoflm|>"),
        t->no_speech,
    };
    int r = 0;

    t->forbidden = NEW(int32_t, MAX(c->n_suppress, (size_t)N_SYMBOL_IDS) + N_CONTROL_IDS);
    t->not_first = NEW(int32_t, c->n_suppress_first + 2);
    if (!t->forbidden || !t->not_first)
        return -ENOMEM;
    for (size_t i = 0; i < c->n_suppress; i++)
        add_id(t->forbidden, &t->n_forbidden, c->suppress[i]);
    if (!c->suppress)
        r = find_symbols(t, tok);
    for (size_t i = 0; i < N_CONTROL_IDS; i++)
        add_id(t->forbidden, &t->n_forbidden, controls[i]);
    for (size_t i = 0; i < c->n_suppress_first; i++)
        add_id(t->not_first, &t->n_not_first, c->suppress_first[i]);
    if (r == 0 && !c->suppress_first) {
        int32_t blank = -1;

        r = first_token(tok, " ", false, &blank);
        add_id(t->not_first, &t->n_not_first, blank);
        add_id(t->not_first, &t->n_not_first, t->end);
    }
    drop_beyond(t, t->forbidden, &t->n_forbidden);
    drop_beyond(t, t->not_first, &t->n_not_first);
    return r;
}

int speech_tokens_init(struct speech_tokens *t, const struct inf_tokenizer *tok,
                       const struct whisper_config *config, struct inf_err *reterr)
{
    int r;

    t->n_vocab = config->n_vocab;
    t->multilingual = config->multilingual;
    r = find_controls(t, tok, reterr);
    if (r == 0)
        r = find_languages(t, tok, reterr);
    if (r < 0)
        return r;
    return find_forbidden(t, tok, config) < 0 ? err_set(reterr, ENOMEM, "out of memory") : 0;
}

void speech_tokens_done(struct speech_tokens *t)
{
    free(t->forbidden);
    free(t->not_first);
    *t = (struct speech_tokens){0};
}

static int find_code(const struct speech_tokens *t, const char *code)
{
    for (uint32_t i = 0; i < t->n_languages; i++)
        if (strcasecmp(t->codes[i], code) == 0)
            return (int)i;
    return -1;
}

int speech_language(const struct speech_tokens *t, const char *name)
{
    for (size_t i = 0; i < WHISPER_N_LANGUAGES; i++)
        if (strcasecmp(whisper_languages[i].name, name) == 0)
            return find_code(t, whisper_languages[i].code);
    for (size_t i = 0; i < WHISPER_N_ALIASES; i++)
        if (strcasecmp(whisper_aliases[i].name, name) == 0)
            return find_code(t, whisper_aliases[i].code);
    return find_code(t, name);
}
