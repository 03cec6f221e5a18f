/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <errno.h>
#include <time.h>

#include "core/clock.h"
#include "tokenizer/tokenizer.h"

static struct inf_tokenizer *open_golden(const char *name)
{
    struct inf_tokenizer *tok;
    struct inf_err err;
    char path[4200];

    snprintf(path, sizeof(path), "%s/%s", test_golden("tokenizers"), name);
    ASSERT_OK_ERR(tokenizer_open_file(path, &tok, &err), err);
    return tok;
}

static int parse(const char *json, struct inf_err *err)
{
    struct inf_tokenizer *tok = NULL;
    const int r = tokenizer_parse_json(json, strlen(json), NULL, 0, &tok, err);

    tokenizer_free(tok);
    return r;
}

TEST(chosen_special_tokens_are_shown)
{
    struct inf_tokenizer *tok = open_golden("llama.json");
    const int32_t bos = inf_tokenizer_find(tok, "<s>", 3), eos = inf_tokenizer_find(tok, "</s>", 4);
    const char *part;
    struct inf_detok *d;
    size_t len;

    assert_true(bos >= 0 && eos >= 0 && bos != eos);
    ASSERT_OK(inf_detok_new(tok, false, &d));
    ASSERT_OK(inf_detok_show(d, &bos, 1));
    ASSERT_OK(inf_detok_show(d, &eos, 1)); /* replaces the list */
    ASSERT_OK(inf_detok_push(d, bos, &part, &len));
    assert_int_equal(len, 0);
    ASSERT_OK(inf_detok_push(d, eos, &part, &len));
    ASSERT_STREQ(part, inf_tokenizer_token_text(tok, eos, &len));
    inf_detok_free(d);
    tokenizer_free(tok);
}

TEST(half_a_code_point_never_leaves)
{
    static const char text[] = "a\xf0\x9f\x99\x82\xe4\xbd\xa0!";
    struct inf_tokenizer *tok = open_golden("base.json");
    const char *part;
    struct inf_detok *d;
    char all[64] = "";
    int32_t ids[16];
    size_t len, n = 0;

    for (size_t i = 0; text[i]; i++) {
        char name[8];

        snprintf(name, sizeof(name), "<0x%02X>", (unsigned char)text[i]);
        ids[n++] = inf_tokenizer_find(tok, name, 6);
    }
    tokenizer_free(tok);
    tok = open_golden("llama.json");
    /* In this vocabulary byte tokens count as special tokens. */
    ASSERT_OK(inf_detok_new(tok, true, &d));
    for (size_t i = 0; i < n; i++) {
        ASSERT_OK(inf_detok_push(d, ids[i], &part, &len));
        if (i == 1 || i == 2 || i == 3)
            assert_int_equal(len, 0);
        strcat(all, part);
    }
    ASSERT_STREQ(all, text);
    /* The text ends after the first of two bytes. */
    ASSERT_OK(inf_detok_push(d, ids[5], &part, &len));
    assert_int_equal(len, 0);
    ASSERT_OK(inf_detok_flush(d, &part, &len));
    ASSERT_STREQ(part, "\xef\xbf\xbd");
    inf_detok_free(d);
    tokenizer_free(tok);
}

TEST(a_reply_keeps_its_space_after_a_prompt)
{
    struct inf_tokenizer *tok = open_golden("llama.json");
    int32_t *ids;
    const char *part;
    struct inf_detok *d;
    size_t n, len;

    ASSERT_OK(inf_tokenizer_encode(tok, "the", 3, 0, 0, &ids, &n));
    ASSERT_OK(inf_detok_new(tok, false, &d));
    ASSERT_OK(inf_detok_push(d, ids[0], &part, &len));
    assert_true(len > 0 && part[0] != ' ');
    ASSERT_OK(inf_detok_prime(d, ids, n));
    ASSERT_OK(inf_detok_push(d, ids[0], &part, &len));
    assert_true(len > 0 && part[0] == ' ');
    inf_detok_free(d);
    free(ids);
    tokenizer_free(tok);
}

