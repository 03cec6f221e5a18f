/* SPDX-License-Identifier: Apache-2.0 */
#include "format/gguf/gguf.h"

#include <errno.h>
#include <math.h>

#include "core/file.h"
#include "lib/gguf_writer.h"
#include "lib/test.h"

static const uint64_t dims_2x4[] = {4, 2};
static const float data_2x4[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void write_good(struct gguf_writer *w)
{
    static const char *const words[] = {"a", "", "ccc"};
    static const int32_t ints[] = {-1, 0, 7};

    gguf_put_string(w, "general.architecture", "llama");
    gguf_put_u32(w, "count", 42);
    gguf_put_f32(w, "factor", 0.5f);
    gguf_put_bool(w, "yes", true);
    gguf_put_strings(w, "words", words, 3);
    gguf_put_i32s(w, "ints", ints, 3);
    gguf_put_raw(w, "i8", GGUF_I8, "\xfe", 1);
    gguf_put_raw(w, "u64", GGUF_U64, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    gguf_put_tensor(w, "a.weight", 0, dims_2x4, 2, data_2x4, sizeof(data_2x4));
    gguf_put_tensor(w, "b.weight", 0, dims_2x4, 2, data_2x4, sizeof(data_2x4));
}

TEST(values_and_tensors_are_found)
{
    struct gguf_writer w = {0};
    struct gguf_str s;
    struct inf_err err = {0};
    struct gguf *g;
    uint64_t u;
    size_t len;
    char *file;
    double d;
    bool b;

    write_good(&w);
    file = gguf_writer_finish(&w, &len);
    ASSERT_OK_ERR(gguf_parse(file, len, &g, &err), err);
    assert_int_equal(gguf_n_values(g), 8);
    assert_true(gguf_u64(g, "count", &u) && u == 42);
    assert_true(gguf_f64(g, "factor", &d) && d == 0.5);
    assert_true(gguf_f64(g, "count", &d) && d == 42);
    assert_true(gguf_bool(g, "yes", &b) && b);
    assert_true(gguf_string(g, "general.architecture", &s) && s.len == 5);
    assert_true(gguf_u64(g, "u64", &u) && u == UINT64_MAX);
    assert_true(gguf_f64(g, "u64", &d) && d > 1e19);
    assert_true(gguf_f64(g, "i8", &d) && d == -2);
    /* Only gguf_f64() converts values: integers to floats. */
    assert_false(gguf_u64(g, "i8", &u));
    assert_false(gguf_u64(g, "factor", &u));
    assert_false(gguf_u64(g, "yes", &u));
    assert_false(gguf_bool(g, "count", &b));
    assert_false(gguf_string(g, "words", &s));
    assert_false(gguf_f64(g, "absent", &d));
    assert_int_equal(gguf_string_at(gguf_find(g, "words"), 2).len, 3);
    assert_int_equal(gguf_elem_i64(gguf_find(g, "ints"), 0), -1);
    assert_true(gguf_elem_f64(gguf_find(g, "ints"), 2) == 7);

    assert_int_equal(gguf_n_tensors(g), 2);
    assert_memory_equal(gguf_tensor_at(g, 1)->data, data_2x4, sizeof(data_2x4));
    assert_int_equal(gguf_tensor_at(g, 1)->dims[2], 1);
    ASSERT_STREQ(gguf_tensor_at(g, 1)->type_name, "F32");
    gguf_close(g);
    free(file);
}

/* Parses a copy that ends at the end of its allocation, so that ASan finds any read beyond it. */
static int parse_copy(const char *file, size_t len, struct inf_err *err)
{
    char *copy = malloc(len);
    struct gguf *g = NULL;
    int r;

    memcpy(copy, file, len);
    r = gguf_parse(copy, len, &g, err);
    gguf_close(g);
    free(copy);
    return r;
}

TEST(a_file_cut_anywhere_is_refused)
{
    struct gguf_writer w = {0};
    size_t len;
    char *file;

    write_good(&w);
    file = gguf_writer_finish(&w, &len);
    for (size_t n = 1; n < len; n++) {
        struct inf_err err = {0};

        assert_int_equal(parse_copy(file, n, &err), -EBADMSG);
        assert_true(err.text[0] && err.code == EBADMSG);
    }
    free(file);
}

TEST(a_changed_byte_never_crashes)
{
    struct gguf_writer w = {0};
    size_t len;
    char *file;

    write_good(&w);
    file = gguf_writer_finish(&w, &len);
    for (size_t i = 0; i < len; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct inf_err err = {0};

            file[i] ^= (char)(1 << bit);
            if (parse_copy(file, len, &err) < 0)
                assert_true(err.text[0]);
            file[i] ^= (char)(1 << bit);
        }
    free(file);
}

/* A row has the name of a fault, a function that makes a file with this fault, and a part of the
 * error message. */
struct bad {
    const char *what;
    void (*make)(struct gguf_writer *w);
    const char *message;
    int code;
};

#define ENTRY(type, n_dims, offset, ...)                                                           \
    {                                                                                              \
        const uint64_t dims[] = {__VA_ARGS__};                                                     \
        gguf_put_entry(w, "t", type, dims, n_dims, offset);                                        \
        str_append(&w->data, data_2x4, sizeof(data_2x4));                                          \
    }

static void twice_key(struct gguf_writer *w)
{
    gguf_put_u32(w, "k", 1);
    gguf_put_u32(w, "k", 2);
}
static void empty_key(struct gguf_writer *w)
{
    gguf_put_u32(w, "", 1);
}
static void huge_string(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", GGUF_STRING, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
}
static void huge_array(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", GGUF_ARRAY, "\x08\0\0\0\0\0\0\0\0\0\0\x10", 12);
}
static void huge_numbers(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", GGUF_ARRAY, "\x0a\0\0\0\0\0\0\0\0\0\0\x20", 12);
}
static void nested(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", GGUF_ARRAY, "\x09\0\0\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0", 24);
}
static void odd_type(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", 13, "", 1);
}
static void odd_bool(struct gguf_writer *w)
{
    gguf_put_raw(w, "k", GGUF_BOOL, "\x02", 1);
}
static void many_values(struct gguf_writer *w)
{
    gguf_put_u32(w, "k", 1);
    w->n_values = (uint64_t)1 << 60;
}
static void many_tensors(struct gguf_writer *w)
{
    gguf_put_u32(w, "k", 1);
    w->n_tensors = (uint64_t)1 << 60;
}
static void odd_alignment(struct gguf_writer *w)
{
    gguf_put_u32(w, "general.alignment", 24);
    ENTRY(0, 2, 0, 4, 2)
}
static void no_alignment(struct gguf_writer *w)
{
    gguf_put_u32(w, "general.alignment", 0);
    ENTRY(0, 2, 0, 4, 2)
}
static void text_alignment(struct gguf_writer *w)
{
    gguf_put_string(w, "general.alignment", "32");
    ENTRY(0, 2, 0, 4, 2)
}
static void no_dims(struct gguf_writer *w)
{
    ENTRY(0, 0, 0, 4)
}
static void five_dims(struct gguf_writer *w)
{
    ENTRY(0, 5, 0, 1, 1, 1, 1, 1)
}
static void zero_dim(struct gguf_writer *w)
{
    ENTRY(0, 2, 0, 4, 0)
}
static void overflowing_dims(struct gguf_writer *w)
{
    ENTRY(0, 3, 0, (uint64_t)1 << 32, (uint64_t)1 << 32, 4)
}
static void overflowing_size(struct gguf_writer *w)
{
    ENTRY(0, 2, 0, (uint64_t)1 << 30, (uint64_t)1 << 30)
}
static void overflowing_offset(struct gguf_writer *w)
{
    ENTRY(0, 2, UINT64_MAX - 31, 4, 2)
}
static void offset_outside(struct gguf_writer *w)
{
    ENTRY(0, 2, 32, 4, 2)
}
static void misaligned(struct gguf_writer *w)
{
    ENTRY(0, 2, 4, 4, 1)
}
static void half_block(struct gguf_writer *w)
{
    ENTRY(8, 2, 0, 16, 1)
}
static void twice_tensor(struct gguf_writer *w)
{
    ENTRY(0, 1, 0, 4)
    ENTRY(0, 1, 32, 4)
}
static void overlapping(struct gguf_writer *w)
{
    const uint64_t dims[] = {4, 2};

    gguf_put_tensor(w, "a", 0, dims, 2, data_2x4, sizeof(data_2x4));
    gguf_put_entry(w, "b", 0, dims, 2, 0);
}
static void version_1(struct gguf_writer *w)
{
    w->version = 1;
}
static void version_4(struct gguf_writer *w)
{
    w->version = 4;
}
static void big_endian(struct gguf_writer *w)
{
    w->version = 3u << 24;
}

TEST(bad_files_are_refused_by_name)
{
    static const struct bad table[] = {
        {"a key twice", twice_key, "occurs twice", EBADMSG},
        {"an empty key", empty_key, "0 bytes", EBADMSG},
        {"a string of 2^64 bytes", huge_string, "string of", EBADMSG},
        {"2^60 strings", huge_array, "are too many", EBADMSG},
        {"2^61 numbers", huge_numbers, "are too many", EBADMSG},
        {"an array of arrays", nested, "arrays of arrays", EBADMSG},
        {"an unknown value type", odd_type, "unknown value type 13", EBADMSG},
        {"a boolean of 2", odd_bool, "boolean is 2", EBADMSG},
        {"2^60 values", many_values, "metadata pairs do not fit", EBADMSG},
        {"2^60 tensors", many_tensors, "tensors do not fit", EBADMSG},
        {"an alignment of 24", odd_alignment, "power of two", EBADMSG},
        {"an alignment of 0", no_alignment, "power of two", EBADMSG},
        {"an alignment in words", text_alignment, "not a number", EBADMSG},
        {"no dimensions", no_dims, "0 dimensions", EBADMSG},
        {"five dimensions", five_dims, "5 dimensions", EBADMSG},
        {"a dimension of 0", zero_dim, "dimension of 0", EBADMSG},
        {"dimensions that overflow", overflowing_dims, "overflow", EBADMSG},
        {"a size beyond the file", overflowing_size, "outside the file", EBADMSG},
        {"an offset that overflows", overflowing_offset, "outside the file", EBADMSG},
        {"an offset beyond the file", offset_outside, "outside the file", EBADMSG},
        {"an offset off the alignment", misaligned, "not a multiple", EBADMSG},
        {"half a block", half_block, "whole blocks of Q8_0", EBADMSG},
        {"a tensor twice", twice_tensor, "tensor t occurs twice", EBADMSG},
        {"overlapping tensors", overlapping, "overlap", EBADMSG},
        {"version 1", version_1, "version 1", EOPNOTSUPP},
        {"version 4", version_4, "version 4", EBADMSG},
        {"big-endian", big_endian, "big-endian", EOPNOTSUPP},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct gguf_writer w = {0};
        struct inf_err err = {0};
        size_t len;
        char *file;
        int r;

        table[i].make(&w);
        file = gguf_writer_finish(&w, &len);
        r = parse_copy(file, len, &err);
        if (r != -table[i].code || !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].what, r, err.text);
        free(file);
    }
}

TEST(types_without_arithmetic_are_named_not_refused)
{
    static const uint64_t dims[] = {256, 1};
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    char block[292] = {0}, *file;
    struct gguf *g;
    size_t len;

    gguf_put_tensor(&w, "old", 15, dims, 2, block, 292);
    gguf_put_tensor(&w, "future", 999, dims, 2, block, 1);
    file = gguf_writer_finish(&w, &len);
    ASSERT_OK_ERR(gguf_parse(file, len, &g, &err), err);
    assert_int_equal(gguf_tensor_at(g, 0)->dtype, INF_DTYPE_INVALID);
    ASSERT_STREQ(gguf_tensor_at(g, 0)->type_name, "Q8_K");
    assert_int_equal(gguf_tensor_at(g, 0)->size, 292);
    ASSERT_STREQ(gguf_tensor_at(g, 1)->type_name, "ggml type 999");
    gguf_close(g);
    free(file);
}

TEST(version_2_and_files_without_tensors_are_read)
{
    struct gguf_writer w = {.version = 2};
    struct inf_err err = {0};
    struct gguf *g;
    char *path;

    gguf_put_u32(&w, "count", 42);
    path = gguf_writer_save(&w);
    ASSERT_OK_ERR(gguf_open(path, &g, &err), err);
    assert_int_equal(gguf_n_tensors(g), 0);
    gguf_close(g);
    unlink(path);
    free(path);
}

TEST(files_that_are_no_gguf_are_refused)
{
    struct inf_err err = {0};
    struct gguf *g;
    char *path;

    ASSERT_ERROR(gguf_open("/nonexistent/x.gguf", &g, &err), ENOENT);
    ASSERT_ERROR(gguf_open("/tmp", &g, &err), EISDIR);
    ASSERT_ERROR(gguf_open("/dev/null", &g, &err), EINVAL);
    path = test_file_save("", 0);
    ASSERT_ERROR(gguf_open(path, &g, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "truncated");
    unlink(path);
    free(path);
    path = test_file_save("version https://git-lfs", 23);
    ASSERT_ERROR(gguf_open(path, &g, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "not a GGUF file");
    unlink(path);
    free(path);
}

/* A terabyte of zeros takes no disk space here, and must take no time or memory in the reader. */
TEST(sparse_files_do_not_eat_memory)
{
    struct gguf_writer w = {0};
    struct inf_err err = {0};
    const uint64_t n = (uint64_t)1 << 36;
    unsigned char head[12] = {GGUF_STRING};
    struct gguf *g;
    char *path;
    int r;

    memcpy(head + 4, &n, 8);
    gguf_put_raw(&w, "k", GGUF_ARRAY, head, sizeof(head));
    path = gguf_writer_save(&w);
    if (truncate(path, (off_t)1 << 40) == 0) {
        r = gguf_open(path, &g, &err);
        /* Some kernels of arm64 have addresses of 39 bits, which are not enough for the file. */
        if (r == -ENOMEM) {
            ASSERT_CONTAINS(err.text, "cannot map");
        } else {
            ASSERT_ERROR(r, EBADMSG);
            ASSERT_CONTAINS(err.text, "are too many");
        }
    }
    unlink(path);
    free(path);
}

/* Writes part @no of @count to the file @name in @dir. The part has one tensor. */
static void write_part(const char *dir, const char *name, uint32_t no, uint32_t count,
                       const char *tensor)
{
    struct gguf_writer w = {0};
    char *file, *path = path_join(dir, name);
    size_t len;
    FILE *f;

    gguf_put_u32(&w, "split.no", no);
    gguf_put_u32(&w, "split.count", count);
    gguf_put_u32(&w, "split.tensors.count", count);
    gguf_put_tensor(&w, tensor, 0, dims_2x4, 2, data_2x4, sizeof(data_2x4));
    file = gguf_writer_finish(&w, &len);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, len, f), len);
    fclose(f);
    free(file);
    free(path);
}

static int open_in(const char *dir, const char *name, struct gguf **ret, struct inf_err *err)
{
    char *path = path_join(dir, name);
    const int r = gguf_open(path, ret, err);

    free(path);
    return r;
}

static void remove_in(const char *dir, const char *name)
{
    char *path = path_join(dir, name);

    unlink(path);
    free(path);
}

TEST(split_files_open_from_the_first_part)
{
    char dir[] = "/tmp/sconce-test-XXXXXX";
    struct inf_err err = {0};
    struct gguf *g;

    assert_non_null(mkdtemp(dir));
    write_part(dir, "m-00001-of-00003.gguf", 0, 3, "a");
    write_part(dir, "m-00002-of-00003.gguf", 1, 3, "b");
    ASSERT_ERROR(open_in(dir, "m-00001-of-00003.gguf", &g, &err), ENOENT);
    write_part(dir, "m-00003-of-00003.gguf", 2, 3, "c");
    ASSERT_OK_ERR(open_in(dir, "m-00001-of-00003.gguf", &g, &err), err);
    assert_int_equal(gguf_n_tensors(g), 3);
    ASSERT_STREQ(gguf_tensor_at(g, 2)->name, "c");
    assert_memory_equal(gguf_tensor_at(g, 2)->data, data_2x4, sizeof(data_2x4));
    gguf_close(g);

    ASSERT_ERROR(open_in(dir, "m-00002-of-00003.gguf", &g, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "part 2 of 3");
    write_part(dir, "m-00003-of-00003.gguf", 1, 3, "c");
    ASSERT_ERROR(open_in(dir, "m-00001-of-00003.gguf", &g, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "not part 3 of 3");
    write_part(dir, "m-00003-of-00003.gguf", 2, 3, "a");
    ASSERT_ERROR(open_in(dir, "m-00001-of-00003.gguf", &g, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "in two parts");
    write_part(dir, "other.gguf", 0, 3, "a");
    ASSERT_ERROR(open_in(dir, "other.gguf", &g, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "must be called");

    remove_in(dir, "m-00001-of-00003.gguf");
    remove_in(dir, "m-00002-of-00003.gguf");
    remove_in(dir, "m-00003-of-00003.gguf");
    remove_in(dir, "other.gguf");
    rmdir(dir);
}

RUN_TESTS(cmocka_unit_test(values_and_tensors_are_found),
          cmocka_unit_test(a_file_cut_anywhere_is_refused),
          cmocka_unit_test(a_changed_byte_never_crashes),
          cmocka_unit_test(bad_files_are_refused_by_name),
          cmocka_unit_test(types_without_arithmetic_are_named_not_refused),
          cmocka_unit_test(version_2_and_files_without_tensors_are_read),
          cmocka_unit_test(files_that_are_no_gguf_are_refused),
          cmocka_unit_test(sparse_files_do_not_eat_memory),
          cmocka_unit_test(split_files_open_from_the_first_part))
