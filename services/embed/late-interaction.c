/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings of models for late interaction, and encodes texts with these settings. */
#include "embed/late-interaction.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/text.h"

enum {
    CONFIG_MAX = 1 << 20,
    TOKENS_MAX = 1 << 17,
    QUERY_TOKENS = 32, /* as in ColBERT's own code */
};

/* ASCII punctuation, which older file formats skip by default. */
static const char punctuation[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

struct reader {
    const char *path;
    const struct inf_tokenizer *tok;
    struct interaction *it;
    struct inf_err *err;
};

/* Reads the object in the file @name of the model's directory; *ret is NULL if the file does not
 * exist. */
static int read_object(const struct reader *r, const char *name, json_t **ret)
{
    _cleanup_free_ char *file = path_join(r->path, name), *text = NULL;
    struct inf_err why = {};
    size_t len;
    int rc;

    *ret = NULL;
    if (!file)
        return err_set(r->err, ENOMEM, "out of memory");
    if (!path_exists(file))
        return 0;
    rc = file_read(file, CONFIG_MAX, &text, &len, r->err);
    if (rc < 0)
        return rc;
    rc = json_parse(text, len, ret, &why);
    return rc < 0 ? err_set(r->err, -rc, "%.64s: %.200s", name, why.text) : 0;
}

/* Reads a number of tokens; absent or null: 0. */
static int get_count(const struct reader *r, const json_t *object, const char *key,
                     uint32_t *ret_count)
{
    const json_t *value = json_object_get(object, key);
    const json_int_t n = json_integer_value(value);

    *ret_count = 0;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || n < 1 || n > TOKENS_MAX)
        return err_set(r->err, EBADMSG, "%s is not a number of tokens", key);
    *ret_count = (uint32_t)n;
    return 0;
}

static int32_t reader_find(const struct reader *r, const char *piece, size_t len)
{
    return inf_tokenizer_find(r->tok, piece, len);
}

/*
 * Sets the words of a role. If the first word, with or without the blanks after it, is the text of
 * one token, that token is the marker, and only the other words are put before the text. Otherwise
 * there is no marker, and all words are put before the text. If @inserted is true, the format
 * inserts ids before the text, and any token can be the marker. If @inserted is false, the format
 * puts words before the text, and only a token that was added to the tokenizer can be the marker.
 */