TEST(special_tokens_are_hidden_and_found_when_asked)
{
    struct inf_tokenizer *tok = open_golden("llama.json");
    const int32_t eos = inf_tokenizer_find(tok, "</s>", 4);
    int32_t *ids;
    size_t n, len;
    char *text;

    assert_int_equal(inf_tokenizer_eos(tok), eos);
    assert_true(inf_tokenizer_token_flags(tok, eos) & INF_TOKEN_SPECIAL);
    assert_true(inf_tokenizer_token_flags(tok, eos) & INF_TOKEN_EOG);
    ASSERT_OK(inf_tokenizer_encode(tok, "</s>", 4, INF_ENCODE_PARSE_SPECIAL, 0, &ids, &n));
    assert_int_equal(n, 1);
    ASSERT_OK(inf_tokenizer_decode(tok, ids, n, false, &text, &len));
    assert_int_equal(len, 0);
    free(text);
    ASSERT_OK(inf_tokenizer_decode(tok, ids, n, true, &text, &len));
    ASSERT_STREQ(text, "</s>");
    free(text);
    free(ids);
    ASSERT_OK(inf_tokenizer_encode(tok, "</s>", 4, 0, 0, &ids, &n));
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] != eos);
    free(ids);
    ASSERT_ERROR(inf_tokenizer_decode(tok, &(int32_t){1 << 20}, 1, true, &text, &len), EINVAL);
    tokenizer_free(tok);
}

TEST(token_bytes_are_what_a_token_adds)
{
    struct inf_tokenizer *tok = open_golden("llama.json");
    const int32_t space = inf_tokenizer_find(tok, "▁", 3),
                  byte = inf_tokenizer_find(tok, "<0xE4>", 6);
    unsigned char buf[4];
    size_t len;

    assert_int_equal(inf_tokenizer_token_bytes(tok, space, buf, sizeof(buf)), 1);
    assert_int_equal(buf[0], ' ');
    assert_int_equal(inf_tokenizer_token_bytes(tok, byte, buf, sizeof(buf)), 1);
    assert_int_equal(buf[0], 0xe4);
    assert_int_equal(inf_tokenizer_token_bytes(tok, -1, buf, sizeof(buf)), 0);
    assert_null(inf_tokenizer_token_text(tok, 1 << 20, &len));
    tokenizer_free(tok);
    tok = open_golden("bytes.json");
    assert_int_equal(inf_tokenizer_token_bytes(tok, inf_tokenizer_find(tok, "Ġ", 2), buf, 4), 1);
    assert_int_equal(buf[0], ' ');
    tokenizer_free(tok);
}

TEST(bad_bytes_are_read_as_replacement_characters)
{
    struct inf_tokenizer *tok = open_golden("bytes.json");
    int32_t *a, *b;
    size_t n, m;

    ASSERT_OK(inf_tokenizer_encode(tok, "a\xff\xe4\xbd", 4, 0, 0, &a, &n));
    ASSERT_OK(inf_tokenizer_encode(tok, "a\xef\xbf\xbd\xef\xbf\xbd", 7, 0, 0, &b, &m));
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n * sizeof(*a));
    free(a);
    free(b);
    tokenizer_free(tok);
}

/* A quadratic algorithm would take minutes for these texts. */
TEST(long_texts_take_linear_time)
{
    static const char *const names[] = {"bytes.json",       "bytes-noregex.json", "llama.json",
                                        "unigram.json",     "wordpiece.json",     "sp-bpe.model",
                                        "sp-unigram.model", "bpe-affixes.json"};
    static const char *const units[] = {"a", " ", "\n", "ab ", "\u0301", "1", "你", "<"};
    const size_t size = 200000;
    char *text = malloc(size + 8);
    const uint64_t start = clock_usec();

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct inf_tokenizer *tok = open_golden(names[i]);

        for (size_t k = 0; k < sizeof(units) / sizeof(*units); k++) {
            const size_t n_unit = strlen(units[k]);
            int32_t *ids;
            size_t n;

            for (size_t j = 0; j < size; j += n_unit)
                memcpy(text + j, units[k], n_unit);
            ASSERT_OK(inf_tokenizer_encode(tok, text, size / n_unit * n_unit, 0, 0, &ids, &n));
            free(ids);
            ASSERT_ERROR(inf_tokenizer_encode(tok, "a b c d e f", 11, 0, 3, &ids, &n), E2BIG);
        }
        tokenizer_free(tok);
    }
    free(text);
    assert_true(clock_usec() - start < 60 * 1000000u);
}

/* Returns the token with the longest text. */
static size_t longest_piece(const struct inf_tokenizer *tok, char *buf, size_t size)
{
    int32_t longest = 0;
    size_t max = 0;

    for (int32_t id = 0; id < (int32_t)inf_tokenizer_n_vocab(tok); id++) {
        const size_t n = inf_tokenizer_token_bytes(tok, id, NULL, 0);

        if (n > max && n < size) {
            max = n;
            longest = id;
        }
    }
    return inf_tokenizer_token_bytes(tok, longest, (unsigned char *)buf, size);
}

