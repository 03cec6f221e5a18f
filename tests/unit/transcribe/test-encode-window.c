/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a tiny random Whisper encoder with transformers in double precision
 * (tests/golden/make_whisper_model.py), and tests invalid tensors.
 */
#include "transcribe/encode-window.h"

#include "core/cpu.h"
#include "format/hf/safetensors.h"
#include "unit/transcribe/golden.h"

#define DIR "audio/whisper-encoder/"

enum { N_MELS = 10, N_CTX = 20, N_EMBD = 32 };

static const struct whisper_shape shape = {N_MELS, N_CTX, N_EMBD, 4, 4 * N_EMBD, 2};

static const struct format_tensor *find(const void *file, const char *name)
{
    return safetensors_find(file, name);
}

static struct safetensors *open_file(struct whisper_source *ret_src)
{
    struct safetensors *st = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(safetensors_open(test_golden(DIR "model.safetensors"), &st, &err), err);
    *ret_src = (struct whisper_source){find, st, true};
    return st;
}

static float *read_floats(const char *name, size_t n)
{
    FILE *f = golden_open(name);
    float *values = golden_array(f, n, sizeof(float));

    fclose(f);
    return values;
}

static double nmse(const float *got, const float *want, size_t n)
{
    double error = 0, power = 0;

    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];

        error += d * d;
        power += (double)want[i] * (double)want[i];
    }
    return error / power;
}

TEST(rows_are_those_of_transformers)
{
    _cleanup_(safetensors_closep) struct safetensors *st = NULL;
    _cleanup_(whisper_encoder_freep) struct whisper_encoder *e = NULL;
    _cleanup_(backend_freep) struct backend *backend = NULL;
    _cleanup_(encode_freep) struct encode *enc = NULL;
    _cleanup_free_ float *mel = read_floats(DIR "mel.bin", 2 * N_CTX * N_MELS);
    _cleanup_free_ float *want = read_floats(DIR "encoded.bin", N_CTX * N_EMBD);
    const struct backend_params params = {.device = "cpu", .n_threads = 2};
    float got[2][N_CTX * N_EMBD];
    struct whisper_source src;
    struct inf_err err;
    double error;

    st = open_file(&src);
    ASSERT_OK_ERR(whisper_encoder_new(&src, &shape, &e, &err), err);
    ASSERT_OK_ERR(backend_new(&params, &backend, &err), err);
    ASSERT_OK_ERR(encode_new(backend, e, NULL, 1, &enc, &err), err);
    for (int i = 0; i < 2; i++)
        ASSERT_OK(encode_run(enc, mel, 1, got[i]));
    error = nmse(got[0], want, N_CTX * N_EMBD);
    print_message("NMSE %g\n", error);
    assert_true(error <= 1e-9);
    assert_memory_equal(got[0], got[1], sizeof(got[0]));
}

/* The rows are also the same after an interrupted run, and with fewer windows. The test runs on
 * each instruction set level, because the levels group rows differently in products. */
TEST(windows_give_the_same_rows_together_and_alone)
{
    enum { N = 3, IN = 2 * N_CTX * N_MELS, OUT = N_CTX * N_EMBD };
    _cleanup_(safetensors_closep) struct safetensors *st = NULL;
    _cleanup_(whisper_encoder_freep) struct whisper_encoder *e = NULL;
    _cleanup_free_ float *first = read_floats(DIR "mel.bin", IN);
    float mel[N * IN], alone[N * OUT], together[N * OUT];
    struct whisper_source src;
    struct inf_err err;

    for (int i = 0; i < N * IN; i++)
        mel[i] = first[(i * (1 + i / IN)) % IN];
    st = open_file(&src);
    ASSERT_OK_ERR(whisper_encoder_new(&src, &shape, &e, &err), err);
    for (int i = 0; cpu_rung_at(i); i++) {
        const struct backend_params params = {
            .device = "cpu", .isa = cpu_rung_at(i), .n_threads = 2};
        _cleanup_(backend_freep) struct backend *backend = NULL;
        _cleanup_(encode_freep) struct encode *enc = NULL;

        ASSERT_OK_ERR(backend_new(&params, &backend, &err), err);
        ASSERT_OK_ERR(encode_new(backend, e, NULL, N, &enc, &err), err);
        for (int j = 0; j < N; j++)
            ASSERT_OK(encode_run(enc, mel + j * IN, 1, alone + j * OUT));
        encode_begin(enc, mel, N);
        for (int j = 0; j < 5; j++)
            ASSERT_OK(encode_go_on(enc, together));
        ASSERT_OK(encode_run(enc, mel, N, together));
        assert_memory_equal(together, alone, sizeof(alone));
        encode_rest(enc);
        ASSERT_OK(encode_run(enc, mel + IN, N - 1, together));
        assert_memory_equal(together, alone + OUT, 2 * OUT * sizeof(float));
    }
}

TEST(other_shapes_are_refused_by_name)
{
    _cleanup_(safetensors_closep) struct safetensors *st = NULL;
    struct whisper_source src;
    struct whisper_shape other = shape;
    struct whisper_encoder *e = NULL;
    struct inf_err err;

    st = open_file(&src);
    other.n_layers = 3;
    ASSERT_ERROR(whisper_encoder_new(&src, &other, &e, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "model.encoder.layers.2.self_attn_layer_norm.weight is missing");
    other = shape;
    other.n_mels = 11;
    ASSERT_ERROR(whisper_encoder_new(&src, &other, &e, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "model.encoder.conv1.weight does not have the shape");
    other = shape;
    other.n_ff = 64;
    ASSERT_ERROR(whisper_encoder_new(&src, &other, &e, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "model.encoder.layers.0.fc1.weight does not have the shape");
    src.hugging_face = false;
    ASSERT_ERROR(whisper_encoder_new(&src, &shape, &e, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "the tensor encoder.conv1.weight is missing");
    assert_null(e);
}

RUN_TESTS(cmocka_unit_test(rows_are_those_of_transformers),
          cmocka_unit_test(windows_give_the_same_rows_together_and_alone),
          cmocka_unit_test(other_shapes_are_refused_by_name))
