/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the vocabulary, the merges and the special tokens of a tokenizer as GGUF keys.
 *
 * A GGUF file names a splitter instead of listing expressions. This file tries the names one after
 * the other. It takes the first name with which the tokenizer of the GGUF file gives the same
 * tokens for sample texts as the original. llama.cpp's converter also identifies the splitter by
 * the tokens of a text.
 */
#include "tokenizer/put-gguf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/arena.h"
#include "core/err.h"
#include "tokenizer/compare.h"
#include "tokenizer/pipeline.h"

#define KEY(name) "tokenizer.ggml." name

/* Holds the settings that differ between the attempts. */
struct attempt {
    const char *model, *pre;
    bool space_prefix; /* a space is put before texts */
};

/* A list of the merges by rank. */
struct merges {
    struct arena arena;
    struct gguf_str *lines; /* [n] */
    size_t n;
};

static int merges_set(struct merges *m, const struct vocab *v, const struct bpe_merge *merge)
{
    const struct piece *a = vocab_at(v, (int32_t)(merge->pair >> 32));
    const struct piece *b = vocab_at(v, (int32_t)(merge->pair & UINT32_MAX));
    char *line;

    if (!a || !b || merge->rank >= m->n)
        return -EOPNOTSUPP;
    line = arena_alloc(&m->arena, (size_t)a->len + b->len + 1);
    if (!line)
        return -ENOMEM;
    memcpy(line, a->text, a->len);
    line[a->len] = ' ';
    memcpy(line + a->len + 1, b->text, b->len);
    m->lines[merge->rank] = (struct gguf_str){line, (uint64_t)a->len + b->len + 1};
    return 0;
}

/* Lists the merges. A rank that a later merge has replaced gets no line. */
static int merges_init(struct merges *m, const struct inf_tokenizer *tok)
{
    const struct bpe *b = &tok->bpe;
    size_t n = 0;
    int r = 0;

    if (b->by_text)
        return -EOPNOTSUPP;
    for (size_t i = 0; i < b->cap; i++)
        if (b->merges[i].pair != UINT64_MAX)
            m->n = MAX(m->n, (size_t)b->merges[i].rank + 1);
    m->lines = NEW(struct gguf_str, m->n);
    if (!m->lines)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < b->cap; i++)
        if (b->merges[i].pair != UINT64_MAX)
            r = merges_set(m, &tok->vocab, &b->merges[i]);
    for (size_t i = 0; r == 0 && i < m->n; i++)
        if (m->lines[i].data)
            m->lines[n++] = m->lines[i];
    m->n = n;
    return r;
}

static void merges_done(struct merges *m)
{
    free(m->lines);
    arena_done(&m->arena);
}

/* Returns the kind of a piece in the GGUF file. In tokenizer.json, tokens for bytes are ordinary
 * pieces. */
static int32_t kind_of(const struct inf_tokenizer *tok, const struct piece *p, bool spm)
{
    if (spm && p->kind == PIECE_NORMAL && piece_byte(p->text, p->len) >= 0)
        return PIECE_BYTE;
    if (spm && tok->model == MODEL_BPE && p == vocab_at(&tok->vocab, tok->bpe.unknown))
        return PIECE_UNKNOWN;
    return p->kind;
}

/* Adds the tokens with their kinds, and with scores if merges go by score. */
static int put_pieces(const struct inf_tokenizer *tok, uint32_t n_vocab, bool spm,
                      struct gguf_out *w)
{
    _cleanup_free_ struct gguf_str *texts = NEW(struct gguf_str, n_vocab);
    _cleanup_free_ int32_t *kinds = NEW(int32_t, n_vocab);
    _cleanup_free_ float *scores = NEW(float, n_vocab);
    _cleanup_free_ char *unused = NEW(char, (size_t)n_vocab * 16);

    if (!texts || !kinds || !scores || !unused)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const struct piece *p = vocab_at(&tok->vocab, (int32_t)i);
        char *name = unused + (size_t)i * 16;

        /* The score -id gives the order of the ranks, because earlier merges made the tokens with
         * smaller ids. */
        scores[i] =
            tok->model == MODEL_SPM && p ? (float)vocab_score(&tok->vocab, (int32_t)i) : -(float)i;
        if (p) {
            texts[i] = (struct gguf_str){p->text, p->len};
            kinds[i] = kind_of(tok, p, spm);
            continue;
        }
        texts[i] = (struct gguf_str){name, (uint64_t)snprintf(name, 16, "[PAD%u]", i)};
        kinds[i] = PIECE_UNUSED;
    }
    gguf_out_strings(w, KEY("tokens"), texts, n_vocab);
    if (spm)
        gguf_out_array(w, KEY("scores"), GGUF_F32, scores, n_vocab);
    return gguf_out_array(w, KEY("token_type"), GGUF_I32, kinds, n_vocab);
}

static void put_id(struct gguf_out *w, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_out_u32(w, key, (uint32_t)id);
}

