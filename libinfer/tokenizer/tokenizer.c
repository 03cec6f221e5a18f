/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives access to the vocabulary and the special tokens of a tokenizer (<infer/tokenizer.h>).
 */
#include <string.h>

#include "tokenizer/pipeline.h"

uint32_t inf_tokenizer_n_vocab(const struct inf_tokenizer *tok)
{
    return tok->vocab.n;
}

const char *inf_tokenizer_kind(const struct inf_tokenizer *tok)
{
    return tok->kind;
}

int32_t inf_tokenizer_bos(const struct inf_tokenizer *tok)
{
    return tok->bos;
}

int32_t inf_tokenizer_eos(const struct inf_tokenizer *tok)
{
    return tok->eos;
}

int32_t inf_tokenizer_pad(const struct inf_tokenizer *tok)
{
    return tok->pad;
}

bool inf_tokenizer_adds_bos(const struct inf_tokenizer *tok)
{
    return tok->bos >= 0 && tok->n_prefix > 0 && tok->prefix[0] == tok->bos;
}

unsigned inf_tokenizer_token_flags(const struct inf_tokenizer *tok, int32_t id)
{
    const struct piece *p = vocab_at(&tok->vocab, id);
    unsigned flags = 0;

    if (!p)
        return 0;
    if (p->kind == PIECE_CONTROL)
        flags |= INF_TOKEN_SPECIAL;
    if (p->kind == PIECE_UNKNOWN)
        flags |= INF_TOKEN_UNKNOWN;
    if (p->kind == PIECE_BYTE)
        flags |= INF_TOKEN_BYTE;
    if (p->eog)
        flags |= INF_TOKEN_EOG;
    return flags;
}

const char *inf_tokenizer_token_text(const struct inf_tokenizer *tok, int32_t id, size_t *ret_len)
{
    const struct piece *p = vocab_at(&tok->vocab, id);

    if (!p)
        return NULL;
    *ret_len = p->len;
    return p->text;
}

int32_t inf_tokenizer_find(const struct inf_tokenizer *tok, const char *piece, size_t len)
{
    return vocab_find(&tok->vocab, piece, len);
}
