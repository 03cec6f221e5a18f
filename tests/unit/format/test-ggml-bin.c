/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whisper.cpp files: a valid file, this file truncated at every byte, and invalid values. */
#include "format/whisper/ggml-bin.h"

#include <errno.h>

#include "lib/test.h"

enum { HEAD_WORDS = 12, MAX_SIZE = 512 };

struct file {
    unsigned char bytes[MAX_SIZE];
    size_t size;
};

static void put(struct file *f, const void *data, size_t n)
{
    assert_true(f->size + n <= MAX_SIZE);
    if (n > 0)
        memcpy(f->bytes + f->size, data, n);
    f->size += n;
}

static void put_words(struct file *f, const uint32_t *words, size_t n)
{
    put(f, words, n * sizeof(*words));
}

static void put_tensor(struct file *f, const char *name, uint32_t type, uint32_t n_dims,
                       const uint32_t *dims, const void *data, size_t size)
{
    const uint32_t words[] = {n_dims, (uint32_t)strlen(name), type};

    put_words(f, words, 3);
    put_words(f, dims, n_dims);
    put(f, name, strlen(name));
    put(f, data, size);
}

/* The header of a model with a vocabulary of 70 tokens, of which the file lists "a", "" and "bc",
 * and with the widths 4 and 6. */
static const uint32_t good_head[HEAD_WORDS] = {0x67676d6c, 70, 8, 4, 2, 1, 9, 6, 3, 2, 5, 1};

static struct file build_head(const uint32_t *head)
{
    static const float filters[3] = {0};
    struct file f = {.size = 0};

    put_words(&f, head, HEAD_WORDS);
    put_words(&f, (const uint32_t[]){1, 3}, 2);
    put(&f, filters, sizeof(filters));
    put_words(&f, (const uint32_t[]){3, 1}, 2);
    put(&f, "a", 1);
    put_words(&f, (const uint32_t[]){0, 2}, 2);
    put(&f, "bc", 2);
    return f;
}

static struct file build(void)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    struct file f = build_head(good_head);

    put_tensor(&f, "w", 0, 2, (const uint32_t[]){3, 2}, values, sizeof(values));
    put_tensor(&f, "half", 1, 1, (const uint32_t[]){3}, "\0\x3c\0\x40\0\x42", 6);
    put_tensor(&f, "scalar", 0, 0, NULL, values, sizeof(float));
    return f;
}

/* Parses a copy in an allocation of exactly @size bytes. */
static int parse(const struct file *f, size_t size, struct ggml_bin **ret_bin, struct inf_err *err,
                 void **ret_copy)
{
    *ret_copy = malloc(size > 0 ? size : 1);
    assert_non_null(*ret_copy);
    memcpy(*ret_copy, f->bytes, size);
    return ggml_bin_parse(*ret_copy, size, ret_bin, err);
}

static void assert_refused(const struct file *f, size_t size, const char *why)
{
    _cleanup_free_ void *copy = NULL;
    struct ggml_bin *bin = NULL;
    struct inf_err err = {0};

    ASSERT_ERROR(parse(f, size, &bin, &err, &copy), EBADMSG);
    ASSERT_CONTAINS(err.text, why);
    assert_null(bin);
}

TEST(all_contents_of_a_file_are_read)
{
    _cleanup_(ggml_bin_closep) struct ggml_bin *bin = NULL;
    _cleanup_free_ void *copy = NULL;
    const struct ggml_bin_token *tokens;
    const struct format_tensor *t;
    const struct file f = build();
    struct inf_err err;
    size_t n;

    ASSERT_OK_ERR(parse(&f, f.size, &bin, &err, &copy), err);
    assert_int_equal(ggml_bin_kind(bin), GGML_BIN_WHISPER);
    assert_int_equal(ggml_bin_whisper(bin)->n_vocab, 70);
    assert_int_equal(ggml_bin_whisper(bin)->n_text_ctx, 9);
    assert_int_equal(ggml_bin_whisper(bin)->n_mels, 5);
    tokens = ggml_bin_tokens(bin, &n);
    assert_int_equal(n, 3);
    assert_true(tokens[1].len == 0 && tokens[2].len == 2);
    assert_memory_equal(tokens[2].text, "bc", 2);
    assert_int_equal(ggml_bin_n(bin), 3);
    t = ggml_bin_find(bin, "w");
    assert_true(t->dims[0] == 3 && t->dims[1] == 2 && t->n_dims == 2);
    assert_int_equal((uintptr_t)t->data % sizeof(float), 0);
    assert_true(((const float *)t->data)[5] == 6);
    t = ggml_bin_find(bin, "half");
    assert_true(t->dtype == INF_DTYPE_F16 && t->size == 6);
    assert_int_equal((uintptr_t)t->data % 2, 0);
    assert_true(ggml_bin_find(bin, "scalar")->n_dims == 1);
    assert_null(ggml_bin_find(bin, "W"));
}

