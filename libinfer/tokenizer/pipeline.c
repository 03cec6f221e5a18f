/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finishes tokenizer pipelines after loading, marks tokens that end generation, and bounds the
 * number of tokens of a text by its size.
 */
#include "tokenizer/pipeline.h"

#include <errno.h>
#include <string.h>

#include "core/utf8.h"
#include "format/gguf/gguf.h"

void pipeline_init(struct inf_tokenizer *tok)
{
    *tok = (struct inf_tokenizer){.bos = -1, .eos = -1, .pad = -1, .kind = "bpe"};
    tok->bpe.unknown = -1;
    tok->spm.unknown = -1;
    tok->wordpiece.unknown = -1;
}

int pipeline_add_prefix(struct inf_tokenizer *tok, int32_t id)
{
    if (tok->n_prefix == PIPELINE_MAX_AROUND)
        return -EINVAL;
    tok->prefix[tok->n_prefix++] = id;
    return 0;
}

int pipeline_add_suffix(struct inf_tokenizer *tok, int32_t id)
{
    if (tok->n_suffix == PIPELINE_MAX_AROUND)
        return -EINVAL;
    tok->suffix[tok->n_suffix++] = id;
    return 0;
}

int pipeline_add_pair(struct inf_tokenizer *tok, unsigned part, int32_t id, uint8_t type)
{
    struct around_pair *p = &tok->pair;

    if (p->n[part] == PIPELINE_MAX_AROUND)
        return -EINVAL;
    p->types[part][p->n[part]] = type;
    p->ids[part][p->n[part]++] = id;
    return 0;
}

/* Makes the default form of pairs: BERT's form for WordPiece, and RoBERTa's form for other
 * models. */
static int make_pair(struct inf_tokenizer *tok)
{
    const uint8_t second = tok->model == MODEL_WORDPIECE;
    int r = 0;

    if (tok->pair.there)
        return 0;
    for (unsigned i = 0; r == 0 && i < tok->n_prefix; i++)
        r = pipeline_add_pair(tok, 0, tok->prefix[i], 0);
    for (unsigned i = 0; r == 0 && i < tok->n_suffix; i++) {
        r = pipeline_add_pair(tok, 1, tok->suffix[i], 0);
        if (r == 0 && !second)
            r = pipeline_add_pair(tok, 1, tok->suffix[i], 0);
        if (r == 0)
            r = pipeline_add_pair(tok, 2, tok->suffix[i], second);
    }
    tok->pair.text_types[1] = second;
    tok->pair.there = true;
    return r;
}

/* Finds the added tokens whose normalized text differs from their own. Such tokens are decoded to
 * the normalized text. */
static int find_shown(struct inf_tokenizer *tok)
{
    const struct trie *t = &tok->added_normal.trie;
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < t->n; i++) {
        const struct piece *p = vocab_at(&tok->vocab, tok->added_normal.tokens[t->items[i].id].id);

        if (p && (p->len != t->items[i].len || memcmp(p->text, t->items[i].text, p->len) != 0))
            r = map_set(&tok->shown, p->text, p->len, i);
    }
    return r < 0 ? r : 0;
}

/* ---- how much text one token can represent ---- */

/* Returns whether no normalizer step shortens text. NFC may turn three bytes into one;
 * find_max_bytes() allows for NFC with its factor 3. */
static bool norm_keeps_length(const struct normalizer *norm)
{
    for (size_t i = 0; i < norm->n; i++) {
        const struct norm_step *st = &norm->steps[i];

        switch (st->kind) {
        case NORM_BYTES:
        case NORM_PREPEND:
        case NORM_NFC:
            continue;
        case NORM_REPLACE:
            if (!st->regex && st->content_len >= st->needle_len)
                continue;
            return false;
        case NORM_SPM:
            if (!st->merge_spaces && st->map.n_units == 0)
                continue;
            return false;
        default:
            return false;
        }
    }
    return true;
}

/* Returns whether the words of a text contain all of its bytes. */
static bool split_keeps_all(const struct splitter *split)
{
    for (size_t i = 0; i < split->n; i++) {
        const struct split_step *st = &split->steps[i];

        switch (st->kind) {
        case SPLIT_FAST:
        case SPLIT_BYTES:
        case SPLIT_DIGITS:
        case SPLIT_LENGTH:
        case SPLIT_ASCII_GROUPS:
        case SPLIT_GROUPS_OF_3:
            continue;
        case SPLIT_METASPACE:
            if (st->text_len >= 1)
                continue;
            return false;
        case SPLIT_REGEX:
        case SPLIT_STRING:
        case SPLIT_PUNCTUATION:
            if (st->behavior != SPLIT_REMOVED)
                continue;
            return false;
        default:
            return false;
        }
    }
    return true;
}

static bool has_byte_letters(const struct inf_tokenizer *tok)
{
    bool bytes = false;

    for (size_t i = 0; i < tok->norm.n; i++)
        bytes = bytes || tok->norm.steps[i].kind == NORM_BYTES;
    for (size_t i = 0; i < tok->split.n; i++)
        bytes = bytes || tok->split.steps[i].kind == SPLIT_BYTES;
    for (unsigned c = 0; bytes && c < 256; c++) {
        char text[4];
        const size_t len = utf8_encode(byte_char((unsigned char)c), text);

        bytes = vocab_find(&tok->vocab, text, len) >= 0;
    }
    return bytes;
}

