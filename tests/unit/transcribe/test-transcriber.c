/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the whole transcriber with OpenAI's whisper on synthetic sound
 * (tests/golden/make_whisper_text.py): windows, tokens, times and words must be the same. Also
 * tests requests that wait, are canceled, or exceed limits.
 */
#include <infer/audio.h>

#include <math.h>

#include "core/cpu.h"
#include "format/json.h"
#include "unit/transcribe/golden.h"

#define DIR "audio/whisper"

enum { RATE = 16000, PIECE = 8000 };

static struct inf_model *open_model(const char *name)
{
    const struct inf_model_params params = {.path = test_golden(name)};
    struct inf_model *m = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_model_open(&params, &m, &err), err);
    return m;
}

static struct inf_transcriber *open_transcriber(struct inf_model *m, uint32_t n_running,
                                                uint32_t n_waiting)
{
    /* This instruction set level multiplies F16 weights as floats. */
    const struct inf_transcriber_params params = {
        .model = m,
        .isa = cpu_rung_at(1) ? cpu_rung_at(1) : "ref",
        .n_threads = 2,
        .exact = true,
        .max_requests = n_running,
        .max_queue = n_waiting,
    };
    struct inf_transcriber *t = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_transcriber_new(&params, &t, &err), err);
    return t;
}