static bool is_around(const int32_t *ids, unsigned n, int32_t id)
{
    return id >= 0 && n == 1 && ids[0] == id;
}

static int put_attempt(const struct inf_tokenizer *tok, uint32_t n_vocab, const struct attempt *a,
                       const struct merges *m, struct gguf_out *w)
{
    const bool spm = strcmp(a->model, "llama") == 0;
    int r;

    gguf_out_string(w, KEY("model"), a->model, strlen(a->model));
    gguf_out_string(w, KEY("pre"), a->pre, strlen(a->pre));
    r = put_pieces(tok, n_vocab, spm, w);
    if (r < 0)
        return r;
    if (!spm)
        gguf_out_strings(w, KEY("merges"), m->lines, m->n);
    put_id(w, KEY("bos_token_id"), tok->bos);
    put_id(w, KEY("eos_token_id"), tok->eos);
    put_id(w, KEY("padding_token_id"), tok->pad);
    if (spm)
        put_id(w, KEY("unknown_token_id"),
               tok->model == MODEL_SPM ? tok->spm.unknown : tok->bpe.unknown);
    gguf_out_bool(w, KEY("add_bos_token"), is_around(tok->prefix, tok->n_prefix, tok->bos));
    r = gguf_out_bool(w, KEY("add_eos_token"), is_around(tok->suffix, tok->n_suffix, tok->eos));
    return spm ? gguf_out_bool(w, KEY("add_space_prefix"), a->space_prefix) : r;
}

/* Reads an attempt again. Returns 0 if it gives the same tokens, -EOPNOTSUPP if it does not. */
static int try_attempt(const struct inf_tokenizer *tok, uint32_t n_vocab, const struct attempt *a,
                       const struct merges *m)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *again = NULL;
    _cleanup_(gguf_closep) struct gguf *g = NULL;
    _cleanup_free_ char *header = NULL;
    struct gguf_out w = {0};
    struct inf_err err;
    size_t n;
    int r;

    r = put_attempt(tok, n_vocab, a, m, &w);
    if (r == 0)
        r = gguf_out_header(&w, &header, &n);
    gguf_out_done(&w);
    if (r < 0)
        return r;
    if (gguf_parse(header, n, &g, &err) < 0 || tokenizer_open_gguf(g, &again, &err) < 0)
        return err.code == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
    return tokenizer_compare(tok, again);
}

/* Finds the attempt that gives the same tokens. */
static int find_attempt(const struct inf_tokenizer *tok, uint32_t n_vocab, const struct merges *m,
                        struct attempt *ret)
{
    static const struct attempt spm[] = {{"llama", "default", false}, {"llama", "default", true}};
    static const char *const pres[] = {
        "qwen2",     "llama-bpe",  "qwen35",       "gpt-2",       "gpt-4o",  "tekken",
        "smaug-bpe", "starcoder",  "deepseek-llm", "deepseek-v3", "falcon",  "deepseek-coder",
        "minicpm5",  "bailingmoe", "seed-coder",   "kimi-k2",     "default", "exaone-moe",
        "superbpe",  "poro-chat",  "viking",       "jais-2",      "youtu",   "afmoe"};
    const bool by_score =
        tok->model == MODEL_SPM || (tok->model == MODEL_BPE && tok->bpe.byte_fallback);
    int r = -EOPNOTSUPP;

    if (tok->model != MODEL_SPM && tok->model != MODEL_BPE)
        return r;
    for (size_t i = 0; by_score && r == -EOPNOTSUPP && i < ARRAY_SIZE(spm); i++) {
        *ret = spm[i];
        r = try_attempt(tok, n_vocab, ret, m);
    }
    for (size_t i = 0; !by_score && r == -EOPNOTSUPP && i < ARRAY_SIZE(pres); i++) {
        *ret = (struct attempt){"gpt2", pres[i], false};
        r = try_attempt(tok, n_vocab, ret, m);
    }
    return r;
}

int tokenizer_put_gguf(const struct inf_tokenizer *tok, uint32_t n_vocab, struct gguf_out *w,
                       struct inf_err *reterr)
{
    struct merges m = {0};
    struct attempt a = {0};
    int r = 0;

    if (tok->vocab.n > n_vocab)
        return err_set(reterr, EOPNOTSUPP, "the tokenizer has %u tokens, but the model has %u rows",
                       tok->vocab.n, n_vocab);
    if (tok->model == MODEL_BPE)
        r = merges_init(&m, tok);
    if (r == 0)
        r = find_attempt(tok, n_vocab, &m, &a);
    if (r == 0)
        r = put_attempt(tok, n_vocab, &a, &m, w);
    merges_done(&m);
    if (r == -EOPNOTSUPP)
        return err_set(reterr, EOPNOTSUPP,
                       "a GGUF file cannot have this tokenizer: no named way of splitting texts "
                       "gives its tokens");
    return r < 0 ? err_set(reterr, -r, "the tokenizer: %s", strerror(-r)) : 0;
}
