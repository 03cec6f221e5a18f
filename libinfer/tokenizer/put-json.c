/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the vocabulary, the merges and the special tokens of a GGUF file's tokenizer as
 * tokenizer.json.
 *
 * GGUF files have merges with byte-level BPE, and scores with BPE of SentencePiece. tokenizer.json
 * has only merges, so merges are made from the scores: every way in which two pieces form a piece,
 * in the order of the scores of the results. The converters of transformers do the same. The new
 * files are read again, and both tokenizers encode sample texts.
 */
#include "tokenizer/put-json.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "format/json.h"
#include "tokenizer/compare.h"
#include "tokenizer/pipeline.h"

#define SPACE "\xe2\x96\x81" /* U+2581, which stands for a space */

/* The limit of the bytes of a piece. Finding the ways to form it takes time in proportion to their
 * square. */
#define PIECE_MAX 512u

/* A way in which two pieces form a piece. */
struct way {
    const struct piece *whole;
    uint32_t left; /* bytes of the left piece */
    int32_t left_id, right_id;
    double score; /* of the result */
};

struct ways {
    struct way *items; /* [n] */
    size_t n, cap;
};

/* Returns whether a piece can be a part or the result of a merge. User-defined pieces cannot: they
 * are added tokens, which are cut out of a text before its pieces are merged. */
static bool is_mergeable(const struct piece *p)
{
    return p && p->kind == PIECE_NORMAL;
}

static int32_t find_mergeable(const struct vocab *v, const char *text, size_t len)
{
    const int32_t id = vocab_find(v, text, len);

    return is_mergeable(vocab_at(v, id)) ? id : -1;
}

static int ways_add(struct ways *w, const struct vocab *v, int32_t id)
{
    const struct piece *p = vocab_at(v, id);

    if (p->len > PIECE_MAX)
        return -EOPNOTSUPP;
    for (uint32_t i = 1; i < p->len; i++) {
        /* Pieces are cut between characters only. */
        if (((unsigned char)p->text[i] & 0xc0) == 0x80)
            continue;
        const int32_t left = find_mergeable(v, p->text, i);
        const int32_t right = left < 0 ? -1 : find_mergeable(v, p->text + i, p->len - i);

        if (right < 0)
            continue;
        if (ARRAY_GROW(w->items, w->cap, w->n + 1) < 0)
            return -ENOMEM;
        w->items[w->n++] = (struct way){p, i, left, right, vocab_score(v, id)};
    }
    return 0;
}

/* Orders ways as transformers does: by the score, then by the ids of the result and of the parts.
 */
static int by_score(const void *a, const void *b)
{
    const struct way *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->whole != y->whole)
        return x->whole < y->whole ? -1 : 1;
    if (x->left_id != y->left_id)
        return x->left_id < y->left_id ? -1 : 1;
    return x->right_id < y->right_id ? -1 : x->right_id > y->right_id;
}

/* Appends "left right". Returns -EOPNOTSUPP if a part has a space or is not valid UTF-8. */
static int merges_add(json_t *to, const char *text, uint32_t left, uint32_t len)
{
    json_t *line;

    if (memchr(text, ' ', len))
        return -EOPNOTSUPP;
    line = json_sprintf("%.*s %.*s", (int)left, text, (int)(len - left), text + left);
    return line && json_array_append_new(to, line) == 0 ? 0 : -EOPNOTSUPP;
}

static int put_ways(const struct inf_tokenizer *tok, json_t *to)
{
    struct ways w = {0};
    int r = 0;

    for (int32_t i = 0; r == 0 && i < (int32_t)tok->vocab.n; i++)
        if (is_mergeable(vocab_at(&tok->vocab, i)))
            r = ways_add(&w, &tok->vocab, i);
    if (w.n > 0)
        qsort(w.items, w.n, sizeof(*w.items), by_score);
    for (size_t i = 0; r == 0 && i < w.n; i++)
        r = merges_add(to, w.items[i].whole->text, w.items[i].left, w.items[i].whole->len);
    free(w.items);
    return r;
}

/* Copies the lines of the file. transformers refuses a merge unless its parts and its result are
 * pieces. */
static int put_lines(const struct inf_tokenizer *tok, json_t *to)
{
    const struct gguf_value *lines = tok->bpe.lines;
    const struct vocab *v = &tok->vocab;
    char whole[PIECE_MAX];

    for (uint64_t i = 0; lines && i < lines->n; i++) {
        const struct gguf_str s = gguf_string_at(lines, i);
        const char *space = memchr(s.data, ' ', s.len);
        const size_t left = space ? (size_t)(space - s.data) : 0;

        if (!space || s.len - 1 > sizeof(whole) || memchr(space + 1, ' ', s.len - left - 1))
            return -EOPNOTSUPP;
        memcpy(whole, s.data, left);
        memcpy(whole + left, space + 1, s.len - left - 1);
        if (vocab_find(v, whole, s.len - 1) < 0 || vocab_find(v, whole, left) < 0 ||
            vocab_find(v, space + 1, s.len - left - 1) < 0)
            return -EOPNOTSUPP;
        if (json_array_append_new(to, json_stringn(s.data, s.len)) < 0)
            return -EOPNOTSUPP;
    }
    return 0;
}

