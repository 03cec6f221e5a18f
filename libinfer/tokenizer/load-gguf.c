/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads tokenizers from the metadata of GGUF files (tokenizer.ggml.*).
 *
 * The kinds of tokenizers are "llama" (SentencePiece BPE), "gpt2" (byte-level BPE; also "gemma4"
 * and "whitespace"), "bert" (WordPiece) and "t5" (unigram). As in llama.cpp, missing keys have
 * llama.cpp's defaults, and ids outside the vocabulary are ignored.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "format/gguf/gguf.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/pre-names.h"

#define KEY(name) "tokenizer.ggml." name

struct load {
    const struct gguf *g;
    struct inf_tokenizer *tok;
    struct inf_err *reterr;
    int32_t unknown, sep, eot, eom;
    bool add_bos, add_eos, add_prefix, merge_spaces;
    unsigned pre;
};

static bool is_string(struct gguf_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

static const struct gguf_value *find_array(const struct gguf *g, const char *key, uint64_t n)
{
    const struct gguf_value *v = gguf_find(g, key);

    return v && v->type == GGUF_ARRAY && v->n >= n && v->elem != GGUF_STRING ? v : NULL;
}

static int put_empty(struct load *l, uint32_t id, enum piece_kind kind)
{
    char name[40];
    const int len = snprintf(name, sizeof(name), "[EMPTY_%u]", id);

    return vocab_put(&l->tok->vocab, id, name, (size_t)len, kind, l->reterr);
}

static int load_pieces(struct load *l)
{
    const struct gguf_value *v = gguf_find(l->g, KEY("tokens"));
    const struct gguf_value *scores, *kinds;
    int r = 0;

    if (!v || v->type != GGUF_ARRAY || v->elem != GGUF_STRING || v->n == 0)
        return err_set(l->reterr, EINVAL, "%s is missing or not a list of strings", KEY("tokens"));
    if (v->n > VOCAB_MAX_PIECES)
        return err_set(l->reterr, EINVAL, "too many tokens");
    scores = find_array(l->g, KEY("scores"), v->n);
    kinds = find_array(l->g, KEY("token_type"), v->n);
    if ((gguf_find(l->g, KEY("scores")) && !scores) ||
        (gguf_find(l->g, KEY("token_type")) && !kinds))
        return err_set(l->reterr, EINVAL, "the lists of scores or types do not fit the %llu tokens",
                       (unsigned long long)v->n);
    r = vocab_reserve(&l->tok->vocab, (uint32_t)v->n, (uint32_t)v->n);
    for (uint64_t i = 0; r == 0 && i < v->n; i++) {
        const int64_t kind = kinds ? gguf_elem_i64(kinds, i) : PIECE_NORMAL;
        const double score = scores ? gguf_elem_f64(scores, i) : 0;
        const enum piece_kind known =
            kind >= PIECE_NORMAL && kind <= PIECE_BYTE ? (enum piece_kind)kind : PIECE_UNUSED;
        const struct gguf_str text = gguf_string_at(v, i);

        if (text.len == 0)
            r = put_empty(l, (uint32_t)i, known);
        else
            r = vocab_put_borrowed(&l->tok->vocab, (uint32_t)i, text.data, text.len, known,
                                   l->reterr);
        if (r == 0 && score == score)
            r = vocab_set_score(&l->tok->vocab, (uint32_t)i, score);
    }
    return r;
}

/* Overwrites *id if the key exists and its value is the id of a token. If the default in *id is not
 * the id of a token, sets *id to -1. */
static void load_id(const struct load *l, const char *key, int32_t *id)
{
    uint64_t value;

    if (*id >= (int32_t)l->tok->vocab.n)
        *id = -1;
    if (gguf_u64(l->g, key, &value) && value < l->tok->vocab.n)
        *id = (int32_t)value;
}

static void load_ids(struct load *l)
{
    load_id(l, KEY("bos_token_id"), &l->tok->bos);
    load_id(l, KEY("eos_token_id"), &l->tok->eos);
    load_id(l, KEY("padding_token_id"), &l->tok->pad);
    load_id(l, KEY("unknown_token_id"), &l->unknown);
    load_id(l, KEY("seperator_token_id"), &l->sep);
    load_id(l, KEY("eot_token_id"), &l->eot);
    load_id(l, KEY("eom_token_id"), &l->eom);
    gguf_bool(l->g, KEY("add_bos_token"), &l->add_bos);
    gguf_bool(l->g, KEY("add_eos_token"), &l->add_eos);
    gguf_bool(l->g, KEY("add_space_prefix"), &l->add_prefix);
    gguf_bool(l->g, KEY("remove_extra_whitespaces"), &l->merge_spaces);
}

static void set_kind(struct inf_tokenizer *tok, const char *name, enum piece_kind kind)
{
    const int32_t id = vocab_find(&tok->vocab, name, strlen(name));

    if (id >= 0)
        tok->vocab.pieces[id].kind = (uint8_t)kind;
}

static bool has_piece(const struct inf_tokenizer *tok, const char *name)
{
    return vocab_find(&tok->vocab, name, strlen(name)) >= 0;
}

/* Corrects the kinds of some tokens by their names, because converters forget to mark control
 * tokens. A few names become user-defined tokens or normal pieces instead. */
static void fix_kinds(struct load *l)
{
    static const char *const shown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    struct inf_tokenizer *tok = l->tok;
    const bool calls = has_piece(tok, "<|call|>") || has_piece(tok, "<|calls|>");

    eog_control(tok);
    for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
        set_kind(tok, shown[i], PIECE_USER);
    if (calls && (has_piece(tok, "<|return|>") || has_piece(tok, "<|flush|>")))
        set_kind(tok, "<|end|>", PIECE_USER);
    if (has_piece(tok, "<|tool_response>"))
        set_kind(tok, "</s>", PIECE_NORMAL);
}

static bool is_piece(const struct piece *p, const char *text)
{
    return p->len == strlen(text) && memcmp(p->text, text, p->len) == 0;
}

static unsigned strip_flags(const struct load *l, const struct piece *p)
{
    struct gguf_str name, arch;
    char lower[64] = "";

    if (gguf_string(l->g, "general.name", &name))
        for (size_t i = 0; i < name.len && i + 1 < sizeof(lower); i++)
            lower[i] = (char)tolower((unsigned char)name.data[i]);
    if ((l->pre & PRE_MASK_STRIP) ||
        (gguf_string(l->g, "general.architecture", &arch) &&
         (is_string(arch, "nomic-bert-moe") || is_string(arch, "jina-bert-v3"))))
        return is_piece(p, "<mask>") ? ADDED_LSTRIP : 0;
    if (strstr(lower, "phi-3") || strstr(lower, "phi3"))
        return is_piece(p, "<unk>") || is_piece(p, "<s>") || is_piece(p, "<|endoftext|>")
                   ? 0
                   : ADDED_RSTRIP;
    if (strstr(lower, "modern-bert"))
        return is_piece(p, "[MASK]") ? ADDED_LSTRIP : 0;
    return 0;
}

static int load_added(struct load *l)
{
    const struct vocab *v = &l->tok->vocab;
    int r = 0;

    l->tok->added.ascii_space = true;
    for (uint32_t i = 0; r == 0 && i < v->n; i++) {
        const struct piece *p = &v->pieces[i];
        unsigned flags;

        if (p->kind != PIECE_CONTROL && p->kind != PIECE_UNKNOWN && p->kind != PIECE_USER)
            continue;
        /* If the text of a token is not valid UTF-8, cutting the token out would break a code
         * point. */
        if (!utf8_valid(p->text, p->len))
            continue;
        flags = strip_flags(l, p) | (p->kind == PIECE_USER ? 0 : ADDED_SPECIAL);
        r = added_put(&l->tok->added, p->text, p->len, (int32_t)i, flags);
    }
    return r;
}

static struct norm_step *spm_step(struct load *l)
{
    struct norm_step *st = normalizer_add(&l->tok->norm, NORM_SPM);

    if (st) {
        st->prefix = l->add_prefix;
        st->merge_spaces = l->merge_spaces;
        st->escape = true;
    }
    return st;
}

/* Makes the decoder remove the first space of a text, which encoding added. */
static int strip_first(struct inf_tokenizer *tok)
{
    return decoder_add(&tok->dec, DEC_FIRST_SPACE) ? 0 : -ENOMEM;
}

static int load_spm(struct load *l)
{
    struct inf_tokenizer *tok = l->tok;
    int r;

    tok->model = MODEL_SPM;
    tok->kind = "spm";
    tok->style = STYLE_SPACES;
    tok->dec.each_byte = true;
    l->merge_spaces = false;
    if (!spm_step(l))
        return -ENOMEM;
    r = spm_init(&tok->spm, &tok->vocab, false, false);
    tok->spm.byte_fallback = true;
    tok->spm.unknown = l->unknown;
    return r == 0 && l->add_prefix ? strip_first(tok) : r;
}

static int load_unigram(struct load *l)
{
    struct inf_tokenizer *tok = l->tok;
    const struct gguf_value *map = gguf_find(l->g, KEY("precompiled_charsmap"));
    struct norm_step *st = spm_step(l);
    int r;

    tok->model = MODEL_UNIGRAM;
    tok->kind = "unigram";
    tok->style = STYLE_SPACES;
    if (!st)
        return -ENOMEM;
    st->lazy_prefix = true;
    st->prefix = l->add_prefix || l->merge_spaces;
    if (map) {
        if (map->type != GGUF_ARRAY || (map->elem != GGUF_I8 && map->elem != GGUF_U8))
            return err_set(l->reterr, EINVAL, "the charsmap is not a list of bytes");
        r = charsmap_init(&st->map, map->data, map->n, l->reterr);
        if (r < 0)
            return r;
    }
    r = spm_init(&tok->spm, &tok->vocab, true, false);
    tok->spm.unknown = l->unknown;
    tok->spm.user_zero = true;
    return r == 0 && l->add_prefix ? strip_first(tok) : r;
}

/* Characters of the longest word that BERT looks up, including U+2581 before the word. */
#define WORDPIECE_MAX_CHARS 101

/* Splits words as BERT does, not as llama.cpp does, so that the vectors are those of the original
 * model. BERT and llama.cpp differ for letters of several code points and for very long words. */
static int load_wordpiece(struct load *l)
{
    struct inf_tokenizer *tok = l->tok;
    struct norm_step *st = normalizer_add(&tok->norm, NORM_BERT);
    struct split_step *split = splitter_add(&tok->split, SPLIT_SPACES);
    int r;

    if (!st || !split)
        return -ENOMEM;
    split->behavior = SPLIT_REMOVED;
    if (!splitter_add(&tok->split, SPLIT_PUNCTUATION))
        return -ENOMEM;
    st->clean = st->chinese = st->lower = true;
    gguf_bool(l->g, KEY("normalizer.lowercase"), &st->lower);
    st->accents = st->lower;
    gguf_bool(l->g, KEY("normalizer.strip_accents"), &st->accents);
    split = splitter_add(&tok->split, SPLIT_METASPACE);
    if (!split)
        return -ENOMEM;
    split->text = "\xe2\x96\x81";
    split->text_len = 3;
    split->prepend = SPLIT_PREPEND_FORCED;
    tok->model = MODEL_WORDPIECE;
    tok->kind = "wordpiece";
    tok->style = STYLE_SPACES;
    tok->wordpiece.unknown = l->unknown;
    tok->wordpiece.skip_words = true;
    tok->wordpiece.max_chars = WORDPIECE_MAX_CHARS;
    r = wordpiece_init(&tok->wordpiece, &tok->vocab, "", 0);
    if (r == 0 && tok->bos >= 0)
        r = pipeline_add_prefix(tok, tok->bos);
    if (r == 0 && l->sep >= 0)
        r = pipeline_add_suffix(tok, l->sep);
    return r < 0 ? r : strip_first(tok);
}

static int load_merges(struct load *l)
{
    const struct gguf_value *v = gguf_find(l->g, KEY("merges"));
    struct gguf_str pre = {0};
    int r;

    r = bpe_init(&l->tok->bpe, &l->tok->vocab, 0);
    /* Files of Kimi K2 may lack the key "merges". A tokenizer from such a file has no merges. */
    gguf_string(l->g, KEY("pre"), &pre);
    if (r < 0 || (!v && is_string(pre, "kimi-k2")))
        return r;
    if (!v || v->type != GGUF_ARRAY || (v->elem != GGUF_STRING && v->n > 0))
        return err_set(l->reterr, EINVAL, "%s is missing or not a list of strings", KEY("merges"));
    if (v->n > VOCAB_MAX_PIECES)
        return err_set(l->reterr, EINVAL, "too many merges");
    return v->n > 0 ? bpe_add_lines(&l->tok->bpe, v) : 0;
}

static int load_pre(struct load *l, const char *model)
{
    struct gguf_str name = {"default", 7};

    if (strcmp(model, "gemma4") == 0)
        name = (struct gguf_str){"gemma4", 6};
    else if (!gguf_string(l->g, KEY("pre"), &name) || name.len == 0)
        name = (struct gguf_str){"default", 7};
    return pre_find(name.data, name.len, &l->tok->split, &l->pre, l->reterr);
}

/* Loads the steps of the kind "whitespace": white space is removed, and the text may be
 * lower-cased. */
static int load_words(struct load *l)
{
    struct split_step *split;
    bool lower = false;

    gguf_bool(l->g, KEY("normalizer.lowercase"), &lower);
    if (lower) {
        struct norm_step *st = normalizer_add(&l->tok->norm, NORM_LOWERCASE);

        if (!st)
            return -ENOMEM;
        st->simple = true;
    }
    split = splitter_add(&l->tok->split, SPLIT_SPACES);
    if (!split)
        return -ENOMEM;
    split->behavior = SPLIT_REMOVED;
    return 0;
}

static int load_bpe(struct load *l, const char *model)
{
    struct inf_tokenizer *tok = l->tok;
    int r;

    tok->model = MODEL_BPE;
    r = load_merges(l);
    if (r == 0 && strcmp(model, "whitespace") == 0)
        r = load_words(l);
    if (r < 0)
        return r;
    tok->bpe.by_text = true;
    tok->bpe.byte_fallback = l->pre & PRE_RAW;
    tok->bpe.ignore_merges = l->pre & PRE_IGNORE_MERGES;
    tok->bpe.newline_words = l->pre & PRE_NEWLINES;
    tok->style = l->pre & PRE_ESCAPE ? STYLE_SPACES : l->pre & PRE_RAW ? STYLE_PLAIN : STYLE_BYTES;
    if (l->pre & PRE_ESCAPE) {
        struct norm_step *st = normalizer_add(&tok->norm, NORM_REPLACE);

        if (!st)
            return -ENOMEM;
        st->needle = " ";
        st->needle_len = 1;
        st->content = "\xe2\x96\x81";
        st->content_len = 3;
    }
    if (!(l->pre & PRE_RAW) && !splitter_add(&tok->split, SPLIT_BYTES))
        return -ENOMEM;
    return 0;
}

static int load_kind(struct load *l, const char *model)
{
    const bool bpe = strcmp(model, "gpt2") == 0 || strcmp(model, "gemma4") == 0 ||
                     strcmp(model, "whitespace") == 0;
    int r;

    /* Set the defaults of ids and flags for each kind. */
    if (strcmp(model, "llama") == 0) {
        l->tok->bos = 1;
        l->tok->eos = 2;
        l->unknown = 0;
        l->add_bos = l->add_prefix = true;
    } else if (strcmp(model, "bert") == 0) {
        l->tok->bos = 101;
        l->unknown = 100;
        l->sep = 102;
        l->tok->pad = 0;
    } else if (strcmp(model, "t5") == 0) {
        l->tok->eos = 1;
        l->unknown = 2;
        l->tok->pad = 0;
        l->add_eos = true;
    } else if (bpe) {
        r = load_pre(l, model);
        if (r < 0)
            return r;
        if (strcmp(model, "gemma4") != 0)
            l->tok->bos = l->tok->eos = 11;
        if (l->pre & PRE_NO_BOS)
            l->tok->bos = -1;
        l->add_bos = l->pre & PRE_ADD_BOS;
    } else {
        return err_set(l->reterr, ENOTSUP, "unknown tokenizer model '%.80s'", model);
    }
    load_ids(l);
    if ((l->pre & PRE_NEWLINES) && bpe)
        l->add_bos = true;
    fix_kinds(l);
    if (bpe)
        r = load_bpe(l, model);
    else if (strcmp(model, "llama") == 0)
        r = load_spm(l);
    else if (strcmp(model, "bert") == 0)
        return load_wordpiece(l);
    else
        r = load_unigram(l);
    if (r == 0 && l->add_bos && l->tok->bos >= 0)
        r = pipeline_add_prefix(l->tok, l->tok->bos);
    if (r == 0 && l->add_eos && l->tok->eos >= 0)
        r = pipeline_add_suffix(l->tok, l->tok->eos);
    return r;
}

int tokenizer_open_gguf(const struct gguf *g, struct inf_tokenizer **ret_tok,
                        struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NEW(struct inf_tokenizer, 1);
    struct load l = {
        .g = g, .tok = tok, .reterr = reterr, .unknown = -1, .sep = -1, .eot = -1, .eom = -1};
    struct gguf_str model;
    char name[96];
    int r;

    if (!tok)
        return -ENOMEM;
    pipeline_init(tok);
    if (!gguf_string(g, KEY("model"), &model))
        return err_set(reterr, EINVAL, "the file has no tokenizer (%s)", KEY("model"));
    snprintf(name, sizeof(name), "%.*s", (int)MIN(model.len, 90u), model.data);
    r = load_pieces(&l);
    if (r == 0)
        r = load_kind(&l, name);
    if (r == 0)
        r = load_added(&l);
    if (r == 0)
        r = pipeline_finish(tok);
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    if (vocab_at(&tok->vocab, l.eot))
        tok->vocab.pieces[l.eot].eog = true;
    if (vocab_at(&tok->vocab, l.eom))
        tok->vocab.pieces[l.eom].eog = true;
    *ret_tok = STEAL(tok);
    return 0;
}
