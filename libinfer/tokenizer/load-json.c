/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the tokenizer.json of Hugging Face's library tokenizers 0.2x.
 *
 * The settings of truncation and padding are ignored. Unknown components are refused by name. As in
 * that library, an added token gets the id of the piece with the same text, or else the next free
 * id.
 */
#include "tokenizer/load-json.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "tokenizer/load-config.h"

const char *json_load_text(struct json_load *l, const json_t *j, size_t *ret_len)
{
    if (!json_is_string(j))
        return NULL;
    *ret_len = json_string_length(j);
    return arena_strndup(&l->tok->arena, json_string_value(j), *ret_len);
}

const char *json_load_type(const json_t *j)
{
    const json_t *type = json_object_get(j, "type");

    return json_is_string(type) ? json_string_value(type) : "";
}

bool json_load_bool(const json_t *j, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(j, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

int64_t json_load_uint(const json_t *j, int64_t max)
{
    const double d = json_is_number(j) ? json_number_value(j) : -1;

    return d >= 0 && d <= (double)max && d == (double)(int64_t)d ? (int64_t)d : -1;
}

int json_load_unsupported(struct json_load *l, const char *what, const json_t *j)
{
    const char *type = json_load_type(j);

    return err_set(l->reterr, ENOTSUP, "%s of type '%.60s' is not supported", what, type);
}

int json_load_pattern(struct json_load *l, const json_t *j, const char **ret_text, size_t *ret_len,
                      struct pattern **ret_pattern)
{
    const json_t *regex = json_object_get(j, "Regex"), *text = json_object_get(j, "String");

    /* The first versions of the library wrote a plain string. */
    if (json_is_string(j))
        text = j;
    if (json_is_string(regex))
        return pattern_compile(json_string_value(regex), json_string_length(regex), UNI_16,
                               ret_pattern, l->reterr);
    *ret_text = json_load_text(l, text, ret_len);
    return *ret_text
               ? 0
               : err_set(l->reterr, EINVAL, "a pattern is neither a \"String\" nor a \"Regex\"");
}

/* Returns the id of a pair [token, id]. */
static int32_t pair_id(const json_t *j)
{
    return (int32_t)json_load_uint(json_array_get(j, 1), INT32_MAX);
}

static int32_t pair_id_at(const json_t *list, size_t i)
{
    const int64_t id = json_load_uint(json_array_get(list, i), VOCAB_MAX_PIECES);

    return id < 0 ? -1 : (int32_t)id;
}

static int put_around(struct json_load *l, const int32_t *prefix, unsigned n_prefix,
                      const int32_t *suffix, unsigned n_suffix)
{
    struct inf_tokenizer *tok = l->tok;

    if (tok->n_prefix + n_prefix > PIPELINE_MAX_AROUND ||
        tok->n_suffix + n_suffix > PIPELINE_MAX_AROUND)
        return err_set(l->reterr, EINVAL, "the tokenizer adds too many tokens to a text");
    /* A later processor puts its tokens around the tokens of earlier processors. */
    memmove(tok->prefix + n_prefix, tok->prefix, tok->n_prefix * sizeof(*prefix));
    if (n_prefix)
        memcpy(tok->prefix, prefix, n_prefix * sizeof(*prefix));
    tok->n_prefix += n_prefix;
    for (unsigned i = 0; i < n_suffix; i++)
        tok->suffix[tok->n_suffix++] = suffix[i];
    return 0;
}

static int load_template(struct json_load *l, const json_t *j)
{
    const json_t *single = json_object_get(j, "single");
    const json_t *special = json_object_get(j, "special_tokens");
    int32_t ids[2][PIPELINE_MAX_AROUND];
    unsigned n[2] = {0, 0}, side = 0;

    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const json_t *name = json_object_get(json_object_get(piece, "SpecialToken"), "id");
        const json_t *sequence = json_object_get(json_object_get(piece, "Sequence"), "id");
        const json_t *list;

        if (json_is_string(sequence) && strcmp(json_string_value(sequence), "A") == 0 &&
            side++ == 0)
            continue;
        list = json_is_string(name)
                   ? json_object_get(json_object_get(special, json_string_value(name)), "ids")
                   : NULL;
        if (!json_is_array(list) || side > 1)
            return err_set(l->reterr, EINVAL, "a template is not a list of tokens around one text");
        for (size_t k = 0; k < json_array_size(list); k++) {
            const int64_t id = json_load_uint(json_array_get(list, k), VOCAB_MAX_PIECES);

            if (id < 0 || n[side] == PIPELINE_MAX_AROUND)
                return err_set(l->reterr, EINVAL, "a template has an invalid id or too many ids");
            ids[side][n[side]++] = (int32_t)id;
        }
    }
    if (side != 1)
        return err_set(l->reterr, EINVAL, "a template has no text");
    return put_around(l, ids[0], n[0], ids[1], n[1]);
}

/* Returns the ids of a special token in a template; NULL for other parts of a template. */
static const json_t *piece_ids(const json_t *root, const json_t *special)
{
    const json_t *name = json_object_get(special, "id");

    return json_is_string(name)
               ? json_object_get(json_object_get(json_object_get(root, "special_tokens"),
                                                 json_string_value(name)),
                                 "ids")
               : NULL;
}

static uint8_t piece_type(const json_t *j)
{
    const int64_t type = json_load_uint(json_object_get(j, "type_id"), UINT8_MAX);

    return type > 0 ? (uint8_t)type : 0;
}

/* Loads the template for pairs. A template that is not "tokens, A, tokens, B, tokens" is ignored:
 * pairs then have the default form. */
static int load_pair(struct json_load *l, const json_t *j)
{
    const json_t *pair = json_object_get(j, "pair");
    struct around_pair *p = &l->tok->pair;
    unsigned part = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(pair); i++) {
        const json_t *piece = json_array_get(pair, i);
        const json_t *special = json_object_get(piece, "SpecialToken");
        const json_t *sequence = json_object_get(piece, "Sequence");
        const json_t *ids = piece_ids(j, special);
        const char *name = json_string_value(json_object_get(sequence, "id"));

        for (size_t k = 0; r == 0 && k < json_array_size(ids); k++)
            r = pipeline_add_pair(l->tok, part, pair_id_at(ids, k), piece_type(special));
        if (!name)
            continue;
        if (part == 2 || strcmp(name, part == 0 ? "A" : "B") != 0)
            break;
        p->text_types[part++] = piece_type(sequence);
    }
    if (r < 0)
        return err_set(l->reterr, EINVAL, "a template of pairs has too many ids");
    p->there = part == 2;
    if (!p->there)
        *p = (struct around_pair){0};
    return 0;
}

