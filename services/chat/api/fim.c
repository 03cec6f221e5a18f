/* SPDX-License-Identifier: Apache-2.0 */
/* Makes prompts for filling in. */
#include "chat/api/fim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The names of the tokens in the vocabularies of Qwen and CodeGemma, StarCoder and Granite,
 * SantaCoder, DeepSeek, GLM, CodeLlama, and Codestral, which has the suffix first. */
static const struct {
    const char *prefix, *suffix, *middle;
    bool suffix_first;
} fim_names[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", false},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", false},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", false},
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", false},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", false},
    {"▁<PRE>", "▁<SUF>", "▁<MID>", false},
    {"[PREFIX]", "[SUFFIX]", NULL, true},
};

static int32_t fim_token(const struct inf_tokenizer *tok, const char *name)
{
    return name ? inf_tokenizer_find(tok, name, strlen(name)) : -1;
}

bool fim_find(const struct inf_tokenizer *tok, struct fim *ret_fim)
{
    for (size_t i = 0; i < ARRAY_SIZE(fim_names); i++) {
        const struct fim fim = {
            .prefix = fim_token(tok, fim_names[i].prefix),
            .suffix = fim_token(tok, fim_names[i].suffix),
            .middle = fim_token(tok, fim_names[i].middle),
            .suffix_first = fim_names[i].suffix_first,
        };

        if (fim.prefix < 0 || fim.suffix < 0 || (fim_names[i].middle && fim.middle < 0))
            continue;
        *ret_fim = fim;
        return true;
    }
    return false;
}

static int fim_part(const struct inf_tokenizer *tok, const json_t *text, int32_t **ret_ids,
                    size_t *ret_n)
{
    *ret_ids = NULL;
    *ret_n = 0;
    return json_string_length(text)
               ? inf_tokenizer_encode(tok, json_string_value(text), json_string_length(text), 0, 0,
                                      ret_ids, ret_n)
               : 0;
}

/* Appends a token, unless it is -1, and the ids behind it. */
static size_t fim_put(int32_t *tokens, size_t n, int32_t token, const int32_t *ids, size_t n_ids)
{
    if (token >= 0)
        tokens[n++] = token;
    if (n_ids)
        memcpy(tokens + n, ids, n_ids * sizeof(*ids));
    return n + n_ids;
}

int fim_encode(const struct inf_tokenizer *tok, const struct fim *fim, const json_t *prefix,
               const json_t *suffix, int32_t **ret_tokens, size_t *ret_n)
{
    _cleanup_free_ int32_t *before = NULL, *after = NULL;
    size_t n_before, n_after, n = 0;
    int32_t *tokens;
    int r = fim_part(tok, prefix, &before, &n_before);

    r = r < 0 ? r : fim_part(tok, suffix, &after, &n_after);
    if (r < 0)
        return r;
    tokens = NEW(int32_t, n_before + n_after + 4);
    if (!tokens)
        return -ENOMEM;
    if (inf_tokenizer_adds_bos(tok))
        n = fim_put(tokens, n, inf_tokenizer_bos(tok), NULL, 0);
    if (fim->suffix_first)
        n = fim_put(tokens, n, fim->suffix, after, n_after);
    n = fim_put(tokens, n, fim->prefix, before, n_before);
    if (!fim->suffix_first)
        n = fim_put(tokens, n, fim->suffix, after, n_after);
    n = fim_put(tokens, n, fim->middle, NULL, 0);
    *ret_tokens = tokens;
    *ret_n = n;
    return 0;
}
