/* SPDX-License-Identifier: Apache-2.0 */

/* Converts small files, interrupts conversions, and compares the results. */

#include "lib/test.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <infer/convert.h>

#include "core/file.h"
#include "core/rng.h"
#include "format/gguf/gguf.h"
#include "lib/gguf_writer.h"
#include "lib/tempdir.h"
#include "quant/dtype.h"

#define ROWS 48u
#define COLS 512u

static char out[128], part[160];
static unsigned n_told, n_resumed, stop_at;
static double largest;

static bool told(void *data, const struct inf_convert_tensor *t)
{
    (void)data;
    n_told++;
    n_resumed += t->resumed;
    largest = fmax(largest, t->error);
    return n_told != stop_at;
}

/* Writes a model of random numbers times @scale, with @bad as one of them. The caller removes and
 * frees it. */
static char *make_scaled(float scale, float bad)
{
    static float x[ROWS * COLS];
    struct gguf_writer w = {0};
    struct rng rng;
    char name[64];

    rng_seed(&rng, 5);
    gguf_put_string(&w, "general.architecture", "llama");
    gguf_put_u32(&w, "llama.block_count", 4);
    gguf_put_string(&w, "general.name", "random");
    for (unsigned l = 0; l < 4; l++) {
        for (unsigned i = 0; i < ROWS * COLS; i++)
            x[i] = scale * (float)(rng_double(&rng) + rng_double(&rng) - 1);
        if (l == 2)
            x[777] = bad;
        snprintf(name, sizeof(name), "blk.%u.ffn_down.weight", 3 - l);
        gguf_put_tensor(&w, name, 0, (uint64_t[]){COLS, ROWS}, 2, x, sizeof(x));
        snprintf(name, sizeof(name), "blk.%u.ffn_norm.weight", l);
        gguf_put_tensor(&w, name, 0, (uint64_t[]){COLS}, 1, x, COLS * 4);
    }
    snprintf(out, sizeof(out), "%s/out.gguf", dir);
    snprintf(part, sizeof(part), "%s.part", out);
    n_told = n_resumed = stop_at = 0;
    largest = 0;
    return gguf_writer_save(&w);
}

static char *make_model(float bad)
{
    return make_scaled(1, bad);
}

static int convert(const char *path, const char *type, unsigned n_threads, struct inf_err *err)
{
    const struct inf_convert_params p = {
        .path = path, .out = out, .type = type, .n_threads = n_threads, .tensor = told};
    struct inf_convert_result result;

    return inf_convert(&p, &result, err);
}

/* Reads the new file and removes it. */
static char *take(size_t *ret_len)
{
    struct inf_err err;
    char *data;

    ASSERT_OK_ERR(file_read(out, 1 << 24, &data, ret_len, &err), err);
    unlink(out);
    return data;
}

TEST(each_format_decodes_to_about_the_numbers)
{
    static const struct {
        const char *type;
        double limit;
    } rows[] = {{"F32", 0},       {"F16", 3e-4},    {"BF16", 3e-3}, {"Q8_0", 6e-3}, {"Q6_K", 0.02},
                {"Q5_K_S", 0.04}, {"Q4_K_S", 0.08}, {"Q4_0", 0.09}, {"Q5_1", 0.04}, {"TQ2_0", 0.7}};
    char *path = make_model(0);
    struct inf_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        largest = 0;
        ASSERT_OK_ERR(convert(path, rows[i].type, 2, &err), err);
        if (largest > rows[i].limit)
            fail_msg("%s has the error %g", rows[i].type, largest);
        unlink(out);
    }
    assert_int_not_equal(access(part, F_OK), 0);
    remove(path);
    free(path);
}