static int set_words(const struct reader *r, enum interaction_role role, const char *words,
                     bool inserted)
{
    const size_t n_word = words ? strcspn(words, " ") : 0;
    const size_t n_blank = words ? strspn(words + n_word, " ") : 0;
    const size_t lengths[] = {n_word + n_blank, n_word};
    const char *rest = words;

    r->it->roles[role].marker = -1;
    for (size_t i = 0; words && words[0] && i < ARRAY_SIZE(lengths); i++) {
        const int32_t id = reader_find(r, words, lengths[i]);

        if (id < 0 || (!inserted && !inf_tokenizer_token_flags(r->tok, id)))
            continue;
        r->it->roles[role].marker = id;
        rest = words + n_word + n_blank;
        break;
    }
    if (!rest || !rest[0])
        return 0;
    r->it->roles[role].words = strdup(rest);
    return r->it->roles[role].words ? 0 : err_set(r->err, ENOMEM, "out of memory");
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

/* Sets the tokens that are not compared. Words that are not tokens are ignored. @words NULL:
 * punctuation. */
static int set_skipped(const struct reader *r, const json_t *words)
{
    const size_t n = words ? json_array_size(words) : sizeof(punctuation) - 1;
    struct interaction *it = r->it;

    if (words && !json_is_array(words))
        return err_set(r->err, EBADMSG, "skiplist_words is not a list");
    it->skipped = NEW(int32_t, MAX(n, 1u));
    if (!it->skipped)
        return err_set(r->err, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *word = words ? json_array_get(words, i) : NULL;
        const int32_t id =
            word ? reader_find(r, json_string_value(word) ? json_string_value(word) : "",
                               json_string_length(word))
                 : reader_find(r, &punctuation[i], 1);

        if (words && !json_is_string(word))
            return err_set(r->err, EBADMSG, "skiplist_words has an entry that is not a text");
        if (id >= 0)
            it->skipped[it->n_skipped++] = id;
    }
    qsort(it->skipped, it->n_skipped, sizeof(*it->skipped), compare_ids);
    return 0;
}

/* Sets the token with which queries are padded to @n tokens: @name, or the tokenizer's mask token.
 * @seen: tokens of the query attend to the padding. */
static int set_filler(const struct reader *r, const char *name, uint32_t n, bool seen)
{
    const char *const names[] = {name ? name : "[MASK]", name ? name : "<mask>"};

    r->it->n_filled = n;
    r->it->filler_is_seen = seen;
    r->it->filler = -1;
    for (size_t i = 0; i < ARRAY_SIZE(names) && r->it->filler < 0; i++)
        r->it->filler = reader_find(r, names[i], strlen(names[i]));
    return r->it->filler >= 0 || n == 0
               ? 0
               : err_set(r->err, EOPNOTSUPP,
                         "queries are padded with %.32s, which is not in the vocabulary", names[0]);
}

/* --- the format of ColBERT's own code --- */

static int read_colbert(const struct reader *r)
{
    _cleanup_json_ json_t *meta = NULL;
    const char *query, *document;
    uint32_t n = 0;
    int rc = read_object(r, "artifact.metadata", &meta);

    if (rc < 0)
        return rc;
    query = json_string_value(json_object_get(meta, "query_token_id"));
    document = json_string_value(json_object_get(meta, "doc_token_id"));
    rc = set_words(r, INTERACTION_QUERY, query ? query : "[unused0]", true);
    if (rc == 0)
        rc = set_words(r, INTERACTION_DOCUMENT, document ? document : "[unused1]", true);
    if (rc == 0)
        rc = get_count(r, meta, "doc_maxlen", &r->it->roles[INTERACTION_DOCUMENT].max);
    if (rc == 0)
        rc = get_count(r, meta, "query_maxlen", &n);
    n = n > 0 ? n : QUERY_TOKENS;
    r->it->roles[INTERACTION_QUERY].max = n;
    if (rc == 0)
        rc = set_filler(r, NULL, n, json_is_true(json_object_get(meta, "attend_to_mask_tokens")));
    r->it->roles[INTERACTION_DOCUMENT].skips = true;
    if (rc < 0 || json_is_false(json_object_get(meta, "mask_punctuation")))
        return rc;
    return set_skipped(r, NULL);
}

/* --- the format of PyLate --- */

static int set_prefix(const struct reader *r, enum interaction_role role, const json_t *config,
                      const char *key, const char *prompt)
{
    const char *prefix = json_string_value(json_object_get(config, key));
    const char *words =
        json_string_value(json_object_get(json_object_get(config, "prompts"), prompt));
    _cleanup_str_ struct str both = {};

    prefix = prefix ? prefix : "";
    words = words ? words : "";
    if (text_starts_with(words, prefix))
        words += strlen(prefix);
    if (str_puts(&both, prefix) < 0 || str_puts(&both, words) < 0)
        return err_set(r->err, ENOMEM, "out of memory");
    return set_words(r, role, both.data, true);
}

static int read_pylate(const struct reader *r, const json_t *config)
{
    const json_t *skipped = json_object_get(config, "skiplist_words");
    const bool fills = !json_is_false(json_object_get(config, "do_query_expansion"));
    uint32_t n = 0;
    int rc = set_prefix(r, INTERACTION_QUERY, config, "query_prefix", "query");

    if (rc == 0)
        rc = set_prefix(r, INTERACTION_DOCUMENT, config, "document_prefix", "document");
    if (rc == 0)
        rc = get_count(r, config, "document_length", &r->it->roles[INTERACTION_DOCUMENT].max);
    if (rc == 0)
        rc = get_count(r, config, "query_length", &n);
    n = fills && n == 0 ? QUERY_TOKENS : n;
    r->it->roles[INTERACTION_QUERY].max = n;
    if (rc == 0 && fills)
        rc = set_filler(r, NULL, n,
                        json_is_true(json_object_get(config, "attend_to_expansion_tokens")));
    r->it->roles[INTERACTION_DOCUMENT].skips = true;
    return rc < 0 ? rc : set_skipped(r, json_is_null(skipped) ? NULL : skipped);
}

/* --- the format of sentence-transformers --- */

/* Finds the configuration file of the module that masks tokens; "": there is no such module. */
static int find_mask(const struct reader *r, char folder[128])
{
    _cleanup_free_ char *file = path_join(r->path, "modules.json"), *text = NULL, *object = NULL;
    _cleanup_json_ json_t *root = NULL;
    struct inf_err why = {};
    size_t len, i;
    json_t *module;
    int n;

    folder[0] = 0;
    if (!file)
        return err_set(r->err, ENOMEM, "out of memory");
    if (file_read(file, CONFIG_MAX, &text, &len, r->err) < 0)
        return -EBADMSG;
    n = asprintf(&object, "{\"modules\":%.*s}", (int)len, text);
    if (n < 0) {
        object = NULL;
        return err_set(r->err, ENOMEM, "out of memory");
    }
    if (json_parse(object, (size_t)n, &root, &why) < 0)
        return err_set(r->err, EBADMSG, "modules.json: %.200s", why.text);
    json_array_foreach(json_object_get(root, "modules"), i, module)
    {
        const char *type = json_string_value(json_object_get(module, "type"));
        const char *path = json_string_value(json_object_get(module, "path"));
        const char *dot = type ? strrchr(type, '.') : NULL;

        /* libinfer opens only folders with plain names. */
        if (dot && path && strcmp(dot, ".MultiVectorMask") == 0 && !strchr(path, '/') &&
            path[0] != '.' && strlen(path) < 64)
            snprintf(folder, 128, "%s/config.json", path);
    }
    return 0;
}

/* Sets the roles in which the tokens of `skipped` are not compared; by default this is only the
 * role of documents. */
static void set_tasks(struct interaction *it, const json_t *tasks)
{
    static const char *const names[] = {
        [INTERACTION_DOCUMENT] = "document", [INTERACTION_QUERY] = "query"};
    size_t i;
    json_t *task;

    it->roles[INTERACTION_DOCUMENT].skips = !json_is_array(tasks) && !json_is_string(tasks);
    for (unsigned role = 0; role < INTERACTION_N; role++) {
        if (json_is_string(tasks) && strcmp(json_string_value(tasks), names[role]) == 0)
            it->roles[role].skips = true;
        json_array_foreach(tasks, i, task)
        {
            if (json_is_string(task) && strcmp(json_string_value(task), names[role]) == 0)
                it->roles[role].skips = true;
        }
    }
}

static int read_mask(const struct reader *r)
{
    _cleanup_json_ json_t *mask = NULL;
    const json_t *words, *only;
    char folder[128];
    int rc = find_mask(r, folder);

    if (rc == 0 && folder[0])
        rc = read_object(r, folder, &mask);
    if (rc < 0)
        return rc;
    only = json_object_get(mask, "keep_only_token_ids");
    if (only && !json_is_null(only))
        return err_set(r->err, EOPNOTSUPP, "keep_only_token_ids is not supported");
    set_tasks(r->it, json_object_get(mask, "skiplist_tasks"));
    words = json_object_get(mask, "skiplist_words");
    return words && !json_is_null(words) ? set_skipped(r, words) : 0;
}

static int read_filling(const struct reader *r, const json_t *filling)
{
    const char *strategy = json_string_value(json_object_get(filling, "strategy"));
    const bool fixed = strategy && strcmp(strategy, "fixed") == 0;
    uint32_t n = 0;
    int rc;

    if (!filling || json_is_null(filling))
        return 0;
    if (!fixed && (!strategy || strcmp(strategy, "min") != 0))
        return err_set(r->err, EOPNOTSUPP, "query_expansion by \"%.32s\" is not supported",
                       strategy ? strategy : "?");
    rc = get_count(r, filling, "length", &n);
    if (rc < 0)
        return rc;
    if (fixed)
        r->it->roles[INTERACTION_QUERY].max = n;
    else if (r->it->roles[INTERACTION_QUERY].max > 0)
        r->it->roles[INTERACTION_QUERY].max = MAX(r->it->roles[INTERACTION_QUERY].max, n);
    return set_filler(r, json_string_value(json_object_get(filling, "token")), n,
                      json_is_true(json_object_get(filling, "attend")));
}

static int read_modules(const struct reader *r, const json_t *config)
{
    const json_t *prompts = json_object_get(config, "prompts");
    _cleanup_json_ json_t *model = NULL;
    int rc = read_object(r, "sentence_bert_config.json", &model);

    if (rc == 0)
        rc = set_words(r, INTERACTION_QUERY, json_string_value(json_object_get(prompts, "query")),
                       false);
    if (rc == 0)
        rc = set_words(r, INTERACTION_DOCUMENT,
                       json_string_value(json_object_get(prompts, "document")), false);
    if (rc == 0)
        rc = get_count(r, model, "document_length", &r->it->roles[INTERACTION_DOCUMENT].max);
    if (rc == 0)
        rc = get_count(r, model, "query_length", &r->it->roles[INTERACTION_QUERY].max);
    if (rc == 0)
        rc = read_filling(r, json_object_get(model, "query_expansion"));
    return rc < 0 ? rc : read_mask(r);
}

/* --- */

/* Sets n_lead to 1 if the tokenizer puts a token before every text. */
static int count_lead(const struct reader *r)
{
    struct inf_encoding none = {}, some = {};
    int rc = inf_tokenizer_encode_texts(r->tok, &(struct inf_encode_text){"", 0}, NULL,
                                        INF_ENCODE_ADD_SPECIAL, INF_CUT_NONE, 0, &none);

    if (rc == 0)
        rc = inf_tokenizer_encode_texts(r->tok, &(struct inf_encode_text){"a", 1}, NULL,
                                        INF_ENCODE_ADD_SPECIAL, INF_CUT_NONE, 0, &some);
    if (rc == 0 && none.n > 0 && some.n > 0)
        r->it->n_lead = none.ids[0] == some.ids[0];
    free(none.ids);
    free(some.ids);
    return rc < 0 ? err_set(r->err, ENOMEM, "out of memory") : 0;
}

static bool is_colbert(const json_t *config)
{
    const json_t *name = json_array_get(json_object_get(config, "architectures"), 0);

    return json_is_string(name) && strcmp(json_string_value(name), "HF_ColBERT") == 0;
}

int interaction_read(const char *path, json_t *prompts, const struct inf_tokenizer *tok,
                     struct interaction **ret, struct inf_err *reterr)
{
    const char *type = json_string_value(json_object_get(prompts, "model_type"));
    struct reader r = {path, tok, NEW(struct interaction, 1), reterr};
    _cleanup_json_ json_t *config = NULL;
    bool is_one = true;
    int rc;

    *ret = NULL;
    if (!r.it)
        return err_set(reterr, ENOMEM, "out of memory");
    rc = path_is_dir(path) ? read_object(&r, "config.json", &config) : 0;
    if (rc == 0 && type && strcmp(type, "ColBERT") == 0)
        rc = read_pylate(&r, prompts);
    else if (rc == 0 && type && strcmp(type, "MultiVectorEncoder") == 0)
        rc = read_modules(&r, prompts);
    else if (rc == 0 && is_colbert(config))
        rc = read_colbert(&r);
    else
        is_one = false;
    if (rc == 0 && is_one)
        rc = count_lead(&r);
    if (rc < 0 || !is_one)
        interaction_free(r.it);
    else
        *ret = r.it;
    return rc;
}

struct interaction *interaction_free(struct interaction *it)
{
    if (!it)
        return NULL;
    for (unsigned role = 0; role < INTERACTION_N; role++)
        free(it->roles[role].words);
    free(it->skipped);
    free(it);
    return NULL;
}

uint32_t interaction_max(const struct interaction *it, enum interaction_role role, uint32_t max)
{
    return it->roles[role].max > 0 ? MIN(it->roles[role].max, max) : max;
}

/* Inserts the marker into @e, and pads @e to @n tokens. */
static int put_around(const struct interaction *it, int32_t marker, size_t n,
                      struct inf_encoding *e)
{
    const size_t lead = MIN(it->n_lead, e->n), n_marker = marker >= 0;
    int32_t *ids;

    n = MAX(n, e->n + n_marker);
    ids = NEW(int32_t, MAX(n, 1u));
    if (!ids)
        return -ENOMEM;
    memcpy(ids, e->ids, lead * sizeof(*ids));
    if (n_marker)
        ids[lead] = marker;
    memcpy(ids + lead + n_marker, e->ids + lead, (e->n - lead) * sizeof(*ids));
    for (size_t i = e->n + n_marker; i < n; i++)
        ids[i] = it->filler;
    free(e->ids);
    *e = (struct inf_encoding){.ids = ids, .n = n};
    return 0;
}

int interaction_encode(const struct interaction *it, const struct inf_tokenizer *tok,
                       enum interaction_role role, const struct inf_encode_text *text,
                       enum inf_cut cut, uint32_t max, struct inf_encoding *ret_encoding,
                       size_t *ret_seen)
{
    const char *words = it->roles[role].words;
    const int32_t marker = it->roles[role].marker;
    const size_t filled = role == INTERACTION_QUERY ? MIN(it->n_filled, max) : 0;
    struct inf_encode_text whole = *text;
    _cleanup_str_ struct str both = {};
    struct inf_encoding e = {};
    size_t n;
    int r;

    max = interaction_max(it, role, max);
    if (words) {
        if (str_puts(&both, words) < 0 || str_append(&both, text->text, text->len) < 0)
            return -ENOMEM;
        whole = (struct inf_encode_text){both.data, both.len};
    }
    if (max <= (marker >= 0))
        return -E2BIG;
    r = inf_tokenizer_encode_texts(tok, &whole, NULL, INF_ENCODE_ADD_SPECIAL, cut,
                                   max - (marker >= 0), &e);
    if (r < 0)
        return r;
    n = e.n + (marker >= 0);
    r = put_around(it, marker, filled, &e);
    if (r < 0) {
        free(e.ids);
        return r;
    }
    *ret_encoding = e;
    *ret_seen = e.n > n && !it->filler_is_seen ? n : 0;
    return 0;
}

bool interaction_counts(const struct interaction *it, enum interaction_role role, int32_t id)
{
    return !it->roles[role].skips || it->n_skipped == 0 ||
           !bsearch(&id, it->skipped, it->n_skipped, sizeof(id), compare_ids);
}
