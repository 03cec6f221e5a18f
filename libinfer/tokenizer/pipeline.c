/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/pipeline.h"

#include <errno.h>
#include <string.h>

#include "format/gguf.h"

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

/* As BERT has it, and the others as RoBERTa. */
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

/* Added tokens are decoded as they were normalised. */
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

int pipeline_finish(struct inf_tokenizer *tok)
{
    int r;

    added_seal(&tok->added);
    added_seal(&tok->added_normal);
    eog_mark(tok);
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

/* The names that models give to the token after which a turn is over. */
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

static struct piece *named(struct inf_tokenizer *tok, const char *name)
{
    const int32_t id = vocab_find(&tok->vocab, name, strlen(name));

    return id >= 0 ? &tok->vocab.pieces[id] : NULL;
}

static bool has(struct inf_tokenizer *tok, const char *name)
{
    return named(tok, name) != NULL;
}

void eog_control(struct inf_tokenizer *tok)
{
    for (size_t i = 0; i < ARRAY_SIZE(eog_names); i++) {
        struct piece *p = named(tok, eog_names[i]);

        if (p)
            p->kind = PIECE_CONTROL;
    }
}

void eog_mark(struct inf_tokenizer *tok)
{
    struct piece *end = named(tok, "<|end|>"), *s = named(tok, "</s>");
    const bool calls = has(tok, "<|call|>") || has(tok, "<|calls|>");

    for (size_t i = 0; i < ARRAY_SIZE(eog_names); i++) {
        struct piece *p = named(tok, eog_names[i]);

        /* A name that is ordinary text of the vocabulary is none. */
        if (p && p->kind != PIECE_NORMAL)
            p->eog = true;
    }
    /* Where these are, "<|end|>" ends a message inside a turn. */
    if (end && calls && (has(tok, "<|return|>") || has(tok, "<|flush|>")))
        end->eog = false;
    if (s && has(tok, "<|tool_response>"))
        s->eog = false;
    if (vocab_at(&tok->vocab, tok->eos))
        tok->vocab.pieces[tok->eos].eog = true;
}