/* Sets the tokens around pairs. BERT: "cls A sep B sep", where "B sep" has type 1. RoBERTa: "cls A
 * sep sep B sep". */
static int put_pair(struct inf_tokenizer *tok, int32_t cls, int32_t sep, bool bert)
{
    int r = pipeline_add_pair(tok, 0, cls, 0);

    for (unsigned i = 0; r == 0 && i < (bert ? 1 : 2); i++)
        r = pipeline_add_pair(tok, 1, sep, 0);
    if (r == 0)
        r = pipeline_add_pair(tok, 2, sep, bert);
    tok->pair.text_types[1] = bert;
    tok->pair.there = true;
    return r;
}

static int json_load_post(struct json_load *l, const json_t *j)
{
    const char *type = json_load_type(j);
    const json_t *list = json_object_get(j, "processors");
    int r = 0;

    if (strcmp(type, "ByteLevel") == 0)
        return 0;
    if (strcmp(type, "TemplateProcessing") == 0) {
        r = load_template(l, j);
        return r == 0 && !l->tok->pair.there ? load_pair(l, j) : r;
    }
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        const int32_t cls = pair_id(json_object_get(j, "cls"));
        const int32_t sep = pair_id(json_object_get(j, "sep"));

        if (cls < 0 || sep < 0)
            return err_set(l->reterr, EINVAL, "%s has no \"cls\" or no \"sep\"", type);
        r = put_around(l, &cls, 1, &sep, 1);
        if (r == 0 && !l->tok->pair.there)
            r = put_pair(l->tok, cls, sep, type[0] == 'B');
        return r;
    }
    if (strcmp(type, "Sequence") != 0 || !json_is_array(list))
        return json_load_unsupported(l, "post_processor", j);
    if (++l->depth > JSON_LOAD_DEPTH)
        return err_set(l->reterr, EINVAL, "\"Sequence\" is nested too deeply");
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = json_load_post(l, json_array_get(list, i));
    l->depth--;
    return r;
}

/* Returns the next free id. In Hugging Face's library that is the number of pieces. */
static uint32_t count_pieces(const struct vocab *v)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->n; i++)
        n += v->pieces[i].text != NULL;
    return n;
}

static int put_added(struct json_load *l, const char *text, size_t len, int32_t id, unsigned flags,
                     bool normalized)
{
    _cleanup_(pattern_work_freep) struct pattern_work *work = NULL;
    _cleanup_str_ struct str normal = {0}, spare = {0};
    struct inf_tokenizer *tok = l->tok;
    size_t zero = 0;
    char *copy;
    int r;

    if (!normalized)
        return added_put(&tok->added, text, (uint32_t)len, id, flags);
    r = pattern_work_new(&work);
    if (r == 0)
        r = str_append(&normal, text, len);
    if (r == 0)
        r = normalizer_run(&tok->norm, work, &normal, &spare, &zero);
    if (r < 0 || normal.len == 0)
        return r;
    copy = arena_strndup(&tok->arena, normal.data, normal.len);
    if (!copy || normal.len > VOCAB_MAX_PIECE)
        return -ENOMEM;
    return added_put(&tok->added_normal, copy, (uint32_t)normal.len, id, flags);
}

