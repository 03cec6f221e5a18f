/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads special tokens and flags from the configuration files beside a tokenizer.
 */
#include "tokenizer/load-config.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "tokenizer/load-json.h"

#define MAX_SIZE ((size_t)16 << 20)

static const char *const file_names[] = {
    [CONFIG_TOKENIZER] = "tokenizer_config.json",
    [CONFIG_SPECIAL_MAP] = "special_tokens_map.json",
    [CONFIG_GENERATION] = "generation_config.json",
    [CONFIG_MODEL] = "config.json",
};

int config_parse(struct config *c, enum config_file file, const char *text, size_t len,
                 struct inf_err *reterr)
{
    if (len > MAX_SIZE)
        return err_set(reterr, EFBIG, "%s is too large", file_names[file]);
    return json_text_parse(text, len, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, file_names[file],
                           &c->files[file], reterr);
}

int config_read_dir(struct config *c, const char *dir, struct inf_err *reterr)
{
    for (unsigned i = 0; i < CONFIG_N; i++) {
        _cleanup_free_ char *path = path_join(dir, file_names[i]);
        int r;

        if (!path)
            return -ENOMEM;
        if (!path_exists(path))
            continue;
        r = json_text_read(path, MAX_SIZE, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, &c->files[i],
                           reterr);
        if (r < 0)
            return r;
    }
    return 0;
}

void config_done(struct config *c)
{
    for (unsigned i = 0; i < CONFIG_N; i++)
        json_decref(c->files[i]);
    *c = (struct config){0};
}

const json_t *config_get(const struct config *c, const char *key)
{
    return c ? json_object_get(c->files[CONFIG_TOKENIZER], key) : NULL;
}

const char *config_token(const struct config *c, const char *key, size_t *ret_len)
{
    for (unsigned i = CONFIG_TOKENIZER; c && i <= CONFIG_SPECIAL_MAP; i++) {
        const json_t *j = json_object_get(c->files[i], key);

        /* The value is "…" or {"content": "…"}. */
        if (json_is_object(j))
            j = json_object_get(j, "content");
        if (json_is_string(j)) {
            *ret_len = json_string_length(j);
            return json_string_value(j);
        }
    }
    return NULL;
}

static int32_t find_token(const struct config *c, const struct inf_tokenizer *tok, const char *key)
{
    size_t len;
    const char *text = config_token(c, key, &len);

    return text ? vocab_find(&tok->vocab, text, len) : -1;
}

/* Returns a flag of tokenizer_config.json, 1 or 0; -1: the file does not contain it. */
static int config_flag(const struct config *c, const char *key)
{
    const json_t *j = config_get(c, key);

    return json_is_boolean(j) ? json_is_true(j) : -1;
}

/* Guesses the end token by the usual names. This function is called if no file names the end
 * token. */
static int32_t guess_eos(const struct inf_tokenizer *tok)
{
    static const char *const names[] = {
        "</s>", "<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end_of_text|>", "<eos>", "[SEP]"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const int32_t id = vocab_find(&tok->vocab, names[i], strlen(names[i]));

        if (id >= 0 && tok->vocab.pieces[id].kind != PIECE_NORMAL)
            return id;
    }
    return -1;
}

static int apply_bos(struct inf_tokenizer *tok, int add)
{
    const bool there = inf_tokenizer_adds_bos(tok);

    if (add < 0 || tok->bos < 0 || there == (add == 1))
        return 0;
    if (add == 1 && tok->n_prefix == PIPELINE_MAX_AROUND)
        return -EINVAL;
    if (add == 1)
        memmove(tok->prefix + 1, tok->prefix, tok->n_prefix * sizeof(*tok->prefix));
    else
        memmove(tok->prefix, tok->prefix + 1, (tok->n_prefix - 1) * sizeof(*tok->prefix));
    tok->n_prefix = add == 1 ? tok->n_prefix + 1 : tok->n_prefix - 1;
    if (add == 1)
        tok->prefix[0] = tok->bos;
    return 0;
}

static int apply_eos(struct inf_tokenizer *tok, int add)
{
    const bool there = tok->n_suffix > 0 && tok->suffix[tok->n_suffix - 1] == tok->eos;

    if (add < 0 || tok->eos < 0 || there == (add == 1))
        return 0;
    if (add == 1)
        return pipeline_add_suffix(tok, tok->eos);
    tok->n_suffix--;
    return 0;
}

/* Returns true if the configuration has a list of the model's inputs that does not contain token
 * types. In that case transformers does not pass token types to the model. */
static bool lists_no_types(const struct config *c)
{
    const json_t *names = config_get(c, "model_input_names");

    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));

        if (name && strcmp(name, "token_type_ids") == 0)
            return false;
    }
    return json_array_size(names) > 0;
}

int config_apply(const struct config *c, struct inf_tokenizer *tok, struct inf_err *reterr)
{
    int r;

    tok->one_type = lists_no_types(c);
    tok->bos = find_token(c, tok, "bos_token");
    tok->eos = find_token(c, tok, "eos_token");
    tok->pad = find_token(c, tok, "pad_token");
    if (tok->bos < 0)
        tok->bos = find_token(c, tok, "cls_token");
    if (tok->bos < 0 && tok->n_prefix > 0 && vocab_at(&tok->vocab, tok->prefix[0]))
        tok->bos = tok->prefix[0];
    if (tok->eos < 0)
        tok->eos = find_token(c, tok, "sep_token");
    if (tok->eos < 0)
        tok->eos = guess_eos(tok);
    r = apply_bos(tok, config_flag(c, "add_bos_token"));
    if (r == 0)
        r = apply_eos(tok, config_flag(c, "add_eos_token"));
    return r < 0 ? err_set(reterr, EINVAL, "the tokenizer adds too many tokens to a text") : 0;
}

static void mark_eog(struct inf_tokenizer *tok, const json_t *j)
{
    const int64_t id = json_load_uint(j, INT32_MAX);

    if (vocab_at(&tok->vocab, (int32_t)id))
        tok->vocab.pieces[id].eog = true;
}

int config_mark_eog(const struct config *c, struct inf_tokenizer *tok)
{
    for (unsigned i = CONFIG_GENERATION; c && i <= CONFIG_MODEL; i++) {
        const json_t *eos = json_object_get(c->files[i], "eos_token_id");

        mark_eog(tok, eos);
        for (size_t k = 0; k < json_array_size(eos); k++)
            mark_eog(tok, json_array_get(eos, k));
    }
    return 0;
}