/* Makes the same sound as make_whisper_text.py. */
static float *sound(size_t n, uint32_t state)
{
    float *x = NEW(float, n), loud = 0;

    assert_non_null(x);
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

static json_t *read_cases(void)
{
    json_t *cases = json_load_file(test_golden(DIR "/heard.json"), 0, NULL);

    assert_non_null(cases);
    return cases;
}

static size_t n_samples_of(const json_t *want)
{
    return (size_t)json_integer_value(json_object_get(want, "seconds")) * RATE + 123;
}

static struct inf_audio_request request_of(const json_t *want)
{
    static const float zero = 0;
    const json_t *o = json_object_get(want, "options");
    const char *task = json_string_value(json_object_get(o, "task"));

    return (struct inf_audio_request){
        .task = task && strcmp(task, "translate") == 0 ? INF_AUDIO_TRANSLATE : INF_AUDIO_TRANSCRIBE,
        .language = json_string_value(json_object_get(o, "language")),
        .prompt = json_string_value(json_object_get(o, "initial_prompt")),
        .temperatures = &zero,
        .n_temperatures = 1,
        .beam_size = (uint32_t)json_integer_value(json_object_get(o, "beam_size")),
        .words = json_is_true(json_object_get(o, "word_timestamps")),
        .no_carry = json_is_false(json_object_get(o, "condition_on_previous_text")),
    };
}

static double number(const json_t *of, const char *key)
{
    return json_number_value(json_object_get(of, key));
}

static void assert_words(const struct inf_audio_event *e, const json_t *want)
{
    assert_int_equal(e->n_words, json_array_size(want));
    for (size_t i = 0; i < e->n_words; i++) {
        const json_t *w = json_array_get(want, i);

        assert_string_equal(e->words[i].text, json_string_value(json_object_get(w, "word")));
        /* A boundary may differ by one frame, because the last bits of the scores differ. */
        assert_true(fabs(e->words[i].start - number(w, "start")) < 0.021);
        assert_true(fabs(e->words[i].end - number(w, "end")) < 0.021);
        assert_true(fabs((double)e->words[i].probability - number(w, "probability")) < 1e-3);
    }
}

static void assert_segment(const struct inf_audio_event *e, const json_t *want)
{
    const json_t *tokens = json_object_get(want, "tokens");

    assert_int_equal(e->seek, json_integer_value(json_object_get(want, "seek")));
    assert_int_equal(e->n_tokens, json_array_size(tokens));
    for (size_t i = 0; i < e->n_tokens; i++)
        assert_int_equal(e->tokens[i], json_integer_value(json_array_get(tokens, i)));
    assert_true(fabs(e->start - number(want, "start")) < (e->n_words > 0 ? 0.021 : 1e-6));
    assert_true(fabs(e->end - number(want, "end")) < (e->n_words > 0 ? 0.021 : 1e-6));
    assert_true(fabs((double)e->avg_logprob - number(want, "avg_logprob")) < 1e-3);
    assert_true(fabs((double)e->compression_ratio - number(want, "compression_ratio")) < 1e-5);
    assert_true(fabs((double)e->no_speech_prob - number(want, "no_speech_prob")) < 1e-5);
    assert_words(e, json_object_get(want, "words"));
}

/* Returns the next segment of the reference that is not empty. */
static const json_t *next_want(const json_t *segments, size_t *i)
{
    const json_t *s;

    while ((s = json_array_get(segments, (*i)++)))
        if (json_array_size(json_object_get(s, "tokens")) > 0)
            return s;
    return NULL;
}

struct progress {
    const json_t *want; /* the case, or NULL */
    uint64_t id;
    float *samples;
    size_t n, fed, i_segment, n_segments;
    bool full, over, language;
    int error;
};

static void feed(struct inf_transcriber *t, struct progress *p)
{
    while (!p->full && p->fed < p->n) {
        const size_t n = MIN((size_t)PIECE, p->n - p->fed);
        const int r = inf_transcriber_feed(t, p->id, p->samples + p->fed, n);

        if (r == INF_AUDIO_FULL) {
            p->full = true;
            return;
        }
        ASSERT_OK(r);
        p->fed += n;
        if (p->fed == p->n)
            inf_transcriber_finish(t, p->id);
    }
}

static void take(struct progress *p, const struct inf_audio_event *e)
{
    assert_ptr_equal(e->user, p);
    assert_false(p->over);
    switch (e->kind) {
    case INF_AUDIO_LANGUAGE:
        assert_false(p->language);
        p->language = true;
        if (p->want && !json_object_get(p->want, "bin"))
            assert_string_equal(e->language,
                                json_string_value(json_object_get(p->want, "language")));
        return;
    case INF_AUDIO_SEGMENT:
        assert_int_equal(e->id, p->n_segments++);
        if (p->want) {
            const json_t *want = next_want(json_object_get(p->want, "segments"), &p->i_segment);

            assert_non_null(want);
            assert_segment(e, want);
        }
        return;
    case INF_AUDIO_ROOM:
        assert_true(p->full);
        p->full = false;
        return;
    case INF_AUDIO_DONE:
    case INF_AUDIO_FAILED:
        p->over = true;
        p->error = e->error;
        assert_int_equal(e->kind == INF_AUDIO_FAILED, e->error < 0);
        if (p->want) {
            assert_null(next_want(json_object_get(p->want, "segments"), &p->i_segment));
            assert_true(fabs(e->seconds - (double)p->n / RATE) < 1e-9);
        }
        return;
    }
}

static void run(struct inf_transcriber *t, struct progress *all, size_t n)
{
    size_t n_over = 0;

    for (size_t i = 0; i < n; i++)
        feed(t, &all[i]);
    while (n_over < n) {
        struct inf_audio_event *e = inf_transcriber_wait_event(t, 100000);
        struct progress *p;

        assert_non_null(e);
        p = e->user;
        take(p, e);
        n_over += p->over;
        feed(t, p);
        inf_audio_event_free(e);
    }
}

static void begin(struct inf_transcriber *t, struct progress *p, const json_t *want)
{
    struct inf_audio_request request = request_of(want);
    struct inf_err err;

    *p = (struct progress){.want = want, .n = n_samples_of(want)};
    p->samples = sound(p->n, (uint32_t)json_integer_value(json_object_get(want, "seed")));
    request.user = p;
    ASSERT_OK_ERR(inf_transcriber_submit(t, &request, &p->id, &err), err);
}

/* The requests run one after another and then all at once. They must not affect each other. */
TEST(texts_are_those_of_the_reference)
{
    _cleanup_(json_decrefpp) json_t *cases = read_cases();
    struct inf_model *m = open_model(DIR);
    const size_t n = json_array_size(cases);
    struct progress p[16];

    assert_true(n <= ARRAY_SIZE(p));
    for (uint32_t n_running = 1; n_running <= 4; n_running += 3) {
        struct inf_transcriber *t = open_transcriber(m, n_running, 16);
        struct inf_transcriber_stats stats;
        size_t n_begun = 0;

        for (size_t i = 0; i < n; i++) {
            const json_t *want = json_array_get(cases, i);

            if (json_object_get(want, "segments") && !json_object_get(want, "bin"))
                begin(t, &p[n_begun++], want);
        }
        assert_true(n_begun >= 5);
        run(t, p, n_begun);
        inf_transcriber_stats(t, &stats);
        assert_int_equal(stats.n_requests, n_begun);
        assert_true(stats.n_windows > n_begun && stats.n_tokens > 0 && stats.busy_seconds > 0);
        /* If windows are slow, for example under sanitizers, requests run one by one. */
        if (n_running == 1)
            assert_int_equal(stats.n_passes, stats.n_windows);
        else if (stats.busy_seconds < 0.2 * (double)stats.n_windows)
            assert_true(stats.n_passes < stats.n_windows);
        for (size_t i = 0; i < n_begun; i++) {
            assert_int_equal(p[i].error, 0);
            free(p[i].samples);
        }
        inf_transcriber_free(t);
    }
    inf_model_unref(m);
}

/* A .bin file with such a small vocabulary is an English-only model. */
TEST(bin_files_are_heard_alike)
{
    _cleanup_(json_decrefpp) json_t *cases = read_cases();
    struct inf_model *m = open_model(DIR "/ggml.bin");
    struct inf_transcriber *t = open_transcriber(m, 2, 2);
    struct progress p;
    size_t n = 0;

    assert_false(inf_transcriber_is_multilingual(t));
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *want = json_array_get(cases, i);

        if (!json_object_get(want, "bin"))
            continue;
        begin(t, &p, want);
        run(t, &p, 1);
        free(p.samples);
        n++;
    }
    assert_int_equal(n, 1);
    inf_transcriber_free(t);
    inf_model_unref(m);
}

