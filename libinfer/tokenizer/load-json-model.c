/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the "model" of tokenizer.json: BPE, Unigram, WordPiece or WordLevel. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/text.h"
#include "tokenizer/load-json.h"

static int32_t find_text(const struct json_load *l, const json_t *j)
{
    return json_is_string(j)
               ? vocab_find(&l->tok->vocab, json_string_value(j), json_string_length(j))
               : -1;
}

/* Loads a vocabulary {"piece": id, …}. */
static int load_vocab(struct json_load *l, const json_t *j)
{
    const char *key;
    size_t len;
    json_t *value;
    uint32_t n_ids = 0;
    int r;

    if (!json_is_object(j))
        return err_set(l->reterr, EINVAL, "model.vocab is missing or not an object");
    json_object_keylen_foreach((json_t *)j, key, len, value)
    {
        const int64_t id = json_load_uint(value, VOCAB_MAX_PIECES - 1);

        if (id < 0 || id / 16 > (int64_t)json_object_size(j) + 65536)
            return err_set(l->reterr, EINVAL, "model.vocab: '%.40s' has no valid id", key);
        n_ids = MAX(n_ids, (uint32_t)id + 1);
    }
    r = json_object_size(j) <= VOCAB_MAX_PIECES
            ? vocab_reserve(&l->tok->vocab, (uint32_t)json_object_size(j), n_ids)
            : err_set(l->reterr, EINVAL, "model.vocab has too many pieces");
    if (r < 0)
        return r;
    json_object_keylen_foreach((json_t *)j, key, len, value)
    {
        r = vocab_put(&l->tok->vocab, (uint32_t)json_load_uint(value, VOCAB_MAX_PIECES - 1), key,
                      len, PIECE_NORMAL, l->reterr);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Loads a merge, "a b" or ["a", "b"]. Returns 1 for a comment. */
static int load_merge(struct json_load *l, const json_t *j, uint32_t rank)
{
    const char *a, *b;
    size_t a_len, b_len;

    if (json_is_array(j) && json_array_size(j) == 2 && json_is_string(json_array_get(j, 0)) &&
        json_is_string(json_array_get(j, 1))) {
        a = json_string_value(json_array_get(j, 0));
        a_len = json_string_length(json_array_get(j, 0));
        b = json_string_value(json_array_get(j, 1));
        b_len = json_string_length(json_array_get(j, 1));
    } else if (json_is_string(j)) {
        const size_t len = json_string_length(j);

        a = json_string_value(j);
        if (text_starts_with(a, "#version"))
            return 1;
        b = memchr(a, ' ', len);
        if (!b || memchr(b + 1, ' ', len - (size_t)(b - a) - 1))
            return err_set(l->reterr, EINVAL, "merge %u is not a pair", rank);
        a_len = (size_t)(b - a);
        b++;
        b_len = len - a_len - 1;
    } else {
        return err_set(l->reterr, EINVAL, "merge %u is not a pair", rank);
    }
    return bpe_add_merge(&l->tok->bpe, a, a_len, b, b_len, rank, l->reterr);
}

static int load_affix(struct json_load *l, const json_t *j, const char **ret, size_t *ret_len)
{
    if (!json_is_string(j) || json_string_length(j) == 0)
        return 0;
    *ret = json_load_text(l, j, ret_len);
    return *ret ? 0 : -ENOMEM;
}

static void mark_bytes(struct vocab *v)
{
    int32_t ids[256];

    vocab_bytes(v, ids);
    for (size_t i = 0; i < 256; i++)
        if (ids[i] >= 0)
            v->pieces[ids[i]].kind = PIECE_BYTE;
}

static int load_bpe(struct json_load *l, const json_t *j)
{
    const json_t *merges = json_object_get(j, "merges");
    struct bpe *b = &l->tok->bpe;
    uint32_t rank = 0;
    int r;

    if (!json_is_array(merges))
        return err_set(l->reterr, EINVAL, "model.merges is missing or not a list");
    r = load_vocab(l, json_object_get(j, "vocab"));
    if (r == 0)
        r = bpe_init(b, &l->tok->vocab, json_array_size(merges));
    if (r == 0)
        r = load_affix(l, json_object_get(j, "continuing_subword_prefix"), &b->prefix,
                       &b->prefix_len);
    if (r == 0)
        r = load_affix(l, json_object_get(j, "end_of_word_suffix"), &b->suffix, &b->suffix_len);
    for (size_t i = 0; r >= 0 && i < json_array_size(merges); i++) {
        r = load_merge(l, json_array_get(merges, i), rank);
        rank += r == 0;
    }
    if (r < 0)
        return r;
    b->unknown = find_text(l, json_object_get(j, "unk_token"));
    l->unknown = b->unknown;
    b->fuse_unknown = json_load_bool(j, "fuse_unk", false);
    b->byte_fallback = json_load_bool(j, "byte_fallback", false);
    b->ignore_merges = json_load_bool(j, "ignore_merges", false);
    if (b->byte_fallback)
        mark_bytes(&l->tok->vocab);
    l->tok->model = MODEL_BPE;
    l->tok->kind = "bpe";
    return 0;
}

static int load_unigram(struct json_load *l, const json_t *j)
{
    const json_t *vocab = json_object_get(j, "vocab");
    int r = 0;

    if (!json_is_array(vocab))
        return err_set(l->reterr, EINVAL, "model.vocab is missing or not a list");
    for (size_t i = 0; r == 0 && i < json_array_size(vocab); i++) {
        const json_t *row = json_array_get(vocab, i), *text = json_array_get(row, 0);
        const json_t *score = json_array_get(row, 1);

        if (!json_is_string(text) || !json_is_number(score))
            return err_set(l->reterr, EINVAL, "model.vocab[%zu] is not a piece with a score", i);
        r = vocab_put(&l->tok->vocab, (uint32_t)i, json_string_value(text),
                      json_string_length(text), PIECE_NORMAL, l->reterr);
        if (r == 0)
            r = vocab_set_score(&l->tok->vocab, (uint32_t)i, json_number_value(score));
    }
    if (r == 0)
        r = spm_init(&l->tok->spm, &l->tok->vocab, true, true);
    if (r < 0)
        return r;
    l->unknown = -1;
    if (json_object_get(j, "unk_id") && !json_is_null(json_object_get(j, "unk_id"))) {
        l->unknown = (int32_t)json_load_uint(json_object_get(j, "unk_id"), INT32_MAX);
        if (!vocab_at(&l->tok->vocab, l->unknown))
            return err_set(l->reterr, EINVAL, "model.unk_id is not a token");
    }
    l->tok->spm.unknown = l->unknown;
    l->tok->spm.byte_fallback = json_load_bool(j, "byte_fallback", false);
    if (l->tok->spm.byte_fallback)
        mark_bytes(&l->tok->vocab);
    l->tok->model = MODEL_UNIGRAM;
    l->tok->kind = "unigram";
    return 0;
}

static int load_words(struct json_load *l, const json_t *j, bool whole)
{
    const json_t *prefix = json_object_get(j, "continuing_subword_prefix");
    const json_t *max = json_object_get(j, "max_input_chars_per_word");
    struct wordpiece *w = &l->tok->wordpiece;
    const char *text = "##";
    size_t len = 2;
    int r;

    r = load_vocab(l, json_object_get(j, "vocab"));
    if (r < 0)
        return r;
    if (json_is_string(prefix)) {
        text = json_string_value(prefix);
        len = json_string_length(prefix);
    }
    r = wordpiece_init(w, &l->tok->vocab, text, len);
    w->whole = whole;
    w->max_chars = whole ? 0 : 100;
    if (!whole && json_load_uint(max, INT32_MAX) >= 0)
        w->max_chars = (size_t)json_load_uint(max, INT32_MAX);
    w->unknown = find_text(l, json_object_get(j, "unk_token"));
    l->unknown = w->unknown;
    l->tok->model = MODEL_WORDPIECE;
    l->tok->kind = "wordpiece";
    return r;
}

int json_load_model(struct json_load *l, const json_t *j)
{
    const char *type = json_load_type(j);

    if (!json_is_object(j))
        return err_set(l->reterr, EINVAL, "\"model\" is missing or not an object");
    /* Files of the first versions of Hugging Face's library have no type. */
    if (!*type)
        type = json_object_get(j, "merges")                     ? "BPE"
               : json_is_array(json_object_get(j, "vocab"))     ? "Unigram"
               : json_object_get(j, "max_input_chars_per_word") ? "WordPiece"
                                                                : "WordLevel";
    if (strcmp(type, "BPE") == 0)
        return load_bpe(l, j);
    if (strcmp(type, "Unigram") == 0)
        return load_unigram(l, j);
    if (strcmp(type, "WordPiece") == 0)
        return load_words(l, j, false);
    if (strcmp(type, "WordLevel") == 0)
        return load_words(l, j, true);
    return json_load_unsupported(l, "model", j);
}
