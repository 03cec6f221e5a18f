/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the tokens that grammars force in texts which tokenizers of real models have encoded: they
 * must be the tokens of these texts.
 */
#include "unit/grammar/tiny.h"

#include "core/err.h"
#include "core/file.h"

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"city_name\":{\"type\":\"string\"},"
    "\"temperature_celsius\":{\"type\":\"integer\"},\"conditions\":{\"enum\":[\"partly cloudy\","
    "\"thunderstorm\"]},\"is_forecast\":{\"type\":\"boolean\"}},\"required\":[\"city_name\","
    "\"temperature_celsius\",\"conditions\",\"is_forecast\"],\"additionalProperties\":false}";

struct counts {
    unsigned n_steps, n_right, n_wrong; /* steps that generate the text; drafted tokens */
};

/* Looks for forced tokens after the first @i tokens of a text. Returns how many are those of the
 * text, and adds them to the counts. */
static size_t count_right(struct grammar_matcher *m, const int32_t *ids, size_t i, size_t n,
                          bool likely, struct counts *c)
{
    struct grammar_forced f;
    size_t k = 0;

    ASSERT_OK(grammar_matcher_forced(m, ids, (uint32_t)i, 16, &f));
    while (k < f.n && i + k < n && (likely || f.certainty[k] != GRAMMAR_LIKELY) &&
           f.tokens[k] == ids[i + k])
        k++;
    c->n_right += (unsigned)k;
    if (k < f.n && i + k < n && (likely || f.certainty[k] != GRAMMAR_LIKELY))
        c->n_wrong++;
    return k;
}

/* Looks for forced tokens after each token of @text, and compares them with the text. */
static struct counts follow(const char *dir, const char *text, bool likely)
{
    struct inf_tokenizer *tok;
    struct inf_grammar_vocab *vocab;
    struct grammar_matcher *m;
    struct inf_grammar *g;
    struct inf_err err = {0};
    struct counts c = {0};
    size_t n, n_skip;
    int32_t *ids;
    char line[300];

    /* Some tokenizers put a space before a text. */
    snprintf(line, sizeof(line), "\n%s", text);
    if (path_is_dir(dir))
        ASSERT_OK_ERR(tokenizer_open_dir(dir, &tok, &err), err);
    else
        ASSERT_OK_ERR(tokenizer_open_file(dir, &tok, &err), err);
    ASSERT_OK(inf_grammar_vocab_new(tok, &vocab));
    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_JSON_SCHEMA, schema, strlen(schema), &g, &err),
                  err);
    ASSERT_OK(inf_tokenizer_encode(tok, line, strlen(line), 0, 0, &ids, &n));
    ASSERT_OK(grammar_matcher_new(g, &m));
    n_skip = 0;
    for (size_t len = strlen(text), k = n; k-- > 0;)
        if ((len -= inf_tokenizer_token_bytes(tok, ids[k], NULL, 0)) == 0)
            n_skip = k;
    memmove(ids, ids + n_skip, (n - n_skip) * sizeof(*ids));
    n -= n_skip;
    ASSERT_OK(grammar_matcher_accept(m, ids[0]));
    for (size_t i = 1; i < n; c.n_steps++) {
        const size_t n_right = count_right(m, ids, i, n, likely, &c);

        for (size_t end = MIN(i + n_right + 1, n); i < end; i++)
            ASSERT_OK(grammar_matcher_accept(m, ids[i]));
    }
    assert_true(grammar_matcher_is_complete(m));
    free(ids);
    grammar_matcher_free(m);
    inf_grammar_unref(g);
    inf_grammar_vocab_unref(vocab);
    tokenizer_free(tok);
    return c;
}

TEST(the_tokens_of_json_are_found)
{
    static const char *const texts[] = {
        "{\"city_name\": \"Reykjav\xc3\xadk\", \"temperature_celsius\": -3, \"conditions\": "
        "\"partly cloudy\", \"is_forecast\": false}",
        "{\n  \"city_name\": \"Oslo\",\n  \"temperature_celsius\": 21,\n  \"conditions\": "
        "\"thunderstorm\",\n  \"is_forecast\": true\n}",
        "{\"city_name\":\"Oslo\",\"temperature_celsius\":21,\"conditions\":\"thunderstorm\","
        "\"is_forecast\":true}",
    };
    const char *const tokenizers[] = {
        "tokenizers/qwen2", "tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3"};

    for (size_t k = 0; k < ARRAY_SIZE(tokenizers); k++)
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
            const char *dir = test_data(tokenizers[k]);
            struct counts sure, all;

            if (!dir)
                skip();
            sure = follow(dir, texts[i], false);
            all = follow(dir, texts[i], true);
            /* Tokens of the only text that the grammar permits are never wrong. With likely white
             * space, the drafts have most of the text but the values. */
            assert_int_equal(sure.n_wrong, 0);
            assert_true(sure.n_right >= 11 && sure.n_steps <= 30);
            assert_true(all.n_wrong <= 1 && all.n_right >= 15 && all.n_steps <= 14);
        }
}

TEST(a_token_that_the_grammar_names_is_found)
{
    static const char text[] = "start: \"a\" <call> <tag> | \"bc\"";
    struct inf_tokenizer *tok = tiny_tokenizer();
    struct inf_grammar_vocab *vocab;
    struct grammar_matcher *m;
    struct inf_grammar *g;
    struct inf_err err = {0};
    struct grammar_forced f;
    const int32_t a = TINY_A;

    ASSERT_OK(inf_grammar_vocab_new(tok, &vocab));
    ASSERT_OK_ERR(inf_grammar_new(vocab, INF_GRAMMAR_LARK, text, strlen(text), &g, &err), err);
    ASSERT_OK(grammar_matcher_new(g, &m));
    ASSERT_OK(grammar_matcher_forced(m, NULL, 0, 16, &f));
    assert_int_equal(f.n, 0);
    ASSERT_OK(grammar_matcher_accept(m, TINY_A));
    ASSERT_OK(grammar_matcher_forced(m, &a, 1, 16, &f));
    assert_true(f.n == 1 && f.tokens[0] == TINY_CALL && f.certainty[0] == GRAMMAR_ONLY);
    ASSERT_OK(grammar_matcher_forced(m, &a, 1, 0, &f));
    assert_int_equal(f.n, 0);
    grammar_matcher_free(m);
    inf_grammar_unref(g);
    inf_grammar_vocab_unref(vocab);
    tokenizer_free(tok);
}

RUN_TESTS(cmocka_unit_test(the_tokens_of_json_are_found),
          cmocka_unit_test(a_token_that_the_grammar_names_is_found))