TEST(the_file_does_not_depend_on_threads_and_interruptions)
{
    char *path = make_model(0), *one, *two, *three;
    size_t n_one, n_two, n_three;
    struct inf_err err;

    ASSERT_OK_ERR(convert(path, "Q4_K_M", 1, &err), err);
    one = take(&n_one);
    ASSERT_OK_ERR(convert(path, "Q4_K_M", 3, &err), err);
    two = take(&n_two);
    assert_int_equal(n_one, n_two);
    assert_memory_equal(one, two, n_one);
    n_told = 0;
    stop_at = 5;
    ASSERT_ERROR(convert(path, "Q4_K_M", 2, &err), ECANCELED);
    assert_int_equal(access(part, F_OK), 0);
    assert_int_not_equal(access(out, F_OK), 0);
    /* Another conversion does not continue this one, but begins anew. */
    n_told = n_resumed = stop_at = 0;
    ASSERT_OK_ERR(convert(path, "Q4_K_M", 2, &err), err);
    assert_int_equal(n_resumed, 5);
    three = take(&n_three);
    assert_int_equal(n_one, n_three);
    assert_memory_equal(one, three, n_one);
    n_told = 0;
    stop_at = 5;
    ASSERT_ERROR(convert(path, "Q4_K_M", 2, &err), ECANCELED);
    n_told = n_resumed = stop_at = 0;
    ASSERT_OK_ERR(convert(path, "Q8_0", 2, &err), err);
    assert_int_equal(n_resumed, 0);
    assert_int_not_equal(access(part, F_OK), 0);
    remove(path);
    free(path);
    free(one);
    free(two);
    free(three);
}

TEST(nothing_is_replaced_without_consent)
{
    char *path = make_model(0), *other = test_file_save("hello", 5);
    struct inf_err err;
    struct stat st;

    ASSERT_OK(rename(other, out));
    ASSERT_ERROR(convert(path, "Q8_0", 1, &err), EEXIST);
    assert_int_equal(stat(out, &st), 0);
    assert_int_equal(st.st_size, 5);
    ASSERT_OK(rename(out, part));
    ASSERT_ERROR(convert(path, "Q8_0", 1, &err), EEXIST);
    assert_int_equal(stat(part, &st), 0);
    assert_int_equal(st.st_size, 5);
    remove(part);
    remove(path);
    free(path);
    free(other);
}

TEST(numbers_that_a_format_cannot_hold_are_an_error)
{
    char *path = make_model(1e6f);
    struct inf_err err;

    ASSERT_ERROR(convert(path, "F16", 1, &err), EIO);
    ASSERT_CONTAINS(err.text, "blk.1.ffn_down.weight");
    ASSERT_CONTAINS(err.text, "F16");
    remove(part);
    remove(path);
    free(path);
    path = make_model(NAN);
    ASSERT_ERROR(convert(path, "Q8_0", 1, &err), EIO);
    ASSERT_CONTAINS(err.text, "not finite");
    remove(path);
    free(path);
}

TEST(tiny_numbers_are_no_error)
{
    static const char *const types[] = {"F16", "BF16", "Q8_0", "Q4_K_S", "Q6_K"};
    char *path = make_scaled(1e-7f, 0);
    struct inf_err err;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        ASSERT_OK_ERR(convert(path, types[i], 1, &err), err);
        unlink(out);
    }
    remove(path);
    free(path);
}

TEST(a_thread_that_cannot_write_ends_the_conversion)
{
    struct rlimit old, small = {.rlim_cur = 3 * 4096};
    char *path = make_model(0);
    struct inf_err err = {0};
    int r;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    r = convert(path, "Q8_0", 3, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(r, -EFBIG);
    ASSERT_CONTAINS(err.text, "writing");
    assert_int_equal(n_told, 0);
    assert_int_not_equal(access(out, F_OK), 0);
    remove(part);
    remove(path);
    free(path);
}

TEST(wrong_parameters_are_refused)
{
    char *path = make_model(0);
    struct inf_err err;

    ASSERT_ERROR(convert(path, "Q4", 1, &err), EINVAL);
    ASSERT_ERROR(convert("/nonexistent", "Q8_0", 1, &err), ENOENT);
    snprintf(out, sizeof(out), "%s/none/out.gguf", dir);
    ASSERT_ERROR(convert(path, "Q8_0", 1, &err), ENOENT);
    remove(path);
    free(path);
}

#define TEMPDIR_TEST(name) cmocka_unit_test_setup_teardown(name, tempdir_make, tempdir_remove)

RUN_TESTS(TEMPDIR_TEST(each_format_decodes_to_about_the_numbers),
          TEMPDIR_TEST(the_file_does_not_depend_on_threads_and_interruptions),
          TEMPDIR_TEST(nothing_is_replaced_without_consent),
          TEMPDIR_TEST(numbers_that_a_format_cannot_hold_are_an_error),
          TEMPDIR_TEST(tiny_numbers_are_no_error),
          TEMPDIR_TEST(a_thread_that_cannot_write_ends_the_conversion),
          TEMPDIR_TEST(wrong_parameters_are_refused))
