/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a tiny random Whisper model with transformers in double precision
 * (tests/golden/make_whisper_text.py): logits of texts that are computed alone, in batches and in
 * pieces, and attention scores.
 */
#include "transcribe/decode-texts.h"

#include <math.h>

#include "core/cpu.h"
#include "format/hf/safetensors.h"
#include "transcribe/encode-window.h"
#include "unit/transcribe/golden.h"

#define DIR "audio/whisper/"

enum { N_MELS = 80, N_CTX = 1500, N_EMBD = 32, N_VOCAB = 1914, N_TEXTS = 2 };

static const int32_t texts[N_TEXTS][5] = {{401, 402, 408, 17, 300}, {401, 404}};
static const uint32_t lengths[N_TEXTS] = {5, 2};
static const uint64_t kept[] = {1u << 1, 1u << 0 | 1u << 3};

struct subject {
    struct safetensors *st;
    struct whisper_encoder *encoder;
    struct whisper_decoder *decoder;
    struct backend *backend;
    struct encode *encode;
    struct decode decode;
    float *rows; /* output of the encoder */
    float *want; /* expected logits of all texts */
};

static const struct format_tensor *find(const void *file, const char *name)
{
    return safetensors_find(file, name);
}

/* Makes the same sound as make_whisper_text.py. */
static float *sound(size_t n, uint32_t state)
{
    float *x = NEW(float, n), loud = 0;

    for (size_t i = 0; i < n; i++) {
        if (i % 4000 == 0) {
            state = state * 1664525u + 1013904223u;
            loud = (float)(state >> 29) / 16;
        }
        state = state * 1664525u + 1013904223u;
        x[i] = (float)((double)(state >> 9) / 8388608.0 - 0.5) * loud;
    }
    return x;
}

static void encode_sound(struct subject *s)
{
    _cleanup_free_ float *mel = sound((size_t)2 * N_CTX * N_MELS, 9);

    for (size_t i = 0; i < (size_t)2 * N_CTX * N_MELS; i++)
        mel[i] /= 2;
    s->rows = NEW(float, (size_t)N_CTX *N_EMBD);
    ASSERT_OK(encode_run(s->encode, mel, 1, s->rows));
}