/* Lists the pieces. Unused tokens of byte-level BPE only fill the vocabulary, and are left out. */
static int put_vocab(const struct inf_tokenizer *tok, json_t *to)
{
    for (int32_t i = 0; i < (int32_t)tok->vocab.n; i++) {
        const struct piece *p = vocab_at(&tok->vocab, i);

        if (p && (p->kind != PIECE_UNUSED || tok->model == MODEL_SPM) &&
            json_object_setn_new(to, p->text, p->len, json_integer(i)) < 0)
            return -EOPNOTSUPP;
    }
    return 0;
}

static json_t *piece_json(const struct inf_tokenizer *tok, int32_t id)
{
    const struct piece *p = vocab_at(&tok->vocab, id);

    return p ? json_stringn(p->text, p->len) : json_null();
}

static int32_t unknown_of(const struct inf_tokenizer *tok)
{
    return tok->model == MODEL_SPM ? tok->spm.unknown : -1;
}

static int put_model(const struct inf_tokenizer *tok, json_t *to)
{
    const bool spm = tok->model == MODEL_SPM;
    json_t *vocab = json_object(), *merges = json_array();
    int r = put_vocab(tok, vocab);

    if (r == 0)
        r = spm ? put_ways(tok, merges) : put_lines(tok, merges);
    json_object_set_new(
        to, "model",
        json_pack("{s:s, s:n, s:o, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                  "unk_token", piece_json(tok, unknown_of(tok)), "continuing_subword_prefix",
                  "end_of_word_suffix", "fuse_unk", spm, "byte_fallback", spm, "ignore_merges",
                  !spm && tok->bpe.ignore_merges, "vocab", vocab, "merges", merges));
    return r;
}

static int put_added(const struct inf_tokenizer *tok, json_t *to)
{
    json_t *list = json_array();

    json_object_set_new(to, "added_tokens", list);
    for (uint32_t i = 0; i < tok->added.n; i++) {
        const struct added_token *t = &tok->added.tokens[i];
        json_t *content = piece_json(tok, t->id);

        if (!json_is_string(content)) {
            json_decref(content);
            return -EOPNOTSUPP;
        }
        json_array_append_new(list, json_pack("{s:i, s:o, s:b, s:b, s:b, s:b, s:b}", "id",
                                              (int)t->id, "content", content, "single_word",
                                              t->flags & ADDED_SINGLE_WORD ? 1 : 0, "lstrip",
                                              t->flags & ADDED_LSTRIP ? 1 : 0, "rstrip",
                                              t->flags & ADDED_RSTRIP ? 1 : 0, "normalized", 0,
                                              "special", t->flags & ADDED_SPECIAL ? 1 : 0));
    }
    return 0;
}

/* ---- steps ---- */

/* BPE on bytes: texts are split by an expression, and bytes become characters. */
static int put_byte_steps(const struct inf_tokenizer *tok, json_t *to)
{
    const struct splitter *s = &tok->split;
    const char *pattern = s->n == 2 && s->steps[0].kind == SPLIT_FAST &&
                                  s->steps[1].kind == SPLIT_BYTES && tok->norm.n == 0
                              ? split_fast_pattern(s->steps[0].fast)
                              : NULL;

    if (!pattern || tok->style != STYLE_BYTES)
        return -EOPNOTSUPP;
    json_object_set_new(to, "normalizer", json_null());
    json_object_set_new(to, "pre_tokenizer",
                        json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b, s:b}]}",
                                  "type", "Sequence", "pretokenizers", "type", "Split", "pattern",
                                  "Regex", pattern, "behavior", "Isolated", "invert", 0, "type",
                                  "ByteLevel", "add_prefix_space", 0, "trim_offsets", 0,
                                  "use_regex", 0));
    json_object_set_new(to, "decoder",
                        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                                  1, "trim_offsets", 1, "use_regex", 1));
    return 0;
}

/* BPE of SentencePiece: spaces become U+2581. */
static int put_space_steps(const struct inf_tokenizer *tok, json_t *to)
{
    const struct norm_step *st = tok->norm.n == 1 ? &tok->norm.steps[0] : NULL;
    json_t *normalizers, *decoders;

    if (!st || st->kind != NORM_SPM || st->merge_spaces || st->suffix || st->map.n_units > 0)
        return -EOPNOTSUPP;
    normalizers = json_pack("[{s:s, s:{s:s}, s:s}]", "type", "Replace", "pattern", "String", " ",
                            "content", SPACE);
    decoders = json_pack("[{s:s, s:{s:s}, s:s}, {s:s}, {s:s}]", "type", "Replace", "pattern",
                         "String", SPACE, "content", " ", "type", "ByteFallback", "type", "Fuse");
    if (st->prefix) {
        json_array_insert_new(normalizers, 0,
                              json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE));
        json_array_append_new(decoders, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                                  "content", " ", "start", 1, "stop", 0));
    }
    json_object_set_new(to, "normalizer",
                        json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", normalizers));
    json_object_set_new(to, "pre_tokenizer", json_null());
    json_object_set_new(to, "decoder",
                        json_pack("{s:s, s:o}", "type", "Sequence", "decoders", decoders));
    return 0;
}