static int load_added(struct json_load *l, const json_t *j, uint32_t *next_id)
{
    struct vocab *v = &l->tok->vocab;
    const json_t *content = json_object_get(j, "content");
    const bool special = json_load_bool(j, "special", false);
    unsigned flags = special ? ADDED_SPECIAL : 0;
    enum piece_kind kind;
    const char *text;
    size_t len;
    int32_t id;
    int r;

    if (!json_is_string(content))
        return err_set(l->reterr, EINVAL, "an added token has no \"content\"");
    len = json_string_length(content);
    if (len == 0)
        return 0;
    id = vocab_find(v, json_string_value(content), len);
    if (id < 0) {
        id = (int32_t)(*next_id)++;
        r = vocab_put(v, (uint32_t)id, json_string_value(content), len, PIECE_NORMAL, l->reterr);
        if (r < 0)
            return r;
    }
    kind = !special ? PIECE_USER : id == l->unknown ? PIECE_UNKNOWN : PIECE_CONTROL;
    v->pieces[id].kind = (uint8_t)kind;
    flags |= json_load_bool(j, "lstrip", false) ? ADDED_LSTRIP : 0;
    flags |= json_load_bool(j, "rstrip", false) ? ADDED_RSTRIP : 0;
    flags |= json_load_bool(j, "single_word", false) ? ADDED_SINGLE_WORD : 0;
    /* Two pieces may have the same id. The text stored for the id may then be that of the other
     * piece. */
    text = arena_strndup(&l->tok->arena, json_string_value(content), len);
    if (!text)
        return -ENOMEM;
    return put_added(l, text, len, id, flags, json_load_bool(j, "normalized", !special));
}

static int load_all_added(struct json_load *l, const json_t *list)
{
    uint32_t next_id = count_pieces(&l->tok->vocab);
    int r = 0;

    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(l->reterr, EINVAL, "added_tokens is not a list");
    for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
        r = load_added(l, json_array_get(list, i), &next_id);
    return r;
}

static bool is_there(const json_t *j)
{
    return j && !json_is_null(j);
}

static int load_all(struct json_load *l, const json_t *root)
{
    const json_t *j;
    int r;

    r = json_load_model(l, json_object_get(root, "model"));
    j = json_object_get(root, "normalizer");
    if (r == 0 && is_there(j))
        r = json_load_normalizer(l, j);
    j = json_object_get(root, "pre_tokenizer");
    if (r == 0 && is_there(j))
        r = json_load_splitter(l, j);
    j = json_object_get(root, "post_processor");
    if (r == 0 && is_there(j))
        r = json_load_post(l, j);
    j = json_object_get(root, "decoder");
    l->tok->dec.join_spaces = !is_there(j);
    if (r == 0 && is_there(j))
        r = json_load_decoder(l, j);
    return r < 0 ? r : load_all_added(l, json_object_get(root, "added_tokens"));
}

int tokenizer_load_json(const char *json, size_t len, const struct config *config,
                        struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NEW(struct inf_tokenizer, 1);
    struct json_load l = {.tok = tok, .reterr = reterr, .unknown = -1};
    _cleanup_json_ json_t *root = NULL;
    int r;

    if (!tok)
        return -ENOMEM;
    pipeline_init(tok);
    r = json_text_parse(json, len, JSON_TEXT_DUPLICATES | JSON_TEXT_BIG_INTS, "tokenizer.json",
                        &root, reterr);
    if (r == 0)
        r = load_all(&l, root);
    if (r == 0)
        r = config_apply(config, tok, reterr);
    if (r == 0)
        r = pipeline_finish(tok);
    if (r == 0)
        r = config_mark_eog(config, tok);
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory, or too many steps");
    if (r < 0)
        return r;
    *ret_tok = STEAL(tok);
    return 0;
}

int tokenizer_parse_json(const char *json, size_t len, const char *config, size_t config_len,
                         struct inf_tokenizer **ret_tok, struct inf_err *reterr)
{
    _cleanup_(config_done) struct config c = {0};
    int r = 0;

    if (config)
        r = config_parse(&c, CONFIG_TOKENIZER, config, config_len, reterr);
    return r < 0 ? r : tokenizer_load_json(json, len, &c, ret_tok, reterr);
}
