/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the tokens of texts and pairs, special tokens included, with those of the reference
 * implementation (make_token_pairs.py). Also compares the tokens of truncated texts with those of
 * the whole texts.
 */
#include <errno.h>
#include <jansson.h>

#include "core/file.h"
#include "core/rng.h"
#include "lib/test.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/tokenizer.h"

/* Opens a tokenizer. @config: the text of tokenizer_config.json, or NULL. */
static struct inf_tokenizer *open_with(const json_t *entry, const char *config)
{
    const char *name = json_string_value(json_object_get(entry, "tokenizer"));
    struct inf_tokenizer *tok;
    struct inf_err err = {0};
    char path[4200], *text;
    json_t *root;

    snprintf(path, sizeof(path), "%s/%s.json", test_golden("tokenizers"), name);
    root = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(root);
    json_object_set(root, "post_processor", json_object_get(entry, "post_processor"));
    text = json_dumps(root, JSON_COMPACT);
    ASSERT_OK_ERR(
        tokenizer_parse_json(text, strlen(text), config, config ? strlen(config) : 0, &tok, &err),
        err);
    free(text);
    json_decref(root);
    return tok;
}

static struct inf_encode_text text_of(const json_t *j)
{
    return (struct inf_encode_text){json_string_value(j), json_string_length(j)};
}

static void check_case(const struct inf_tokenizer *tok, const json_t *row)
{
    const struct inf_encode_text text = text_of(json_array_get(row, 0));
    const struct inf_encode_text pair = text_of(json_array_get(row, 1));
    const size_t max = (size_t)json_integer_value(json_array_get(row, 2));
    const char *side = json_string_value(json_array_get(row, 3));
    const json_t *ids = json_array_get(row, 4), *types = json_array_get(row, 5);
    struct inf_encoding e;

    ASSERT_OK(inf_tokenizer_encode_texts(
        tok, &text, pair.text ? &pair : NULL, INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL,
        strcmp(side, "left") == 0 ? INF_CUT_START : INF_CUT_END, max, &e));
    if (e.n != json_array_size(ids))
        fail_msg("\"%s\", \"%s\", %zu, %s: %zu ids, expected %zu", text.text,
                 pair.text ? pair.text : "", max, side, e.n, json_array_size(ids));
    for (size_t i = 0; i < e.n; i++)
        if (e.ids[i] != json_integer_value(json_array_get(ids, i)) ||
            e.types[i] != json_integer_value(json_array_get(types, i)))
            fail_msg("\"%s\", \"%s\", %zu, %s: id %zu is %d of type %u", text.text,
                     pair.text ? pair.text : "", max, side, i, e.ids[i], e.types[i]);
    free(e.ids);
}

TEST(pairs_are_those_of_the_reference)
{
    json_t *list = json_load_file(test_golden("pairs.json"), 0, NULL);
    json_t *entry, *row;
    size_t i, j;

    assert_true(json_array_size(list) > 0);
    json_array_foreach(list, i, entry)
    {
        struct inf_tokenizer *tok = open_with(entry, NULL);

        json_array_foreach(json_object_get(entry, "cases"), j, row) check_case(tok, row);
        tokenizer_free(tok);
    }
    json_decref(list);
}

/* The last template of the golden file gives the first text (A) the type 1 and the second text (B)
 * the type 2. */
TEST(types_are_returned_where_the_tokenizer_lists_them)
{
    static const struct {
        const char *config;
        bool told;
    } table[] = {
        {"{}", true},
        {"{\"model_input_names\":[\"input_ids\",\"token_type_ids\"]}", true},
        {"{\"model_input_names\":[\"input_ids\",\"attention_mask\"]}", false},
    };
    json_t *list = json_load_file(test_golden("pairs.json"), 0, NULL);
    const struct inf_encode_text text = {"a wall", 6}, pair = {"a fort", 6};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct inf_tokenizer *tok = open_with(json_array_get(list, 2), table[i].config);
        struct inf_encoding e;
        bool any = false;

        ASSERT_OK(inf_tokenizer_encode_texts(tok, &text, &pair, INF_ENCODE_ADD_SPECIAL,
                                             INF_CUT_NONE, 0, &e));
        for (size_t j = 0; j < e.n; j++)
            any |= e.types[j] > 0;
        assert_int_equal(any, table[i].told);
        free(e.ids);
        tokenizer_free(tok);
    }
    json_decref(list);
}

TEST(texts_that_do_not_fit_and_may_not_be_cut_are_refused)
{
    json_t *list = json_load_file(test_golden("pairs.json"), 0, NULL);
    struct inf_tokenizer *tok = open_with(json_array_get(list, 0), NULL);
    const struct inf_encode_text text = {"the small fort guards the river", 31};
    struct inf_encoding e;

    assert_int_equal(
        inf_tokenizer_encode_texts(tok, &text, NULL, INF_ENCODE_ADD_SPECIAL, INF_CUT_NONE, 5, &e),
        -E2BIG);
    /* The limit leaves no room for the special tokens. */
    assert_int_equal(
        inf_tokenizer_encode_texts(tok, &text, NULL, INF_ENCODE_ADD_SPECIAL, INF_CUT_END, 2, &e),
        -E2BIG);
    ASSERT_OK(
        inf_tokenizer_encode_texts(tok, &text, NULL, INF_ENCODE_ADD_SPECIAL, INF_CUT_END, 3, &e));
    assert_int_equal(e.n, 3);
    free(e.ids);
    tokenizer_free(tok);
    json_decref(list);
}