/* Checks that a text of n tokens fits if n tokens are allowed, and does not fit if n - 1 are. */
static void check_limit(const struct inf_tokenizer *tok, const char *text, size_t len)
{
    const struct inf_encode_text whole = {text, len};
    const unsigned flags = INF_ENCODE_PARSE_SPECIAL;
    struct inf_encoding e;
    int32_t *ids;
    size_t n, k;

    ASSERT_OK(inf_tokenizer_encode(tok, text, len, flags, 0, &ids, &n));
    free(ids);
    if (n < 2)
        return;
    ASSERT_OK(inf_tokenizer_encode(tok, text, len, flags, n, &ids, &k));
    free(ids);
    assert_int_equal(k, n);
    ASSERT_ERROR(inf_tokenizer_encode(tok, text, len, flags, n - 1, &ids, &k), E2BIG);
    ASSERT_OK(inf_tokenizer_encode_texts(tok, &whole, NULL, flags, INF_CUT_NONE, n, &e));
    free(e.ids);
    assert_int_equal(e.n, n);
    ASSERT_ERROR(inf_tokenizer_encode_texts(tok, &whole, NULL, flags, INF_CUT_NONE, n - 1, &e),
                 E2BIG);
}

static void check_limits(const struct inf_tokenizer *tok)
{
    static const char *const units[] = {"a",
                                        " ",
                                        "\n",
                                        "ab ",
                                        "o\u0302\u0301",
                                        "1",
                                        "你",
                                        "<",
                                        "\t ",
                                        "—",
                                        "\u1112\u1161\u11ab",
                                        "a  </s>   ",
                                        "<|im_end|>",
                                        "some words ",
                                        "<mask> ",
                                        "\u2126",
                                        "\u212b",
                                        "\u3000"};
    enum { SIZE = 6000 };
    char *text = malloc(SIZE + 4096), piece[2048];
    size_t n_piece = longest_piece(tok, piece, sizeof(piece));

    assert_non_null(text);
    for (size_t k = 0; k <= sizeof(units) / sizeof(*units); k++) {
        const char *unit = k ? units[k - 1] : piece;
        const size_t n = k ? strlen(unit) : n_piece;
        size_t len = 0;

        for (; n > 0 && len < SIZE; len += n)
            memcpy(text + len, unit, n);
        check_limit(tok, text, len);
    }
    free(text);
}

TEST(limits_of_tokens_are_exact)
{
    static const char *const names[] = {
        "base.json",         "bpe-affixes.json",      "bpe-fuse.json",
        "bpe-nounk.json",    "bpe-plain.json",        "bytes-ignore-merges.json",
        "bytes.json",        "bytes-noregex.json",    "bytes-prefix.json",
        "llama.json",        "llama-normalized.json", "sp-bpe.model",
        "sp-bpe-user.model", "sp-unigram.model",      "unigram-bytes.json",
        "unigram.json",      "wordlevel.json",        "wordpiece.json"};
    static const char *const real[] = {"all-MiniLM-L6-v2", "bert", "mistral", "qwen2"};
    char path[64];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct inf_tokenizer *tok = open_golden(names[i]);

        check_limits(tok);
        tokenizer_free(tok);
    }
    for (size_t i = 0; i < sizeof(real) / sizeof(*real); i++) {
        struct inf_tokenizer *tok = NULL;
        struct inf_err err;
        const char *dir;

        snprintf(path, sizeof(path), "tokenizers/%s", real[i]);
        dir = test_data(path);
        if (!dir)
            continue;
        ASSERT_OK_ERR(tokenizer_open_dir(dir, &tok, &err), err);
        check_limits(tok);
        tokenizer_free(tok);
    }
}

TEST(texts_that_cannot_fit_are_refused_at_once)
{
    static const char *const names[] = {"bytes.json", "llama.json", "sp-bpe.model"};
    const size_t size = (size_t)64 << 20;
    char *text = malloc(size);
    int32_t *ids;
    size_t n;

    assert_non_null(text);
    memset(text, '1', size);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct inf_tokenizer *tok = open_golden(names[i]);
        const clock_t start = clock();

        ASSERT_ERROR(inf_tokenizer_encode(tok, text, size, 0, 4096, &ids, &n), E2BIG);
        assert_true((double)(clock() - start) < CLOCKS_PER_SEC * test_slowness());
        tokenizer_free(tok);
    }
    free(text);
}