/* Returns whether the vocabulary can represent every character, so that no character is dropped,
 * and no unknown token stands for several characters. */
static bool knows_all_letters(const struct inf_tokenizer *tok)
{
    int32_t ids[256];

    if (tok->model == MODEL_SPM)
        return tok->spm.byte_fallback && vocab_bytes(&tok->vocab, ids);
    if (tok->model != MODEL_BPE || tok->bpe.prefix || tok->bpe.suffix)
        return false;
    return has_byte_letters(tok) || (tok->bpe.byte_fallback && vocab_bytes(&tok->vocab, ids));
}

static void find_max_bytes(struct inf_tokenizer *tok)
{
    const struct added *const sets[] = {&tok->added, &tok->added_normal};
    size_t max = tok->vocab.max_len;

    for (size_t k = 0; k < ARRAY_SIZE(sets); k++) {
        for (uint32_t i = 0; i < sets[k]->n; i++)
            if (sets[k]->tokens[i].flags & (ADDED_LSTRIP | ADDED_RSTRIP))
                tok->swallows_space = true;
        for (uint32_t i = 0; i < sets[k]->trie.n; i++)
            max = MAX(max, sets[k]->trie.items[i].len);
    }
    if (norm_keeps_length(&tok->norm) && split_keeps_all(&tok->split) && knows_all_letters(tok))
        tok->max_bytes = max * 3;
}

bool pipeline_is_too_long(const struct inf_tokenizer *tok, const char *text, size_t len,
                          size_t max_ids)
{
    size_t n = 0;

    if (max_ids == 0 || tok->max_bytes == 0 || len / tok->max_bytes <= max_ids)
        return false;
    /* Count the bytes that cannot belong to white space. White space beyond ASCII begins with the
     * byte 0xc2, 0xe1, 0xe2 or 0xe3. Some letters also begin with these bytes and are not counted,
     * so the count is a lower bound. */
    for (size_t i = 0; tok->swallows_space && i < len; i++) {
        const unsigned char c = (unsigned char)text[i];

        n += c > ' ' && c != 0xc2 && c != 0xe1 && c != 0xe2 && c != 0xe3 && (c < 0x80 || c > 0xbf);
    }
    return !tok->swallows_space || n / tok->max_bytes > max_ids;
}

int pipeline_finish(struct inf_tokenizer *tok)
{
    int r;

    added_seal(&tok->added);
    added_seal(&tok->added_normal);
    eog_mark(tok);
    find_max_bytes(tok);
    r = make_pair(tok);
    return r < 0 ? r : find_shown(tok);
}

struct inf_tokenizer *tokenizer_free(struct inf_tokenizer *tok)
{
    if (!tok)
        return NULL;
    added_done(&tok->added);
    added_done(&tok->added_normal);
    normalizer_done(&tok->norm);
    splitter_done(&tok->split);
    bpe_done(&tok->bpe);
    spm_done(&tok->spm);
    wordpiece_done(&tok->wordpiece);
    decoder_done(&tok->dec);
    map_done(&tok->shown);
    vocab_done(&tok->vocab);
    arena_done(&tok->arena);
    gguf_close(tok->gguf);
    free(tok);
    return NULL;
}

/* Names of tokens that end a turn, in various models. */
static const char *const eog_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>", /* o200k_harmony */
    "<|call|>",
    "<|flush|>", /* solar-open */
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>", /* gemma4 */
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[", /* minimax-m2 */
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
};

static struct piece *find_named(struct inf_tokenizer *tok, const char *name)
{
    const int32_t id = vocab_find(&tok->vocab, name, strlen(name));

    return id >= 0 ? &tok->vocab.pieces[id] : NULL;
}

static bool has_named(struct inf_tokenizer *tok, const char *name)
{
    return find_named(tok, name) != NULL;
}

void eog_control(struct inf_tokenizer *tok)
{
    for (size_t i = 0; i < ARRAY_SIZE(eog_names); i++) {
        struct piece *p = find_named(tok, eog_names[i]);

        if (p)
            p->kind = PIECE_CONTROL;
    }
}

void eog_mark(struct inf_tokenizer *tok)
{
    struct piece *end = find_named(tok, "<|end|>"), *s = find_named(tok, "</s>");
    const bool calls = has_named(tok, "<|call|>") || has_named(tok, "<|calls|>");

    for (size_t i = 0; i < ARRAY_SIZE(eog_names); i++) {
        struct piece *p = find_named(tok, eog_names[i]);

        /* A normal piece with one of these names is ordinary text. */
        if (p && p->kind != PIECE_NORMAL)
            p->eog = true;
    }
    /* In a model with these tokens, "<|end|>" only ends a message within a turn. */
    if (end && calls && (has_named(tok, "<|return|>") || has_named(tok, "<|flush|>")))
        end->eog = false;
    if (s && has_named(tok, "<|tool_response>"))
        s->eog = false;
    if (vocab_at(&tok->vocab, tok->eos))
        tok->vocab.pieces[tok->eos].eog = true;
}