/* By default the names of control tokens in a text are plain text. */
TEST(no_letters_become_a_control_token)
{
    static const struct {
        const char *name, *text;
    } table[] = {
        {"unigram", "a wall</s>a<s> fort </s>"},
        {"llama", "a wall</s>a<s> fort </s>"},
        {"wordpiece", "a wall[SEP]a [CLS] fort[PAD]"},
        {"bytes", "a wall</s>a<s> fort </s>"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_tokenizer *tok;
        struct inf_err err = {0};
        char path[4200];
        int32_t *ids;
        char *json;
        size_t n, len;

        snprintf(path, sizeof(path), "%s/%s.json", test_golden("tokenizers"), table[i].name);
        ASSERT_OK_ERR(file_read(path, 1 << 24, &json, &len, &err), err);
        ASSERT_OK_ERR(tokenizer_parse_json(json, len, NULL, 0, &tok, &err), err);
        ASSERT_OK(inf_tokenizer_encode(tok, table[i].text, strlen(table[i].text), 0, 0, &ids, &n));
        for (size_t j = 0; j < n; j++)
            if (tok->vocab.pieces[ids[j]].kind == PIECE_CONTROL)
                fail_msg("%s: id %zu is the control token %d", table[i].name, j, ids[j]);
        free(ids);
        free(json);
        tokenizer_free(tok);
    }
}

/* Makes a text of random words, numbers, punctuation, spaces and letters of several bytes. */
static char *random_text(struct rng *rng, size_t len)
{
    static const char *const parts[] = {" ",   " ",  " ",  " ",    "the", "wall",   "Bracket",
                                        "a",   "x1", "12", ",",    ". ",  "'s",     "\n",
                                        "  ",  "é",  "你", "🙂", "_",   "-",      "II",
                                        "end", "of", "ﬁ",  "İ",    "\t",  "e\u0301"};
    char *s = malloc(len + 16);
    size_t n = 0;

    while (n < len) {
        const char *p = parts[rng_u32(rng) % (sizeof(parts) / sizeof(parts[0]))];

        memcpy(s + n, p, strlen(p));
        n += strlen(p);
    }
    s[n] = 0;
    return s;
}

static void check_cuts(const char *name, const struct inf_tokenizer *tok)
{
    struct rng rng;

    rng_seed(&rng, 5);

    for (int i = 0; i < 60; i++) {
        char *s = random_text(&rng, 200 + (size_t)(rng_u32(&rng) % 20000));
        const struct inf_encode_text text = {s, strlen(s)};
        const size_t max = 1 + (size_t)(rng_u32(&rng) % 600);
        struct inf_encoding e;
        int32_t *ids;
        size_t n;

        ASSERT_OK(inf_tokenizer_encode(tok, s, text.len, 0, 0, &ids, &n));
        ASSERT_OK(inf_tokenizer_encode_texts(tok, &text, NULL, 0, INF_CUT_END, max, &e));
        if (e.n != (n < max ? n : max) || memcmp(e.ids, ids, e.n * sizeof(*ids)) != 0)
            fail_msg("%s: %zu bytes cut to %zu tokens differ from the whole", name, text.len, max);
        free(e.ids);
        free(ids);
        free(s);
    }
}

TEST(a_cut_is_the_beginning_of_the_whole)
{
    static const char *const names[] = {"wordpiece", "unigram", "bytes", "llama", "bpe-plain"};
    static const char *const real[] = {
        "tokenizers/all-MiniLM-L6-v2", "tokenizers/qwen2",
        "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3"};
    struct inf_tokenizer *tok;
    struct inf_err err = {0};
    char path[4200];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s.json", test_golden("tokenizers"), names[i]);
        ASSERT_OK_ERR(tokenizer_open_file(path, &tok, &err), err);
        check_cuts(names[i], tok);
        tokenizer_free(tok);
    }
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++) {
        const char *found = test_data(real[i]);

        if (!found)
            continue;
        if (path_is_dir(found))
            ASSERT_OK_ERR(tokenizer_open_dir(found, &tok, &err), err);
        else
            ASSERT_OK_ERR(tokenizer_open_file(found, &tok, &err), err);
        check_cuts(real[i], tok);
        tokenizer_free(tok);
    }
}

RUN_TESTS(cmocka_unit_test(pairs_are_those_of_the_reference),
          cmocka_unit_test(types_are_returned_where_the_tokenizer_lists_them),
          cmocka_unit_test(no_letters_become_a_control_token),
          cmocka_unit_test(texts_that_do_not_fit_and_may_not_be_cut_are_refused),
          cmocka_unit_test(a_cut_is_the_beginning_of_the_whole))