static int setup(void **state)
{
    static const struct whisper_shape shape = {N_MELS, N_CTX, N_EMBD, 4, 4 * N_EMBD, 2};
    static const struct whisper_text_shape text = {N_VOCAB, 64, N_EMBD, 4, 4 * N_EMBD, 2};
    /* This instruction set level multiplies F16 weights as floats. */
    const char *rung = cpu_rung_at(1) ? cpu_rung_at(1) : "ref";
    const struct backend_params on = {.device = "cpu", .isa = rung, .n_threads = 2};
    struct subject *s = NEW(struct subject, 1);
    struct whisper_source src;
    struct decode_params params;
    struct inf_err err;
    FILE *f;

    ASSERT_OK_ERR(safetensors_open(test_golden(DIR "model.safetensors"), &s->st, &err), err);
    src = (struct whisper_source){find, s->st, true};
    ASSERT_OK_ERR(whisper_encoder_new(&src, &shape, &s->encoder, &err), err);
    ASSERT_OK_ERR(whisper_decoder_new(&src, &text, &s->decoder, &err), err);
    ASSERT_OK_ERR(backend_new(&on, &s->backend, &err), err);
    ASSERT_OK_ERR(encode_new(s->backend, s->encoder, NULL, 1, &s->encode, &err), err);
    params = (struct decode_params){
        .backend = s->backend,
        .decoder = s->decoder,
        .kept = {kept},
        .n_audio = N_CTX,
        .max_memories = 2,
        .max_texts = 3,
        .max_rows = 16,
        .max_logits = 16,
        .codec = CODEC_F32,
    };
    ASSERT_OK_ERR(decode_init(&s->decode, &params, &err), err);
    encode_sound(s);
    f = golden_open(DIR "logits.bin");
    s->want = golden_array(f, (size_t)(lengths[0] + lengths[1]) * N_VOCAB, sizeof(float));
    fclose(f);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct subject *s = *state;

    decode_done(&s->decode);
    encode_free(s->encode);
    backend_free(s->backend);
    whisper_decoder_free(s->decoder);
    whisper_encoder_free(s->encoder);
    safetensors_close(s->st);
    free(s->rows);
    free(s->want);
    free(s);
    return 0;
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

/* Makes block tables of the encoder's output, whose keys and values are cached, and of texts. */
static void tables_init(struct subject *s, struct kv_table *memory, struct kv_table *text, int n)
{
    ASSERT_OK(decode_memory_init(&s->decode, memory));
    ASSERT_OK(decode_remember(&s->decode, memory, s->rows));
    for (int i = 0; i < n; i++)
        ASSERT_OK(decode_text_init(&s->decode, &text[i]));
}

static void tables_done(struct kv_table *memory, struct kv_table *text, int n)
{
    for (int i = 0; i < n; i++)
        kv_table_done(&text[i]);
    kv_table_done(memory);
}

TEST(logits_are_those_of_transformers)
{
    struct subject *s = *state;
    _cleanup_free_ float *got = NEW(float, (size_t)7 * N_VOCAB);
    struct decode_item items[N_TEXTS];
    struct kv_table memory, text[N_TEXTS];
    double error;

    tables_init(s, &memory, text, N_TEXTS);
    for (int i = 0; i < N_TEXTS; i++)
        items[i] = (struct decode_item){&text[i], &memory, texts[i], lengths[i], lengths[i], -1};
    ASSERT_OK(decode_run(&s->decode, items, N_TEXTS, got, NULL));
    error = nmse(got, s->want, (size_t)7 * N_VOCAB);
    print_message("NMSE %g\n", error);
    assert_true(error <= 1e-9);
    tables_done(&memory, text, N_TEXTS);
}

TEST(pieces_and_shared_beginnings_change_no_bit)
{
    struct subject *s = *state;
    _cleanup_free_ float *whole = NEW(float, (size_t)7 * N_VOCAB);
    _cleanup_free_ float *got = NEW(float, (size_t)7 * N_VOCAB);
    struct kv_table memory, text[3];
    struct decode_item items[2];

    tables_init(s, &memory, text, 3);
    items[0] = (struct decode_item){&text[0], &memory, texts[0], 5, 1, 0};
    ASSERT_OK(decode_run(&s->decode, items, 1, whole, NULL));
    items[0] = (struct decode_item){&text[1], &memory, texts[0], 3, 0, 0};
    ASSERT_OK(decode_run(&s->decode, items, 1, got, NULL));
    assert_memory_equal(got, whole, N_VOCAB * sizeof(float));
    kv_table_share(&text[2], &text[1], 3);
    for (int i = 0; i < 2; i++)
        items[i] = (struct decode_item){&text[i + 1], &memory, texts[0] + 3, 2, 1, -1};
    ASSERT_OK(decode_run(&s->decode, items, 2, got, NULL));
    for (int i = 0; i < 2; i++)
        assert_memory_equal(got + (size_t)i * N_VOCAB, whole + N_VOCAB, N_VOCAB * sizeof(float));
    tables_done(&memory, text, 3);
}

TEST(scores_of_the_requested_heads_are_kept)
{
    struct subject *s = *state;
    enum { N_FRAMES = 70 };
    _cleanup_free_ float *logits = NEW(float, N_VOCAB);
    _cleanup_free_ float *all = NEW(float, 3 * 5 * N_FRAMES);
    _cleanup_free_ float *last = NEW(float, 5 * N_FRAMES);
    struct decode_scores scores = {all, 0, 3, N_FRAMES, N_FRAMES, 5 * N_FRAMES};
    struct kv_table memory, text[2];
    struct decode_item item;

    tables_init(s, &memory, text, 2);
    item = (struct decode_item){&text[0], &memory, texts[0], 5, 1, -1};
    ASSERT_OK(decode_run(&s->decode, &item, 1, logits, &scores));
    item.text = &text[1];
    scores = (struct decode_scores){last, 2, 1, N_FRAMES, N_FRAMES, 0};
    ASSERT_OK(decode_run(&s->decode, &item, 1, logits, &scores));
    assert_memory_equal(last, all + (size_t)2 * 5 * N_FRAMES, 5 * N_FRAMES * sizeof(float));
    for (int i = 0; i < 3 * 5 * N_FRAMES; i++)
        assert_true(isfinite(all[i]) && all[i] != 0);
    tables_done(&memory, text, 2);
}

TEST(other_shapes_are_refused_by_name)
{
    struct subject *s = *state;
    const struct whisper_source src = {find, s->st, true};
    struct whisper_text_shape other = *whisper_decoder_shape(s->decoder);
    struct whisper_decoder *d = NULL;
    struct inf_err err;

    other.n_layers = 3;
    ASSERT_ERROR(whisper_decoder_new(&src, &other, &d, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "model.decoder.layers.2.self_attn_layer_norm.weight is missing");
    other.n_layers = 2;
    other.n_vocab++;
    ASSERT_ERROR(whisper_decoder_new(&src, &other, &d, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "model.decoder.embed_tokens.weight does not have the shape");
    assert_null(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_transformers),
        cmocka_unit_test(pieces_and_shared_beginnings_change_no_bit),
        cmocka_unit_test(scores_of_the_requested_heads_are_kept),
        cmocka_unit_test(other_shapes_are_refused_by_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