TEST(truncated_files_are_not_read_beyond_their_end)
{
    const struct file f = build();
    const struct file head = build_head(good_head);

    for (size_t size = 0; size < f.size; size++) {
        _cleanup_(ggml_bin_closep) struct ggml_bin *bin = NULL;
        _cleanup_free_ void *copy = NULL;
        struct inf_err err = {0};
        const int r = parse(&f, size, &bin, &err, &copy);

        /* A file may end between two tensors. */
        if (size < head.size)
            assert_int_equal(r, -EBADMSG);
        if (r == 0)
            assert_true(ggml_bin_n(bin) < 3);
    }
}

TEST(invalid_words_are_named)
{
    static const struct {
        int at;
        uint32_t value;
        const char *why;
    } cases[] = {
        {0, 1, "not a .bin file of ggml"},          {1, 1u << 21, "n_vocab is 2097152"},
        {2, 0, "n_audio_ctx is 0; it may be 1"},    {5, 1025, "n_audio_layer is 1025"},
        {4, 3, "a width is not a multiple of its"}, {10, 0xffffffff, "n_mels is 4294967295"},
        {1, 10, "not a Silero model for 16 kHz"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint32_t head[HEAD_WORDS];
        struct file f;

        memcpy(head, good_head, sizeof(head));
        head[cases[i].at] = cases[i].value;
        f = build_head(head);
        assert_refused(&f, f.size, cases[i].why);
    }
}

TEST(invalid_tensors_are_named)
{
    static const uint32_t three[] = {3}, huge[] = {0x7fffffff, 0x7fffffff, 0x7fffffff};
    struct file f = build();

    put_tensor(&f, "w", 1, 1, three, "abcdef", 6);
    assert_refused(&f, f.size, "tensor w occurs twice");
    f = build();
    put_tensor(&f, "x", 8, 1, three, "", 0);
    assert_refused(&f, f.size, "tensor x: rows are not whole blocks of Q8_0");
    f = build();
    put_tensor(&f, "x", 99, 1, three, "", 0);
    assert_refused(&f, f.size, "tensor x has the unknown number format 99");
    f = build();
    put_tensor(&f, "x", 0, 3, huge, "", 0);
    assert_refused(&f, f.size, "the dimensions of a tensor overflow");
    f = build();
    put_tensor(&f, "", 0, 1, three, "", 0);
    assert_refused(&f, f.size, "a tensor's name has 0 bytes");
}

TEST(a_real_vocabulary_is_read)
{
    _cleanup_(ggml_bin_closep) struct ggml_bin *bin = NULL;
    const char *path = test_data("whisper/for-tests-ggml-tiny.bin");
    const struct ggml_bin_token *tokens;
    struct inf_err err;
    size_t n;

    if (!path)
        skip();
    assert_true(ggml_bin_probe(path));
    ASSERT_OK_ERR(ggml_bin_open(path, &bin, &err), err);
    assert_int_equal(ggml_bin_whisper(bin)->n_audio_embd, 384);
    tokens = ggml_bin_tokens(bin, &n);
    assert_int_equal(n, 50257);
    assert_memory_equal(tokens[50254].text, " ('", 3);
    assert_int_equal(ggml_bin_n(bin), 0);
}

RUN_TESTS(cmocka_unit_test(all_contents_of_a_file_are_read),
          cmocka_unit_test(truncated_files_are_not_read_beyond_their_end),
          cmocka_unit_test(invalid_words_are_named), cmocka_unit_test(invalid_tensors_are_named),
          cmocka_unit_test(a_real_vocabulary_is_read))