/* Appends tokens to a template, and describes them. */
static void put_specials(const struct inf_tokenizer *tok, const int32_t *ids, unsigned n,
                         json_t *template, json_t *specials)
{
    for (unsigned i = 0; i < n; i++) {
        json_t *name = piece_json(tok, ids[i]);

        if (json_is_string(name)) {
            json_array_append_new(
                template, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", name, "type_id", 0));
            json_object_set_new(
                specials, json_string_value(name),
                json_pack("{s:O, s:[i], s:[O]}", "id", name, "ids", (int)ids[i], "tokens", name));
        }
        json_decref(name);
    }
}

/* Describes the tokens around a text, and around two texts. */
static void put_around(const struct inf_tokenizer *tok, json_t *to)
{
    json_t *single = json_array(), *pair = json_array(), *specials = json_object();

    if (tok->n_prefix + tok->n_suffix == 0) {
        json_object_set_new(to, "post_processor", json_null());
    } else {
        json_t *const templates[] = {single, pair, pair};

        for (size_t i = 0; i < ARRAY_SIZE(templates); i++) {
            put_specials(tok, tok->prefix, tok->n_prefix, templates[i], specials);
            json_array_append_new(templates[i], json_pack("{s:{s:s, s:i}}", "Sequence", "id",
                                                          i == 2 ? "B" : "A", "type_id", i == 2));
            put_specials(tok, tok->suffix, tok->n_suffix, templates[i], specials);
        }
        json_object_set_new(to, "post_processor",
                            json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing",
                                      "single", single, "pair", pair, "special_tokens", specials));
    }
    json_decref(single);
    json_decref(pair);
    json_decref(specials);
}

/* ---- files ---- */

static bool is_around(const int32_t *ids, unsigned n, int32_t id)
{
    return id >= 0 && n == 1 && ids[0] == id;
}

static char *make_config(const struct inf_tokenizer *tok, const char *template, size_t len)
{
    _cleanup_json_ json_t *config =
        json_pack("{s:s, s:b, s:b, s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                  "clean_up_tokenization_spaces", 0, "add_bos_token",
                  is_around(tok->prefix, tok->n_prefix, tok->bos), "add_eos_token",
                  is_around(tok->suffix, tok->n_suffix, tok->eos));
    const struct {
        const char *key;
        int32_t id;
    } tokens[] = {{"bos_token", tok->bos},
                  {"eos_token", tok->eos},
                  {"pad_token", tok->pad},
                  {"unk_token", unknown_of(tok)}};

    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++)
        if (vocab_at(&tok->vocab, tokens[i].id))
            json_object_set_new(config, tokens[i].key, piece_json(tok, tokens[i].id));
    if (template)
        json_object_set_new(config, "chat_template", json_stringn(template, len));
    return config ? json_dumps(config, JSON_INDENT(2)) : NULL;
}

static int make_json(const struct inf_tokenizer *tok, char **ret_json)
{
    _cleanup_json_ json_t *to =
        json_pack("{s:s, s:n, s:n}", "version", "1.0", "truncation", "padding");
    int r;

    if (!to)
        return -ENOMEM;
    if (tok->model != MODEL_BPE && tok->model != MODEL_SPM)
        return -EOPNOTSUPP;
    r = put_added(tok, to);
    if (r == 0)
        r = tok->model == MODEL_SPM ? put_space_steps(tok, to) : put_byte_steps(tok, to);
    if (r < 0)
        return r;
    put_around(tok, to);
    r = put_model(tok, to);
    if (r < 0)
        return r;
    *ret_json = json_dumps(to, JSON_COMPACT);
    return *ret_json ? 0 : -ENOMEM;
}

/* Reads the texts again, and compares the tokens of sample texts. */
static int check_json(const struct inf_tokenizer *tok, const char *json, const char *config,
                      struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *again = NULL;
    int r = tokenizer_parse_json(json, strlen(json), config, strlen(config), &again, reterr);

    if (r < 0)
        return r;
    r = tokenizer_compare(tok, again);
    return r < 0 ? err_set(reterr, -r, "its tokenizer.json would give other tokens") : 0;
}

int tokenizer_put_json(const struct inf_tokenizer *tok, const char *template, size_t template_len,
                       char **ret_json, char **ret_config, struct inf_err *reterr)
{
    _cleanup_free_ char *json = NULL;
    _cleanup_free_ char *config = make_config(tok, template, template_len);
    int r = make_json(tok, &json);

    if (r == 0 && !config)
        r = -ENOMEM;
    if (r == -EOPNOTSUPP)
        return err_set(reterr, EOPNOTSUPP, "tokenizer.json cannot hold this tokenizer");
    if (r < 0)
        return err_set(reterr, -r, "the tokenizer: %s", strerror(-r));
    r = check_json(tok, json, config, reterr);
    if (r < 0)
        return r;
    *ret_json = STEAL(json);
    *ret_config = STEAL(config);
    return 0;
}
