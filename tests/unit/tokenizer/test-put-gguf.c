/* SPDX-License-Identifier: Apache-2.0 */

/* Writes tokenizers as GGUF keys. */

#include "lib/test.h"

#include "core/file.h"
#include "format/gguf/gguf.h"
#include "tokenizer/compare.h"
#include "tokenizer/put-gguf.h"
#include "tokenizer/put-json.h"
#include "tokenizer/tokenizer.h"

/* Writes a tokenizer of a GGUF file as tokenizer.json, and compares the tokens of texts. */
static void check_json(const struct inf_tokenizer *tok)
{
    struct inf_tokenizer *again;
    struct inf_err err;
    char *json, *config;

    ASSERT_OK_ERR(tokenizer_put_json(tok, "{{ messages }}", 14, &json, &config, &err), err);
    ASSERT_CONTAINS(config, "{{ messages }}");
    ASSERT_OK_ERR(tokenizer_parse_json(json, strlen(json), config, strlen(config), &again, &err),
                  err);
    assert_int_equal(tokenizer_compare(tok, again), 0);
    assert_int_equal(inf_tokenizer_adds_bos(tok), inf_tokenizer_adds_bos(again));
    assert_int_equal(inf_tokenizer_bos(tok), inf_tokenizer_bos(again));
    tokenizer_free(again);
    free(json);
    free(config);
}

/* Writes the tokenizer of a directory, and checks the model and the splitter that are written. */
static void check(const char *dir, const char *model, const char *pre)
{
    struct inf_tokenizer *tok, *again;
    struct gguf_out w = {0};
    struct gguf_str s;
    struct inf_err err;
    struct gguf *g;
    char *header;
    size_t n;

    if (!dir)
        return;
    if (path_is_dir(dir))
        ASSERT_OK_ERR(tokenizer_open_dir(dir, &tok, &err), err);
    else
        ASSERT_OK_ERR(tokenizer_open_file(dir, &tok, &err), err);
    n = inf_tokenizer_n_vocab(tok);
    ASSERT_OK_ERR(tokenizer_put_gguf(tok, (uint32_t)n + 3, &w, &err), err);
    ASSERT_OK(gguf_out_header(&w, &header, &n));
    ASSERT_OK_ERR(gguf_parse(header, n, &g, &err), err);
    assert_true(gguf_string(g, "tokenizer.ggml.model", &s));
    assert_true(s.len == strlen(model) && memcmp(s.data, model, s.len) == 0);
    assert_true(gguf_string(g, "tokenizer.ggml.pre", &s));
    if (s.len != strlen(pre) || memcmp(s.data, pre, s.len) != 0)
        fail_msg("%s: the splitter is %.*s, expected %s", dir, (int)s.len, s.data, pre);
    assert_int_equal(gguf_find(g, "tokenizer.ggml.tokens")->n, inf_tokenizer_n_vocab(tok) + 3);
    ASSERT_OK_ERR(tokenizer_open_gguf(g, &again, &err), err);
    if (inf_tokenizer_bos(tok) >= 0)
        assert_int_equal(inf_tokenizer_bos(tok), inf_tokenizer_bos(again));
    assert_int_equal(inf_tokenizer_adds_bos(tok), inf_tokenizer_adds_bos(again));
    check_json(again);
    tokenizer_free(again);
    gguf_close(g);
    tokenizer_free(tok);
    gguf_out_done(&w);
    free(header);
}

TEST(the_splitter_is_found)
{
    check(test_data("tokenizers/qwen2"), "gpt2", "qwen2");
    check(test_data("tokenizers/mistral/mistral_instruct_tokenizer_240323.model.v3"), "llama",
          "default");
    check(test_data("models/TinyStories-656K"), "llama", "default");
}

TEST(a_tokenizer_that_no_splitter_fits_is_refused)
{
    const char *dir = test_data("tokenizers/all-MiniLM-L6-v2");
    struct inf_tokenizer *tok;
    struct gguf_out w = {0};
    struct inf_err err;

    if (!dir)
        skip();
    ASSERT_OK_ERR(tokenizer_open_dir(dir, &tok, &err), err);
    ASSERT_ERROR(tokenizer_put_gguf(tok, inf_tokenizer_n_vocab(tok), &w, &err), EOPNOTSUPP);
    ASSERT_ERROR(tokenizer_put_gguf(tok, 7, &w, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "7 rows");
    tokenizer_free(tok);
    gguf_out_done(&w);
}

RUN_TESTS(cmocka_unit_test(the_splitter_is_found),
          cmocka_unit_test(a_tokenizer_that_no_splitter_fits_is_refused))
