/* SPDX-License-Identifier: Apache-2.0 */
#include "format/hf/safetensors.h"

#include <errno.h>

#include "lib/test.h"

static const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Builds a file in an allocation of exactly its size. The file has the header, spaces up to the
 * next multiple of 8, @shift more spaces, and @n_data bytes of data. */
static char *build_at(const char *header, uint64_t shift, uint64_t n_data, size_t *ret_len)
{
    const uint64_t n = (strlen(header) + 7) / 8 * 8 + shift;
    char *file = malloc(8 + n + n_data);

    memcpy(file, &n, 8);
    memset(file + 8, ' ', n);
    memcpy(file + 8, header, strlen(header));
    for (uint64_t i = 0; i < n_data; i++)
        file[8 + n + i] = ((const char *)data)[i % sizeof(data)];
    *ret_len = 8 + n + n_data;
    return file;
}

static char *build(const char *header, uint64_t n_data, size_t *ret_len)
{
    return build_at(header, 0, n_data, ret_len);
}

static int parse(const char *header, uint64_t n_data, struct inf_err *err)
{
    struct safetensors *st = NULL;
    size_t len;
    char *file = build(header, n_data, &len);
    const int r = safetensors_parse(file, len, &st, err);

    safetensors_close(st);
    free(file);
    return r;
}

#define GOOD                                                                                       \
    "{\"__metadata__\":{\"format\":\"pt\"},"                                                       \
    "\"a\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]},"                           \
    "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[32,34]},"                            \
    "\"e\":{\"dtype\":\"U8\",\"shape\":[2,1,1,1,2],\"data_offsets\":[34,38]}}"

TEST(tensors_are_found_with_dimensions_turned)
{
    const struct format_tensor *t;
    struct inf_err err = {0};
    struct safetensors *st;
    size_t len;
    char *file = build(GOOD, 38, &len);

    ASSERT_OK_ERR(safetensors_parse(file, len, &st, &err), err);
    assert_int_equal(safetensors_n(st), 3);
    t = safetensors_find(st, "a");
    assert_non_null(t);
    assert_int_equal(t->dims[0], 4);
    assert_int_equal(t->dims[1], 2);
    assert_int_equal(t->size, 32);
    assert_memory_equal(t->data, data, 32);
    t = safetensors_find(st, "s");
    assert_int_equal(t->n_dims, 1);
    assert_int_equal(t->dims[0], 1);
    assert_int_equal(t->dtype, INF_DTYPE_BF16);
    t = safetensors_find(st, "e");
    assert_int_equal(t->dtype, INF_DTYPE_INVALID);
    ASSERT_STREQ(t->type_name, "U8");
    assert_int_equal(t->dims[0], 2);
    assert_int_equal(t->dims[3], 2);
    assert_null(safetensors_find(st, "__metadata__"));
    safetensors_close(st);
    free(file);
}

