/* SPDX-License-Identifier: Apache-2.0 */
/* Replays tests/golden/tokenizers: token IDs and texts of the reference implementations. */
#include "lib/test.h"

#include <dirent.h>
#include <jansson.h>

#include "core/file.h"
#include "format/json.h"
#include "tokenizer/tokenizer.h"

static json_t *load(const char *path)
{
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, NULL);

    if (!j)
        fail_msg("%s: no JSON", path);
    return j;
}

/* Opens the tokenizer of @cases; returns NULL if it belongs to the data directory and is missing
 * there. */
static struct inf_tokenizer *open_for(const json_t *cases)
{
    const char *data = json_string_value(json_object_get(cases, "data"));
    const char *name = json_string_value(json_object_get(cases, "tokenizer"));
    const json_t *parts = json_object_get(cases, "parts");
    struct inf_tokenizer *tok = NULL;
    struct inf_err err;
    char path[4200];

    if (data) {
        const char *found = test_data(data);

        if (!found)
            return NULL;
        if (path_is_dir(found))
            ASSERT_OK_ERR(tokenizer_open_dir(found, &tok, &err), err);
        else
            ASSERT_OK_ERR(tokenizer_open_file(found, &tok, &err), err);
        return tok;
    }
    snprintf(path, sizeof(path), "%s/%s", test_golden("tokenizers"), name);
    if (parts) {
        json_t *whole = load(path);
        char *text;

        json_object_update(whole, (json_t *)parts);
        text = json_dumps(whole, JSON_COMPACT);
        ASSERT_OK_ERR(tokenizer_parse_json(text, strlen(text), NULL, 0, &tok, &err), err);
        free(text);
        json_decref(whole);
        return tok;
    }
    ASSERT_OK_ERR(tokenizer_open_file(path, &tok, &err), err);
    return tok;
}

static void check_ids(const char *file, size_t i, const struct inf_tokenizer *tok,
                      const json_t *text, const json_t *want, unsigned flags)
{
    int32_t *ids = NULL;
    size_t n = 0;

    if (!json_is_array(want))
        return;
    ASSERT_OK(inf_tokenizer_encode(tok, json_string_value(text), json_string_length(text), flags, 0,
                                   &ids, &n));
    if (n != json_array_size(want))
        fail_msg("%s case %zu flags %u: %zu ids, expected %zu", file, i, flags, n,
                 json_array_size(want));
    for (size_t k = 0; k < n; k++)
        if (ids[k] != (int32_t)json_integer_value(json_array_get(want, k)))
            fail_msg("%s case %zu flags %u: id %zu is %d", file, i, flags, k, ids[k]);
    free(ids);
}

/* Checks the decoded text, for all tokens at once and token by token. */
static void check_text(const char *file, size_t i, const struct inf_tokenizer *tok,
                       const json_t *want_ids, const json_t *want, bool stream)
{
    const size_t n = json_array_size(want_ids);
    int32_t *ids = calloc(n + 1, sizeof(*ids));
    struct inf_detok *d;
    const char *part;
    size_t len, total = 0, part_len;
    char *text, *streamed;

    if (!json_is_string(want)) {
        free(ids);
        return;
    }
    for (size_t k = 0; k < n; k++)
        ids[k] = (int32_t)json_integer_value(json_array_get(want_ids, k));
    ASSERT_OK(inf_tokenizer_decode(tok, ids, n, true, &text, &len));
    if (len != json_string_length(want) || memcmp(text, json_string_value(want), len) != 0)
        fail_msg("%s case %zu: '%s', expected '%s'", file, i, text, json_string_value(want));
    streamed = calloc(1, len + 64 * n + 64);
    ASSERT_OK(inf_detok_new(tok, true, &d));
    for (size_t k = 0; k <= n; k++) {
        if (k < n)
            ASSERT_OK(inf_detok_push(d, ids[k], &part, &part_len));
        else
            ASSERT_OK(inf_detok_flush(d, &part, &part_len));
        memcpy(streamed + total, part, part_len);
        total += part_len;
    }
    if (stream && !strstr(text, "\xef\xbf\xbd") &&
        (total != len || memcmp(streamed, text, len) != 0))
        fail_msg("%s case %zu: streamed '%s', expected '%s'", file, i, streamed, text);
    inf_detok_free(d);
    free(streamed);
    free(text);
    free(ids);
}

static size_t replay(const char *file, const char *path)
{
    json_t *root = load(path);
    const json_t *cases = json_object_get(root, "cases");
    struct inf_tokenizer *tok = open_for(root);
    size_t n = 0;

    for (; tok && n < json_array_size(cases); n++) {
        const json_t *row = json_array_get(cases, n);
        const json_t *text = json_array_get(row, 0), *ids = json_array_get(row, 1);
        const json_t *plain = json_array_get(row, 2);

        check_ids(file, n, tok, text, ids, INF_ENCODE_ADD_SPECIAL | INF_ENCODE_PARSE_SPECIAL);
        check_ids(file, n, tok, text, plain, 0);
        check_text(file, n, tok, json_is_array(ids) ? ids : plain, json_array_get(row, 3), true);
    }
    tokenizer_free(tok);
    json_decref(root);
    return n;
}

TEST(every_golden_text_has_its_ids_and_comes_back)
{
    DIR *d = opendir(test_golden("tokenizers"));
    struct dirent *e;
    size_t files = 0, cases = 0;

    assert_non_null(d);
    while ((e = readdir(d))) {
        char path[4400];

        if (!strstr(e->d_name, ".cases.json"))
            continue;
        snprintf(path, sizeof(path), "%s/%s", test_golden("tokenizers"), e->d_name);
        cases += replay(e->d_name, path);
        files++;
    }
    closedir(d);
    print_message("%zu texts, %zu tokenizers\n", cases, files);
    assert_true(files > 90);
}

/* The cases come from the test file that ports of BERT's tokenizer use. */
TEST(bert_agrees_with_the_published_cases)
{
    const char *path = test_data("tokenizers/bert/tokenizer_tests.json");
    const json_t *list;
    struct inf_tokenizer *tok;
    struct inf_err err;
    json_t *root;

    if (!path)
        skip();
    root = load(path);
    ASSERT_OK_ERR(tokenizer_open_file(test_data("tokenizers/bert/bert-vocab.txt"), &tok, &err),
                  err);
    list = json_object_get(root, "bert-base-uncased");
    assert_true(json_array_size(list) > 5);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        const json_t *ids = json_object_get(json_object_get(row, "encoded"), "input_ids");

        check_ids("bert", i, tok, json_object_get(row, "input"), ids, INF_ENCODE_ADD_SPECIAL);
        check_text("bert", i, tok, ids, json_object_get(row, "decoded_with_special"), false);
    }
    tokenizer_free(tok);
    json_decref(root);
}

RUN_TESTS(cmocka_unit_test(every_golden_text_has_its_ids_and_comes_back),
          cmocka_unit_test(bert_agrees_with_the_published_cases))