TEST(impossible_requests_are_refused)
{
    struct inf_model *m = open_model(DIR), *english = open_model(DIR "/ggml.bin");
    struct inf_transcriber *t = open_transcriber(m, 1, 1), *e = open_transcriber(english, 1, 1);
    struct inf_audio_request q = {.language = "fr"};
    const float bad = 3, good = 0.5f;
    struct inf_err err;
    uint64_t id = 0;

    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "fr");
    ASSERT_ERROR(inf_transcriber_submit(e, &q, &id, &err), EINVAL);
    q.language = "english";
    ASSERT_OK_ERR(inf_transcriber_submit(e, &q, &id, &err), err);
    q.task = INF_AUDIO_TRANSLATE;
    ASSERT_ERROR(inf_transcriber_submit(e, &q, &id, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "only knows English");
    q.temperatures = &bad;
    q.n_temperatures = 1;
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    q.temperatures = &good;
    q.n_temperatures = 0;
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    q.n_temperatures = 1;
    q.best_of = 17;
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "16");
    q.best_of = 0;
    q.vad.threshold = 1;
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "threshold");
    q.vad = (struct inf_audio_vad){.pad_ms = 5001};
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    q.vad = (struct inf_audio_vad){.silence_ms = 20001};
    ASSERT_ERROR(inf_transcriber_submit(t, &q, &id, &err), EINVAL);
    inf_transcriber_free(t);
    inf_transcriber_free(e);
    inf_model_unref(m);
    inf_model_unref(english);
}

