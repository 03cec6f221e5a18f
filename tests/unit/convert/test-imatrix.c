/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/test.h"

#include <math.h>

#include "convert/imatrix.h"
#include "lib/gguf_writer.h"

static const float sums[] = {2, 4, 6, 8, 1, 1, 1, 1}, counts[] = {2, 0};

static char *make(const float *s, uint64_t n_counts, size_t *ret_len)
{
    static const char *const texts[] = {"wiki"};
    struct gguf_writer w = {0};

    gguf_put_string(&w, "general.type", "imatrix");
    gguf_put_strings(&w, "imatrix.datasets", texts, 1);
    gguf_put_u32(&w, "imatrix.chunk_count", 7);
    gguf_put_u32(&w, "imatrix.chunk_size", 512);
    gguf_put_tensor(&w, "blk.0.ffn_up_exps.weight.in_sum2", 0, (uint64_t[]){4, 2}, 2, s, 32);
    gguf_put_tensor(&w, "blk.0.ffn_up_exps.weight.counts", 0, (uint64_t[]){1, n_counts}, 2, counts,
                    n_counts * 4);
    return gguf_writer_finish(&w, ret_len);
}

TEST(sums_are_divided_by_the_counts_of_their_experts)
{
    struct imatrix *m;
    struct inf_err err;
    size_t len;
    char *file = make(sums, 2, &len);
    const float *x;
    uint64_t n;

    ASSERT_OK_ERR(imatrix_parse(file, len, &m, &err), err);
    x = imatrix_find(m, "blk.0.ffn_up_exps.weight", &n);
    assert_non_null(x);
    assert_int_equal(n, 8);
    assert_true(x[0] == 1 && x[3] == 4 && x[4] == 1);
    assert_null(imatrix_find(m, "blk.0.ffn_up_exps", &n));
    assert_int_equal(imatrix_n_chunks(m), 7);
    ASSERT_STREQ(imatrix_dataset(m), "wiki");
    imatrix_close(m);
    free(file);
}

TEST(wrong_sums_are_refused)
{
    const float bad[] = {1, 2, NAN, 4, 5, 6, 7, 8}, negative[] = {1, 2, 3, 4, 5, 6, 7, -8};
    struct imatrix *m;
    struct inf_err err;
    size_t len;
    char *file = make(bad, 1, &len);

    ASSERT_ERROR(imatrix_parse(file, len, &m, &err), EBADMSG);
    free(file);
    file = make(negative, 1, &len);
    ASSERT_ERROR(imatrix_parse(file, len, &m, &err), EBADMSG);
    ASSERT_ERROR(imatrix_parse(file, len - 60, &m, &err), EBADMSG);
    free(file);
}

TEST(the_older_format_is_read)
{
    struct {
        int32_t n, len;
        char name[4];
        int32_t n_calls, n_values;
        float values[2];
        int32_t n_chunks, n_text;
        char text[3];
    } __attribute__((packed)) file = {1, 4, "abcd", 4, 2, {4, 8}, 9, 3, "abc"};
    struct imatrix *m;
    struct inf_err err;
    const float *x;
    uint64_t n;

    ASSERT_OK_ERR(imatrix_parse(&file, sizeof(file), &m, &err), err);
    x = imatrix_find(m, "abcd", &n);
    assert_true(x && n == 2 && x[0] == 1 && x[1] == 2);
    assert_int_equal(imatrix_n_chunks(m), 9);
    ASSERT_STREQ(imatrix_dataset(m), "abc");
    imatrix_close(m);
    for (size_t i = 0; i < 28; i++)
        ASSERT_ERROR(imatrix_parse(&file, i, &m, &err), EBADMSG);
    file.n_values = INT32_MAX;
    ASSERT_ERROR(imatrix_parse(&file, sizeof(file), &m, &err), EBADMSG);
}

RUN_TESTS(cmocka_unit_test(sums_are_divided_by_the_counts_of_their_experts),
          cmocka_unit_test(wrong_sums_are_refused), cmocka_unit_test(the_older_format_is_read))