TEST(a_file_cut_anywhere_is_refused)
{
    struct safetensors *st;
    size_t len;
    char *file = build(GOOD, 38, &len);

    for (size_t n = 0; n < len; n++) {
        struct inf_err err = {0};
        char *cut = malloc(n ? n : 1);

        memcpy(cut, file, n);
        assert_int_equal(safetensors_parse(cut, n, &st, &err), -EBADMSG);
        assert_true(err.text[0]);
        free(cut);
    }
    free(file);
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(bad_headers_are_refused_by_name)
{
    static const struct {
        const char *header;
        uint64_t n_data;
        const char *message;
    } table[] = {
        {"", 0, "header"},
        {"[]", 0, "not a JSON object"},
        {"{\"a\":1}", 0, "unknown dtype"},
        {"{\"a\":{}}", 0, "unknown dtype"},
        {"{" T("a", "F33", "[1]", "[0,4]") "}  ", 4, "unknown dtype F33"},
        {"{" T("a", "F32", "1", "[0,4]") "}", 4, "no shape"},
        {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "shape is malformed"},
        {"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "shape is malformed"},
        {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "dimensions overflow"},
        {"{" T("a", "F32", "[1152921504606846976,4]", "[0,4]") "}", 4, "do not take 4 bytes"},
        {"{" T("a", "F32", "[1]", "[0]") "}", 4, "data_offsets are malformed"},
        {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "data_offsets are malformed"},
        {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "outside the data"},
        {"{" T("a", "F32", "[1]", "[4,8]") "}", 4, "outside the data"},
        {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "do not take"},
        {"{" T("a", "F32", "[18446744073709551616]", "[0,4]") "}", 4, "header"},
        {"{" T("a", "F32", "[0]", "[0,4]") "}", 4, "do not take"},
        {"{" T("a", "F4", "[1]", "[0,1]") "}", 1, "do not take"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12,
         "belong to no tensor"},
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[2]", "[4,12]") "}", 12, "overlaps"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4, "overlaps"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "duplicate"},
        {"{" T("a", "F32", "[1]", "[0,4]") "}", 6, "2 bytes at the end"},
        {"{" T("", "F32", "[1]", "[0,4]") "}", 4, "name has 0 bytes"},
        {"{" T("a\\u0000b", "F32", "[1]", "[0,4]") "}", 4, "header"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct inf_err err = {0};
        const int r = parse(table[i].header, table[i].n_data, &err);

        if (r != -EBADMSG || !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].header, r, err.text);
    }
}

TEST(misaligned_data_is_copied_except_planes)
{
    struct safetensors *st;
    struct inf_err err = {0};
    const struct format_tensor *t;
    size_t len;
    char *file = build_at(
        "{" T("a", "F32", "[1]", "[0,4]") "," T("b.scales", "F16", "[1]", "[4,6]") "}", 2, 6, &len);

    ASSERT_OK_ERR(safetensors_parse(file, len, &st, &err), err);
    t = safetensors_find(st, "a");
    assert_true((uintptr_t)t->data % 4 == 0);
    assert_memory_equal(t->data, file + len - 6, 4);
    assert_ptr_equal(safetensors_find(st, "b.scales")->data, file + len - 2);
    safetensors_close(st);
    free(file);
}

TEST(lengths_of_headers_are_bounded)
{
    struct safetensors *st;
    struct inf_err err = {0};
    uint64_t n[2] = {UINT64_MAX, 0};

    ASSERT_ERROR(safetensors_parse(n, sizeof(n), &st, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "at most");
    n[0] = (uint64_t)1 << 60;
    ASSERT_ERROR(safetensors_parse(n, sizeof(n), &st, &err), EBADMSG);
    n[0] = 9;
    ASSERT_ERROR(safetensors_parse(n, sizeof(n), &st, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "truncated");
}

TEST(deep_nesting_is_refused)
{
    struct inf_err err = {0};
    char *header = malloc(100001);

    memset(header, '[', 100000);
    header[100000] = 0;
    ASSERT_ERROR(parse(header, 0, &err), EBADMSG);
    free(header);
}

TEST(headers_of_millions_of_values_are_refused)
{
    const size_t n = (size_t)3 << 20;
    struct inf_err err = {0};
    char *header = malloc(n + 64);

    strcpy(header, "{\"a\":[");
    for (size_t i = 0; i < n / 3; i++)
        memcpy(header + 6 + 3 * i, "[],", 3);
    strcpy(header + 6 + n, "[]]}");
    ASSERT_ERROR(parse(header, 0, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "too many values");
    free(header);
}

RUN_TESTS(cmocka_unit_test(tensors_are_found_with_dimensions_turned),
          cmocka_unit_test(a_file_cut_anywhere_is_refused),
          cmocka_unit_test(bad_headers_are_refused_by_name),
          cmocka_unit_test(misaligned_data_is_copied_except_planes),
          cmocka_unit_test(lengths_of_headers_are_bounded),
          cmocka_unit_test(deep_nesting_is_refused),
          cmocka_unit_test(headers_of_millions_of_values_are_refused))