/* With one running and one waiting request the queue is full; a canceled request makes room. */
TEST(requests_wait_and_leave)
{
    struct inf_model *m = open_model(DIR);
    struct inf_transcriber *t = open_transcriber(m, 1, 1);
    const float half[] = {0.5f, 1};
    struct progress p[2] = {{.n = 40 * RATE}, {.n = RATE}};
    struct inf_audio_request q = {.temperatures = half, .n_temperatures = 2, .best_of = 3};
    struct inf_transcriber_stats stats;
    struct inf_err err;
    uint64_t id;

    for (int i = 0; i < 2; i++) {
        q.user = &p[i];
        p[i].samples = sound(p[i].n, 7);
        ASSERT_OK_ERR(inf_transcriber_submit(t, &q, &p[i].id, &err), err);
        do /* until the first request runs */
            inf_transcriber_stats(t, &stats);
        while (i == 0 && stats.n_running == 0);
    }
    assert_int_equal(inf_transcriber_submit(t, &q, &id, &err), INF_AUDIO_FULL);
    inf_transcriber_stats(t, &stats);
    assert_int_equal(stats.n_rejected, 1);
    assert_int_equal(stats.n_waiting, 1);
    feed(t, &p[0]);
    feed(t, &p[1]);
    ASSERT_ERROR(inf_transcriber_feed(t, p[0].id, p[0].samples, 1), ENOENT);
    ASSERT_ERROR(inf_transcriber_feed(t, 99, p[0].samples, 1), ENOENT);
    inf_transcriber_cancel(t, p[0].id);
    inf_transcriber_cancel(t, 99);
    run(t, p, 2);
    assert_int_equal(p[0].error, -ECANCELED);
    assert_int_equal(p[1].error, 0);
    free(p[0].samples);
    free(p[1].samples);
    inf_transcriber_free(t);
    inf_model_unref(m);
}

/* The sound is larger than the buffer. The caller is notified when it can continue. */
TEST(long_sound_comes_piece_by_piece)
{
    struct inf_model *m = open_model(DIR);
    struct inf_transcriber *t = open_transcriber(m, 2, 2);
    static const float zero = 0;
    struct progress p = {.n = (size_t)200 * RATE};
    struct inf_audio_request q = {
        .language = "en", .temperatures = &zero, .n_temperatures = 1, .hotwords = "the words"};
    struct inf_err err;

    q.user = &p;
    p.samples = sound(p.n, 11);
    ASSERT_OK_ERR(inf_transcriber_submit(t, &q, &p.id, &err), err);
    feed(t, &p);
    assert_true(p.full && p.fed < (size_t)190 * RATE);
    run(t, &p, 1);
    assert_int_equal(p.error, 0);
    assert_true(p.n_segments > 0);
    free(p.samples);
    inf_transcriber_free(t);
    inf_model_unref(m);
}

/* Runs a request without sound, and a request that is freed while it runs. */
TEST(requests_without_sound_give_no_text)
{
    struct inf_model *m = open_model(DIR);
    struct inf_transcriber *t = open_transcriber(m, 1, 4);
    struct inf_audio_request q = {0};
    struct progress p = {.n = (size_t)20 * RATE};
    struct inf_audio_event *e;
    struct inf_err err;
    uint64_t id = 0;

    ASSERT_OK_ERR(inf_transcriber_submit(t, &q, &id, &err), err);
    inf_transcriber_finish(t, id);
    e = inf_transcriber_wait_event(t, 10000);
    assert_non_null(e);
    assert_int_equal(e->kind, INF_AUDIO_DONE);
    inf_audio_event_free(e);
    p.samples = sound(p.n, 3);
    ASSERT_OK_ERR(inf_transcriber_submit(t, &q, &p.id, &err), err);
    ASSERT_OK_ERR(inf_transcriber_submit(t, &q, &id, &err), err);
    feed(t, &p);
    inf_transcriber_free(t);
    free(p.samples);
    inf_model_unref(m);
}

RUN_TESTS(cmocka_unit_test(texts_are_those_of_the_reference),
          cmocka_unit_test(bin_files_are_heard_alike),
          cmocka_unit_test(impossible_requests_are_refused),
          cmocka_unit_test(requests_wait_and_leave),
          cmocka_unit_test(long_sound_comes_piece_by_piece),
          cmocka_unit_test(requests_without_sound_give_no_text))
