/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the network for voice activity detection (VAD). Its probabilities are compared with those
 * of a network in double precision with the same weights (tests/golden/make_audio.py). Its products
 * must have the same bits on all instruction sets of this CPU. Invalid weight files are refused.
 */
#include "lib/test.h"

#include <math.h>

#include "core/cpu.h"
#include "core/macros.h"
#include "core/rng.h"
#include "media/dense.h"
#include "media/vad.h"
#include "unit/media/wav.h"

#define WEIGHTS     "vad/silero_vad_16k.safetensors"
#define WEIGHTS_BIN "vad/for-tests-silero-v6.2.0-ggml.bin"

static const unsigned rungs[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512};

static float worst_error(const struct vad_model *m, const float *samples, size_t n,
                         uint32_t n_chunks, const float *want)
{
    struct vad_state state = {0};
    float worst = 0;

    for (uint32_t i = 0; i < n_chunks; i++) {
        float chunk[VAD_CHUNK] = {0};

        memcpy(chunk, samples + (size_t)i * VAD_CHUNK,
               MIN((size_t)VAD_CHUNK, n - (size_t)i * VAD_CHUNK) * sizeof(float));
        worst = fmaxf(worst, fabsf(vad_step(m, &state, chunk) - want[i]));
    }
    return worst;
}

/* Compares probabilities. @i_row selects the expected row: 0 for the safetensors file, 1 for the
 * .bin file. */
static void check_signals(const struct vad_model *m, uint32_t i_row, float tolerance)
{
    FILE *f = fopen(test_golden("audio/vad.bin"), "rb");
    struct {
        char name[16];
        uint32_t n_chunks;
    } head;

    assert_non_null(f);
    while (fread(&head, sizeof(head), 1, f) == 1) {
        _cleanup_free_ float *want = NEW(float, 2 * (size_t)head.n_chunks);
        _cleanup_free_ float *samples = NULL;
        char path[32];
        float worst;
        size_t n;

        assert_non_null(want);
        assert_int_equal(fread(want, 2 * sizeof(*want), head.n_chunks, f), head.n_chunks);
        snprintf(path, sizeof(path), "%s.wav", head.name);
        assert_non_null(test_data(path));
        samples = wav_read(test_data(path), &n);
        assert_int_equal(DIV_UP(n, VAD_CHUNK), head.n_chunks);
        worst = worst_error(m, samples, n, head.n_chunks, want + (size_t)i_row * head.n_chunks);
        print_message("%s: %g\n", path, (double)worst);
        assert_true(worst <= tolerance);
    }
    fclose(f);
}

TEST(probabilities_are_those_of_the_reference)
{
    _cleanup_(vad_model_closep) struct vad_model *m = NULL;
    struct inf_err err;

    if (!test_data(WEIGHTS))
        skip();
    ASSERT_OK_ERR(vad_model_open(test_data(WEIGHTS), cpu_flags(), &m, &err), err);
    check_signals(m, 0, 1e-5f);
}

/* Files of whisper.cpp have weights in half precision, so each weight has a relative error of up to
 * 2^-11. */
TEST(files_of_whisper_cpp_hear_the_same)
{
    _cleanup_(vad_model_closep) struct vad_model *m = NULL;
    struct inf_err err;

    if (!test_data(WEIGHTS_BIN))
        skip();
    ASSERT_OK_ERR(vad_model_open(test_data(WEIGHTS_BIN), cpu_flags(), &m, &err), err);
    check_signals(m, 1, 5e-3f);
}

TEST(products_have_the_same_bits_everywhere)
{
    enum { N_IN = 37, N_OUT = 272 };
    _Alignas(64) static float w[N_IN * N_OUT], bias[N_OUT], x[DENSE_MAX_COLS * N_IN];
    const struct dense d = {N_IN, N_OUT, w, bias};
    const float *cols[DENSE_MAX_COLS];
    struct rng rng;

    rng_seed(&rng, 5);
    for (size_t i = 0; i < ARRAY_SIZE(w); i++)
        w[i] = (float)rng_double(&rng) - 0.5f;
    for (size_t i = 0; i < ARRAY_SIZE(bias); i++)
        bias[i] = (float)rng_double(&rng);
    for (size_t i = 0; i < ARRAY_SIZE(x); i++)
        x[i] = (float)rng_double(&rng) - 0.5f;
    for (uint32_t c = 0; c < DENSE_MAX_COLS; c++)
        cols[c] = x + (size_t)c * N_IN;
    for (size_t r = 0; r < ARRAY_SIZE(rungs) && (cpu_flags() & rungs[r]) == rungs[r]; r++)
        for (uint32_t n_cols = 1; n_cols <= DENSE_MAX_COLS; n_cols *= 2) {
            float got[DENSE_MAX_COLS * N_OUT];

            dense_get(rungs[r])(&d, cols, n_cols, got);
            for (uint32_t i = 0; i < n_cols * N_OUT; i++) {
                float want = bias[i % N_OUT];

                for (uint32_t k = 0; k < N_IN; k++)
                    want += w[k * N_OUT + i % N_OUT] * cols[i / N_OUT][k];
                assert_true(got[i] == want);
            }
        }
}

TEST(other_files_are_refused_by_name)
{
    struct vad_model *m = NULL;
    struct inf_err err;

    ASSERT_ERROR(vad_model_open("/nonexistent/vad.safetensors", 0, &m, &err), ENOENT);
    ASSERT_ERROR(vad_model_open(test_golden("models/qwen2-tied/model.safetensors"), 0, &m, &err),
                 EBADMSG);
    ASSERT_CONTAINS(err.text, "not a Silero VAD model: there is no stft_conv.weight");
    assert_null(m);
}

RUN_TESTS(cmocka_unit_test(probabilities_are_those_of_the_reference),
          cmocka_unit_test(files_of_whisper_cpp_hear_the_same),
          cmocka_unit_test(products_have_the_same_bits_everywhere),
          cmocka_unit_test(other_files_are_refused_by_name))