TEST(bad_files_are_errors)
{
    struct inf_err err;

    ASSERT_ERROR(parse("{}", &err), EINVAL);
    ASSERT_ERROR(parse("[", &err), EBADMSG);
    ASSERT_ERROR(parse("{\"model\":{\"type\":\"Nope\",\"vocab\":{}}}", &err), ENOTSUP);
    ASSERT_CONTAINS(err.text, "Nope");
    ASSERT_ERROR(
        parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":9000000},\"merges\":[]}}", &err),
        EINVAL);
    ASSERT_ERROR(
        parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", &err),
        EINVAL);
    ASSERT_CONTAINS(err.text, "'b'");
    ASSERT_ERROR(parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                       "\"normalizer\":{\"type\":\"Rot13\"}}",
                       &err),
                 ENOTSUP);
    ASSERT_CONTAINS(err.text, "Rot13");
    ASSERT_ERROR(parse("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                       "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
                       "\"behavior\":\"Isolated\",\"invert\":false}}",
                       &err),
                 EINVAL);
}

TEST(pieces_that_share_an_id_are_all_found)
{
    struct inf_tokenizer *tok = NULL;
    const char *json = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0,\"c\":1},"
                       "\"merges\":[]}}";
    struct inf_err err;

    ASSERT_OK_ERR(tokenizer_parse_json(json, strlen(json), NULL, 0, &tok, &err), err);
    assert_int_equal(inf_tokenizer_find(tok, "a", 1), 0);
    assert_int_equal(inf_tokenizer_find(tok, "b", 1), 0);
    assert_int_equal(inf_tokenizer_find(tok, "c", 1), 1);
    assert_int_equal(inf_tokenizer_find(tok, "d", 1), -1);
    tokenizer_free(tok);
}

TEST(a_lone_gguf_file_gives_a_tokenizer)
{
    struct inf_tokenizer *tok = NULL;
    const char *path = test_data("models/stories260K/stories260K.gguf");
    struct inf_err err;
    size_t len;

    if (!path)
        skip();
    ASSERT_OK_ERR(tokenizer_open_file(path, &tok, &err), err);
    assert_int_equal(inf_tokenizer_n_vocab(tok), 512);
    assert_int_equal(inf_tokenizer_find(tok, "<s>", 3), 1);
    assert_memory_equal(inf_tokenizer_token_text(tok, 2, &len), "</s>", 4);
    tokenizer_free(tok);
}

TEST(configuration_decides_about_bos)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<s>\":1,\"</s>\":2},\"merges\":[]},"
        "\"added_tokens\":[{\"content\":\"<s>\",\"special\":true},"
        "{\"content\":\"</s>\",\"special\":true}]}";
    static const char config[] = "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"</s>\","
                                 "\"add_bos_token\":true,\"add_eos_token\":true}";
    struct inf_tokenizer *tok;
    struct inf_err err;
    int32_t *ids;
    size_t n;

    ASSERT_OK_ERR(tokenizer_parse_json(json, strlen(json), config, strlen(config), &tok, &err),
                  err);
    assert_true(inf_tokenizer_adds_bos(tok));
    ASSERT_OK(inf_tokenizer_encode(tok, "a", 1, INF_ENCODE_ADD_SPECIAL, 0, &ids, &n));
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[2], 2);
    free(ids);
    tokenizer_free(tok);
}

RUN_TESTS(cmocka_unit_test(chosen_special_tokens_are_shown),
          cmocka_unit_test(half_a_code_point_never_leaves),
          cmocka_unit_test(a_reply_keeps_its_space_after_a_prompt),
          cmocka_unit_test(special_tokens_are_hidden_and_found_when_asked),
          cmocka_unit_test(token_bytes_are_what_a_token_adds),
          cmocka_unit_test(bad_bytes_are_read_as_replacement_characters),
          cmocka_unit_test(long_texts_take_linear_time),
          cmocka_unit_test(limits_of_tokens_are_exact),
          cmocka_unit_test(texts_that_cannot_fit_are_refused_at_once),
          cmocka_unit_test(bad_files_are_errors),
          cmocka_unit_test(a_lone_gguf_file_gives_a_tokenizer),
          cmocka_unit_test(pieces_that_share_an_id_are_all_found),
          cmocka_unit_test(configuration_decides_about_bos))
