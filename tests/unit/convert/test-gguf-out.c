/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include "format/gguf/ggml-type.h"
#include "format/gguf/gguf.h"
#include "format/gguf/out.h"

static const uint64_t dims[] = {64, 3};

/* Returns the whole file, whose tensors contain only zeros. The caller frees it. */
static char *finish(struct gguf_out *w, size_t *ret_len)
{
    char *header, *file;
    size_t n;

    ASSERT_OK(gguf_out_header(w, &header, &n));
    assert_int_equal(n % GGUF_ALIGNMENT, 0);
    file = calloc(1, n + w->data_size);
    assert_non_null(file);
    memcpy(file, header, n);
    free(header);
    *ret_len = n + w->data_size;
    return file;
}

TEST(a_file_is_read_as_it_was_written)
{
    const struct gguf_str words[] = {{"a", 1}, {"", 0}, {"ccc", 3}};
    const int32_t ints[] = {-1, 0, 7};
    struct gguf_out w = {0}, copy = {0};
    struct gguf_str s;
    struct inf_err err;
    struct gguf *g;
    char *file, *again;
    size_t len, len_again;
    uint64_t u;
    bool b;

    gguf_out_string(&w, "general.architecture", "llama", 5);
    gguf_out_u32(&w, "count", 42);
    gguf_out_f32(&w, "half", 0.5f);
    gguf_out_bool(&w, "yes", true);
    gguf_out_strings(&w, "words", words, 3);
    gguf_out_array(&w, "ints", GGUF_I32, ints, 3);
    gguf_out_tensor(&w, "a", dims, 2, GGML_TYPE_Q4_0);
    ASSERT_OK(gguf_out_tensor(&w, "b", dims, 1, GGML_TYPE_F32));
    assert_int_equal(w.places[0].size, 2 * 18 * 3);
    assert_int_equal(w.places[1].offset, 128);
    file = finish(&w, &len);
    ASSERT_OK_ERR(gguf_parse(file, len, &g, &err), err);
    assert_true(gguf_u64(g, "count", &u) && u == 42);
    assert_true(gguf_bool(g, "yes", &b) && b);
    s = gguf_string_at(gguf_find(g, "words"), 2);
    assert_true(s.len == 3 && memcmp(s.data, "ccc", 3) == 0);
    assert_int_equal(gguf_elem_i64(gguf_find(g, "ints"), 0), -1);
    assert_int_equal(gguf_n_tensors(g), 2);
    assert_int_equal(gguf_tensor_at(g, 0)->dtype, INF_DTYPE_Q4_0);
    for (size_t i = 0; i < gguf_n_values(g); i++)
        gguf_out_value(&copy, gguf_value_at(g, i));
    gguf_out_tensor(&copy, "a", dims, 2, GGML_TYPE_Q4_0);
    gguf_out_tensor(&copy, "b", dims, 1, GGML_TYPE_F32);
    again = finish(&copy, &len_again);
    assert_int_equal(len, len_again);
    assert_memory_equal(file, again, len);
    gguf_close(g);
    gguf_out_done(&w);
    gguf_out_done(&copy);
    free(file);
    free(again);
}

TEST(wrong_tensors_and_pairs_are_refused)
{
    const uint64_t large[] = {UINT64_MAX / 64 * 32, 64}, odd[] = {33, 1}, none[] = {32, 0};
    struct gguf_out w = {0};

    gguf_out_u32(&w, "a", 1);
    ASSERT_ERROR(gguf_out_u32(&w, "a", 2), EEXIST);
    gguf_out_done(&w);
    ASSERT_ERROR(gguf_out_tensor(&w, "x", large, 2, GGML_TYPE_Q4_0), EOVERFLOW);
    gguf_out_done(&w);
    ASSERT_ERROR(gguf_out_tensor(&w, "x", odd, 2, GGML_TYPE_Q4_0), EINVAL);
    gguf_out_done(&w);
    ASSERT_ERROR(gguf_out_tensor(&w, "x", none, 2, GGML_TYPE_Q4_0), EINVAL);
    gguf_out_done(&w);
    ASSERT_OK(gguf_out_tensor(&w, "x", dims, 2, GGML_TYPE_F16));
    ASSERT_ERROR(gguf_out_tensor(&w, "x", dims, 2, GGML_TYPE_F16), EEXIST);
    gguf_out_done(&w);
}

RUN_TESTS(cmocka_unit_test(a_file_is_read_as_it_was_written),
          cmocka_unit_test(wrong_tensors_and_pairs_are_refused))
